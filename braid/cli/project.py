"""`braid init` and `braid test`: a project of one's own, and its views against a naive truth."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from braid.cli.output import Json, failed, mark, print_json, print_table, say
from braid.define.loading import load_definitions
from braid.errors import BraidError
from braid.runtime.settings import current_settings

if TYPE_CHECKING:
    from braid.examples.stage.checks import TruthCheck
    from speed_layer.ingest.trial import Tried

TESTS = Path("tests")


def init(
    folder: Annotated[
        Path, typer.Argument(metavar="[DIR]", help="Where it is written; made if need be.")
    ] = Path(),
    from_topic: Annotated[
        str | None, typer.Option(help="Guess the source from what this Kafka topic holds.", metavar="TOPIC")
    ] = None,
    from_file: Annotated[
        Path | None,
        typer.Option(help="Guess the source from this file: .jsonl, .csv or .tsv, also packed as .gz."),
    ] = None,
) -> None:
    """Begin a project: definitions guessed from a sample, a test with a naive truth, DAGs, CI and a README.

    Types, event time, id and zone are guessed, and each guess is said, here and in the definitions. Without a sample
    it begins with the orders of a shop. Nothing that is there already is touched.

    Example: `braid init shop --from-file orders.jsonl`
    """
    from braid.project.sample import from_file as read_file
    from braid.project.sample import from_topic as read_topic
    from braid.project.scaffold import Origin, made_up, named, project, write

    if from_topic and from_file:
        raise BraidError("give either --from-topic or --from-file, not both.")
    if from_topic:
        origin, sample = (
            Origin(named(from_topic), topic=from_topic),
            read_topic(current_settings(), from_topic),
        )
    elif from_file:
        file = from_file.resolve()
        origin, sample = Origin(named(file.name.partition(".")[0]), files=str(file)), read_file(file)
    else:
        origin, sample = Origin("orders", topic="orders"), made_up()
    files, found = project(origin, sample)
    write(folder, files)
    print_table(
        f"guessed from {len(sample.events)} events",
        ("what", "guess", "why"),
        ((one.part, one.guess, one.why) for one in found.guesses),
    )
    say(f"Written in {folder.resolve()}: {', '.join(files)}")
    say(f"Next: {f'cd {folder} && ' if folder != Path() else ''}braid test; then braid check, and braid up.")


def test(
    tests: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[FILE]...", help="Tests by file; all in tests/ when none is given."),
    ] = None,  # noqa: PT028
    json: Json = False,  # noqa: PT028
) -> None:
    """Try views on events that are written in a file, against a naive truth; no broker, no tables, in seconds.

    A test is a Python file with `view = "..."`, `events = "..."` (a file beside it, one record a line) and
    `def truth(events)`. The records are parsed, judged and deduplicated as ingest does it, and the view is computed by
    the code of every layer. Exit code 1 when a number differs.

    Example: `braid test tests/orders_per_day.py`
    """
    from braid.project.trial import in_folder, trials

    settings = current_settings()
    found = trials(load_definitions(settings.definitions), tests or in_folder(TESTS))
    if not found:
        raise BraidError(f"there are no tests in {TESTS.resolve()}: `braid init` shows how one looks.")
    from braid.examples.stage.checks import against_truth
    from braid.runtime.spark import spark_session
    from speed_layer.ingest.trial import try_out

    with TemporaryDirectory() as scratch:
        # Spark wants a folder of its own; that of the user's data stays as it is, or is not there.
        spark = spark_session(settings.model_copy(update={"home": scratch}), "braid-test", briefly=True)
        tried = [(trial, try_out(spark, settings, trial.view, trial.events)) for trial in found]
    checks = [
        (against_truth(trial.name, trial.view, one.rows, trial.expected(one.events)), one)
        for trial, one in tried
    ]
    _show(checks, json)
    if wrong := [check.name for check, _ in checks if not check.ok]:
        raise failed(json, f"the view and its naive truth differ in {', '.join(wrong)}.")


def _show(checks: "list[tuple[TruthCheck, Tried]]", json: bool) -> None:
    if json:
        print_json(
            [
                {"test": check.name, "ok": check.ok, "found": check.found, "expected": check.expected,
                 "events": len(tried.events), "duplicates": tried.duplicates, "rejected": tried.rejected}
                for check, tried in checks
            ]
        )  # fmt: skip
        return
    columns = ("test", "", "found", "truth", "events", "duplicates", "rejected")
    rows = [
        (check.name, mark(check.ok), check.found, check.expected, len(tried.events), tried.duplicates,
         "\n".join(f"{count}: {reason}" for reason, count in sorted(tried.rejected.items())))
        for check, tried in checks
    ]  # fmt: skip
    print_table("tests", columns, rows)
