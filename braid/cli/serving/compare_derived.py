"""`braid compare SOURCE` of a derived source: what its stream has drawn, what batch added, and what was too late."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from braid.cli.output import console, failed, print_json, print_table, print_values
from braid.define.derived.join import JoinedSource
from braid.define.loading import load_definitions
from braid.errors import BraidError
from braid.runtime.settings import Settings

if TYPE_CHECKING:
    from batch_layer.compare_derived import DerivedReport


def derived_source(settings: Settings, name: str | None) -> JoinedSource | None:
    """The derived source of that name, if there is one and no view has it."""
    if name is None:
        return None
    definitions = load_definitions(settings.definitions)
    source = definitions.sources.get(name)
    return source if isinstance(source, JoinedSource) and name not in definitions.views else None


def compare_derived(settings: Settings, join: JoinedSource, others: Mapping[str, object], json: bool) -> None:
    if given := [option for option, value in others.items() if value]:
        raise BraidError(
            f"{given[0]} is for views, and {join.name!r} is a derived source, which is compared whole: leave it out."
        )
    from batch_layer.compare_derived import compare
    from braid.runtime.spark import spark_session

    report = compare(spark_session(settings, "braid compare"), join, settings)
    if json:
        print_json(report.as_dict())
    else:
        _print(report)
    if not report.holds:
        raise failed(
            json, f"{report.extra} events of {report.source} are in its log, and batch does not draw them."
        )


def _print(report: "DerivedReport") -> None:
    read = ", ".join(f"{name} up to commit {version}" for name, version in report.read.items())
    names = ("events", "streamed", "corrected", "waiting", "missing", "extra")
    print_table(report.source, ("what", "events"), [(name, f"{getattr(report, name):,}") for name in names])
    # Not as the title of a table, which is broken at its width.
    console.print(f"Too late for a stream that waits {report.lateness}:", highlight=False)
    print_values("too late", report.late)
    if report.unexplained:
        console.print(f"not drawn by the stream, though not late by the epochs: {report.unexplained:,}")
    lost = [(one.lateness, f"{one.events:,}") for one in report.curve]
    print_table("missed", ("by a stream that waits", "events"), lost)
    console.print(f"Read: {read}.", highlight=False)
