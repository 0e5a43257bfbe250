"""The files that a project begins with: definitions, settings, a test with a naive truth, DAGs, CI and a README."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

from braid.define.loading import collect
from braid.errors import BraidError
from braid.project.infer import Inferred, infer
from braid.project.sample import Sample

# What a test reads; more would say the same again.
TESTED = 50
DAGS = ("daily_batch", "restate", "backfill_range", "kappa_replay", "maintain")
MADE_UP = (
    {"order_id": "o-1", "placed": "2024-05-01T09:12:00Z", "country": "DE", "amount": 19.90},
    {"order_id": "o-2", "placed": "2024-05-01T23:59:30Z", "country": "FR", "amount": 5.00},
    {"order_id": "o-3", "placed": "2024-05-02T00:00:10Z", "country": "DE", "amount": 120.50},
    {"order_id": "o-3", "placed": "2024-05-02T00:00:10Z", "country": "DE", "amount": 120.50},
    {"order_id": "o-4", "placed": "2024-05-02T08:00:00Z", "country": "DE", "amount": "twelve"},
    {"order_id": "o-5", "placed": "2024-05-02T11:45:00Z", "country": "FR", "amount": 12.25},
)


@dataclass(frozen=True)
class Origin:
    """Where the events of a project come from: a topic, or files of one name or pattern."""

    name: str
    topic: str | None = None
    files: str | None = None


def made_up() -> Sample:
    """Orders of a shop, one of them twice and one with its price in words, for who has no events yet."""
    lines = tuple(json.dumps(event).encode() for event in MADE_UP)
    return Sample(tuple(event for event in MADE_UP if not isinstance(event["amount"], str)), lines)


def named(text: str) -> str:
    """A topic's or a file's name as that of a source."""
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_0123456789") or "events"


def project(origin: Origin, sample: Sample) -> tuple[dict[str, str], Inferred]:
    """Path -> text of each file, and what was guessed for them. What it writes is loaded once, to be sure of it."""
    found = infer(sample.events, written=sample.is_csv)
    view = f"{origin.name}_per_day"
    suffix = "csv" if sample.is_csv else "jsonl"
    events = f"tests/{origin.name}.{suffix}"
    definitions = _definitions(origin, sample, found, view)
    values: dict[str, object] = {}
    exec(compile(definitions, "definitions.py", "exec"), values)
    collect(values.values(), "definitions.py")
    header = [] if sample.header is None else [sample.header]
    lines = b"\n".join([*header, *sample.lines[:TESTED]]).decode("utf-8", "replace")
    return {
        "definitions.py": definitions,
        "braid.toml": 'definitions = "definitions.py"\n',
        events: lines + "\n",
        f"tests/{view}.py": _test(found, view, f"{origin.name}.{suffix}"),
        "dags/braid_dags.py": _dags(),
        ".github/workflows/braid.yml": _CI,
        ".gitignore": ".braid/\n.venv/\n__pycache__/\n",
        "README.md": _readme(origin, view, events),
    }, found


def write(folder: Path, files: dict[str, str]) -> None:
    """All of them or none: what is there already is somebody's."""
    if there := [name for name in files if (folder / name).exists()]:
        raise BraidError(f"{folder / there[0]} is there already: name another folder, or move it away.")
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def _q(text: str | None) -> str:
    return json.dumps(text, ensure_ascii=False)


