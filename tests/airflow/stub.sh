#!/bin/bash
# Stands in for `braid` where a test is about what Airflow does with a command's exit code and output.
# $STUB is a folder: `calls` records the command lines, `ready` lets the cut be there, `exits` holds lines such as
# "batch run=1" with exit codes of commands.
printf '%s\n' "$*" >> "$STUB/calls"
code=$(sed -n "s/^$1 ${2:-}=//p" "$STUB/exits" 2> /dev/null)
if [ "$1 $2" = "batch cut" ]; then
    [ -e "$STUB/ready" ] || exit 99
    # A new answer each time, except for a run that has one.
    pinned="$STUB/$(printf '%s' "$*" | tr -c 'A-Za-z0-9' _)"
    [ -s "$pinned" ] || date -u +%Y-%m-%dT%H:%M:%S+00:00 > "$pinned"
    cat "$pinned"
    echo "a warning that comes last" >&2
elif [ "$1 $2" = "batch chunks" ]; then
    end='"CUT": "2021-01-01T00:00:00+00:00", "VIEWS": "pages visits"}'
    echo "[{\"FROM\": \"2020-01-01\", \"TO\": \"2020-07-18\", $end, {\"FROM\": \"2020-07-19\", \"TO\": \"2020-12-31\", $end]"
fi
[ -z "$code" ] || echo "error: the day is held in pages: volume is 3, wanted at most 2" >&2
exit "${code:-0}"
