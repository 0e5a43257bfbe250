"""`braid produce`: events to Kafka or to a file, made up or replayed, with the exact expected answer."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import typer

from braid.cli.options import require_writable
from braid.cli.output import Json, errors, print_json, say
from braid.define.durations import parse_duration
from braid.define.loading import load_definitions
from braid.define.names import suggest
from braid.define.source import Source
from braid.errors import BraidError
from braid.produce.clf import replay_clf
from braid.produce.outlet import FileOutlet, OnAck, Outlet, kafka_outlet
from braid.produce.replay import Replay, parse_delimiter, parse_renames, replay
from braid.produce.run import Production, Summary, check_sending, run
from braid.produce.weblog import START, TOPIC, ZONE, Weblog, parse_start, weblog
from braid.runtime.settings import current_settings

SCENARIOS = ("weblog",)
INTERRUPTED = 130
MILLISECOND = timedelta(milliseconds=1)

MADE_UP = "Made up"
FILES = "Replayed"
SENDING = "Sending"
# Options that would be ignored where they do not belong, and are refused instead.
_OF_SCENARIOS = (
    "scenario", "events", "days", "start", "seed", "late", "duplicates", "duplicates_far", "malformed", "out_of_order",
    "arrived_after",
)  # fmt: skip
_OF_ROWS = ("arrival", "renames", "id_column", "delimiter")


def _option(panel: str, text: str, *names: str, metavar: str | None = None) -> Any:
    return typer.Option(*names, help=text, metavar=metavar, rich_help_panel=panel)


def produce(
    context: typer.Context,
    *,
    scenario: Annotated[str, typer.Argument(help="What to make up: weblog.")] = "weblog",
    events: Annotated[int, _option(MADE_UP, "How many different events.")] = 10_000,
    days: Annotated[int, _option(MADE_UP, "Over how many days, in the source's time zone.")] = 3,
    start: Annotated[str, _option(MADE_UP, "The first day.", metavar="DAY")] = START.isoformat(),
    seed: Annotated[int, _option(MADE_UP, "The same seed and options make the same bytes.")] = 1,
    late: Annotated[float, _option(MADE_UP, "Share of events sent minutes to days late.")] = 0.0,
    duplicates: Annotated[float, _option(MADE_UP, "Share of events sent again a little later.")] = 0.0,
    duplicates_far: Annotated[
        float, _option(MADE_UP, "Share of events sent again after all others, perhaps beyond the horizon.")
    ] = 0.0,
    malformed: Annotated[float, _option(MADE_UP, "Share of events that ingest must refuse.")] = 0.0,
    out_of_order: Annotated[float, _option(MADE_UP, "Share of events that neighbours overtake.")] = 0.0,
    arrived_after: Annotated[
        str | None,
        _option(
            MADE_UP,
            "Say in a column `arrived` when each came: so long after its turn, such as 0s.",
            metavar="LENGTH",
        ),
    ] = None,
    clf: Annotated[Path | None, _option(FILES, "A file in Common Log Format.", metavar="FILE")] = None,
    csv: Annotated[Path | None, _option(FILES, "A CSV file with a header.", metavar="FILE")] = None,
    jsonl: Annotated[Path | None, _option(FILES, "A file with a JSON object a line.", metavar="FILE")] = None,
    arrival: Annotated[
        str | None, _option(FILES, "Send the rows in the order of this column.", metavar="COLUMN")
    ] = None,
    renames: Annotated[
        list[str] | None, _option(FILES, "Send column OLD as NEW. Repeatable.", "--map", metavar="NEW=OLD")
    ] = None,
    id_column: Annotated[
        str | None, _option(FILES, "The event's id; else its file and line.", "--id", metavar="COLUMN")
    ] = None,
    delimiter: Annotated[str | None, _option(FILES, "Between columns: a comma, in .tsv files a tab.")] = None,
    source: Annotated[
        str | None,
        _option(SENDING, "For this source: its topic, column types and time zone.", metavar="NAME"),
    ] = None,
    topic: Annotated[str | None, _option(SENDING, f"The topic; else the source's, else {TOPIC}.")] = None,
    partitions: Annotated[int, _option(SENDING, "Of a topic that must be created.")] = 3,
    rate: Annotated[float, _option(SENDING, "Records a second; 0 is as fast as possible.")] = 0.0,
    to: Annotated[Path | None, _option(SENDING, "Write a file instead of Kafka.", metavar="FILE")] = None,
    truth: Annotated[
        Path | None, _option(SENDING, "Write the exact expected answer here, as JSON.", metavar="FILE")
    ] = None,
    json: Json = False,
) -> None:
    """Send events: a made-up web log (the default), or a file (.gz too) with its real disorder.

    Examples: `braid produce weblog --events 100000 --late 0.2 --duplicates 0.05 --malformed 0.03 --truth truth.json`
    and `braid produce --csv quakes.csv --source quakes --arrival updated`
    """
    check_sending(rate, partitions)
    for path in (truth, to):
        require_writable(path)
    target = _target(source, topic)
    named = {
        name: path for name, path in {"clf": clf, "csv": csv, "jsonl": jsonl}.items() if path is not None
    }
    if named:
        _refuse(context, _OF_SCENARIOS, "a replayed file")
        name, path = _the_only(named)
        if name == "clf":
            _refuse(context, _OF_ROWS, "--clf")
            production = _from_clf(path, target)
        else:
            options = Replay(
                path=path, format="csv" if name == "csv" else "jsonl", source=target, arrival=arrival,
                renames=parse_renames(renames or ()), id_column=id_column, delimiter=parse_delimiter(delimiter),
            )  # fmt: skip
            production = _from_replay(options)
    else:
        _refuse(context, _OF_ROWS, "a made-up scenario")
        if scenario not in SCENARIOS:
            raise BraidError(
                f"there is no scenario {scenario!r}. {suggest(scenario, SCENARIOS, 'scenarios')}"
            )
        first_day = parse_start(start, days, datetime.now(UTC).date())
        made_up = Weblog(
            events=events, days=days, start=first_day, seed=seed, late=late, duplicates=duplicates,
            duplicates_far=duplicates_far, malformed=malformed, out_of_order=out_of_order,
            timezone=target.timezone if target else ZONE,
            arrived_after_ms=None if arrived_after is None else parse_duration(arrived_after) // MILLISECOND,
        )  # fmt: skip
        production = _from_weblog(made_up)
    to_topic = topic or (target.kafka_topic if target else None) or TOPIC
    with _progress(production.expected) as on_ack:
        summary = run(
            production, _outlet(to, to_topic, partitions), rate=rate, truth_file=truth, on_ack=on_ack
        )
    _report(summary, str(to) if to else f"topic {to_topic}", truth, json)
    if summary.interrupted:
        raise typer.Exit(INTERRUPTED)


def _from_weblog(options: Weblog) -> Production:
    origin = {"scenario": "weblog", "options": options.as_dict()}
    return Production(weblog(options), origin, options.expected_records, ZoneInfo(options.timezone))


def _from_clf(path: Path, target: Source | None) -> Production:
    return Production(replay_clf(path), {"file": path.name, "format": "clf"}, None, _zone(target))


def _from_replay(options: Replay) -> Production:
    origin = {
        "file": options.path.name,
        "format": options.format,
        "source": options.source.name if options.source else None,
        "arrival": options.arrival,
        "map": dict(options.renames),
        "id": options.id_column,
    }
    return Production(replay(options, datetime.now(UTC)), origin, None, _zone(options.source))


def _zone(target: Source | None) -> ZoneInfo:
    return target.zone if target else ZoneInfo(ZONE)


def _outlet(to: Path | None, topic: str, partitions: int) -> AbstractContextManager[Outlet]:
    if to is not None:
        return nullcontext(FileOutlet(to))
    return kafka_outlet(current_settings(), topic, partitions)


def _target(name: str | None, topic: str | None) -> Source | None:
    """The source that is named, else the one that reads the topic, if there is one."""
    definitions = load_definitions(current_settings().definitions)
    if name is not None:
        return definitions.source(name)
    return next((one for one in definitions.sources.values() if one.kafka_topic == (topic or TOPIC)), None)


def _the_only(named: Mapping[str, Path]) -> tuple[str, Path]:
    if len(named) > 1:
        raise BraidError(
            f"{' and '.join(f'--{name}' for name in named)} cannot be sent together: name one file."
        )
    return next(iter(named.items()))


def _refuse(context: typer.Context, names: tuple[str, ...], where: str) -> None:
    for name in names:
        given = context.get_parameter_source(name)
        if given is not None and given.name == "COMMANDLINE":
            shown = {"scenario": "SCENARIO", "renames": "--map", "id_column": "--id"}.get(name)
            shown = shown or f"--{name.replace('_', '-')}"
            raise BraidError(f"{shown} means nothing for {where}: leave it out.")


@contextmanager
def _progress(expected: int | None) -> Iterator[OnAck]:
    """A bar on a terminal, and nothing anywhere else."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("sending"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=errors, disable=not errors.is_terminal, transient=True) as bar:
        task = bar.add_task("sending", total=expected)
        done = 0

        def on_ack(record: object) -> None:
            nonlocal done
            done += 1
            # Drawing costs more than sending.
            if done % 1000 == 0:
                bar.update(task, completed=done)

        yield on_ack


def _report(summary: Summary, where: str, truth: Path | None, json: bool) -> None:
    if json:
        print_json({"to": where, **summary.as_dict(), "truth": str(truth) if truth else None})
        return
    how = "stopped early: " if summary.interrupted else ""
    say(
        f"{how}{summary.acknowledged} records sent to {where} and acknowledged, in {summary.seconds:.1f} s "
        f"({summary.per_second} a second)"
    )
    for kind, count in summary.kinds.items():
        say(f"  {kind}: {count}")
    if truth:
        say(f"the expected answer is in {truth}")