def _definitions(origin: Origin, sample: Sample, found: Inferred, view: str) -> str:
    where = f"kafka_topic={_q(origin.topic)}" if origin.topic else f"files={_q(origin.files)}"
    options = [f"name={_q(origin.name)}", where]
    if sample.is_csv:
        options += [
            'format="csv"',
            *([f"delimiter={_q(sample.delimiter)}"] if sample.delimiter != "," else []),
        ]
    options += [f"schema={_q(found.schema)}", f"event_time={_q(found.event_time)}"]
    options += [f"event_id={_q(found.event_id)}"] if found.event_id else []
    options += [f"time_format={_q(found.time_format)}"] if found.time_format else []
    options.append('timezone="UTC"')
    imported = ["Source", "View", "count", *(["sum_"] if found.total else []), "tumbling"]
    measures = '"events": count()' + (f', "total": sum_({_q(found.total)})' if found.total else "")
    keys = f"    keys=({_q(found.key)},),\n" if found.key else ""
    guesses = "".join(f"#   {one.part}: {one.guess} ({one.why})\n" for one in found.guesses)
    return (
        '"""A source of events, and views of it: batch and stream are both computed from this."""\n\n'
        f"from braid import {', '.join(imported)}\n\n"
        f"# Guessed from {len(sample.events)} events; mend what is wrong:\n{guesses}"
        f"{origin.name} = Source(\n" + "".join(f"    {one},\n" for one in options) + ")\n\n"
        f"{view} = View(\n    name={_q(view)},\n    source={origin.name},\n{keys}"
        f'    window=tumbling("1 day"),\n    measures={{{measures}}},\n)\n'
    )


def _test(found: Inferred, view: str, events: str) -> str:
    key = f'event["{found.key}"], ' if found.key else ""
    value = f'event["{found.total}"]'
    total = f'        if {value} is not None:\n            row["total"] = (row["total"] or 0) + {value}\n'
    total = total if found.total else ""
    start = '{"events": 0, "total": None}' if found.total else '{"events": 0}'
    return f'''"""What {view} should be, by a loop over plain values: `braid test` compares the two."""

from zoneinfo import ZoneInfo

view = "{view}"
events = "{events}"
ZONE = ZoneInfo("UTC")


def truth(events):
    """Keys and the window's start -> each measure. The events are those that were accepted, each once."""
    rows = {{}}
    for event in events:
        local = event["{found.event_time}"].astimezone(ZONE)
        day = local.replace(hour=0, minute=0, second=0, microsecond=0)
        row = rows.setdefault(({key}day), {start})
        row["events"] += 1
{total}    return rows
'''.replace("rows.setdefault((day),", "rows.setdefault((day,),")


def _dags() -> str:
    lines = "".join(f"from braid.dags.{name} import dag as {name}\n" for name in DAGS)
    listed = ", ".join(f'"{name}"' for name in DAGS)
    said = "Braid's DAGs, for an Airflow that reads this folder: `braid airflow up --dags dags`."
    return f'"""{said}"""\n\n{lines}\n__all__ = [{listed}]\n'


def _readme(origin: Origin, view: str, events: str) -> str:
    send = f"`braid produce --jsonl {events} --source {origin.name}` sends the events of the test to its topic.\n"
    return f"""# {origin.name}

Numbers by Braid. `definitions.py` says what is counted; its comments say what was guessed.

The next three commands:

```sh
braid test    # the views against a naive truth, without a broker
braid check   # every definition, compiled by Spark
braid up      # broker, ingest, streams and the dashboard, until Ctrl-C
```

{send if origin.topic else ""}Then `braid query {view}` gives numbers, and `braid batch run` recomputes days.

- `tests/` has a test for each view: events in a file, and `truth`, a loop over them.
- `dags/` has Braid's DAGs for Airflow: `braid airflow up --dags dags`.
- `.github/workflows/braid.yml` runs `braid test`, `braid check` and `braid plan --check`.
"""


_CI = """\
name: braid
on: [push, pull_request]
jobs:
  definitions:
    runs-on: ubuntu-latest
    env:
      # Where what is deployed lies, such as s3a://bucket/braid; without it nothing is compared.
      DEPLOYED: ${{ vars.BRAID_HOME }}
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with: {python-version: "3.11"}
      - uses: actions/setup-java@v4
        with: {distribution: temurin, java-version: "17"}
      - run: pip install 'braid[engine]'
      - run: braid setup
      - run: braid test
      - run: braid check
      # Exit code 1: what is deployed is not what is defined here.
      - run: BRAID_HOME="$DEPLOYED" braid plan --check
        if: env.DEPLOYED != ''
"""
