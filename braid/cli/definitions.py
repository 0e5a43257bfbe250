"""`braid check`, `braid views` and `braid show`: what is defined, and whether it works."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from braid.cli.output import Json, console, failed, print_json, print_table
from braid.define.derived.join import JoinedSource
from braid.define.durations import format_duration
from braid.define.fingerprint import fingerprint, state_fingerprint
from braid.define.loading import Definitions, load_definitions
from braid.define.lookup import Lookup
from braid.define.source import Source
from braid.define.view import View
from braid.define.windows import Fixed, Session, Window
from braid.deploy.store import load
from braid.runtime.settings import Settings, current_settings
from braid.states import state_columns
from braid.tables.view_tables import ViewTables, bounds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# Of a problem: the definition, its part, the SQL if there is any, what is wrong, and the fix if that does not say it.
Told = tuple[str, str, str | None, str, str]


def check(json: Json = False) -> None:
    """Compile every source and view with Spark, read every lookup, ask every sink, and report all problems at once.

    Exit code 1 when there are problems, 2 when the definitions do not load. Example: `braid check --json`
    """
    definitions = _definitions()
    counts = f"sources: {len(definitions.sources)}, views: {len(definitions.views)}"
    if not json:
        console.print(f"loaded; {counts}: names, windows and known types are right", highlight=False)
    leaving = _problems_of_what_leaves(definitions)
    if not json:
        _print_problems(leaving)
        console.print("Spark compiles the SQL and reads the lookups", highlight=False)
    from braid.check import definitions as checks

    found = checks.check(_spark(), definitions)
    compiled: list[Told] = [(one.definition, one.part, one.sql, one.message, one.fix) for one in found]
    problems = compiled + leaving
    if json:
        checked = {"sources": list(definitions.sources), "views": list(definitions.views)}
        shown = [dict(zip(checks.Problem._fields, problem, strict=True)) for problem in problems]
        print_json({"ok": not problems, **checked, "problems": shown})
    else:
        _print_problems(compiled)
        console.print(f"checked; {counts}, problems: {len(problems)}", highlight=False)
    if problems:
        raise failed(json, f"{len(problems)} problems found; each is shown with its fix.")


def _print_problems(problems: list[Told]) -> None:
    for definition, part, sql, message, fix in problems:
        written = f"\n  {sql}" if sql else ""
        mend = f"\n  -> {fix}" if fix else ""
        console.print(
            f"{definition}: {part}{written}\n  {message}{mend}\n",
            markup=False, highlight=False, soft_wrap=True,
        )  # fmt: skip


def _problems_of_what_leaves(definitions: Definitions) -> list[Told]:
    """Of sinks and alerts."""
    from serving_layer.sinks.check import problems

    found = problems(current_settings(), definitions.views.values(), definitions.alerts.values())
    return [(one.definition, one.part, None, one.message, "") for one in found]


def views(json: Json = False) -> None:
    """List the views: what each groups by, over which window, and what it measures."""
    listed = [
        {
            "view": view.name,
            "source": view.source.name,
            "mode": view.mode,
            "keys": list(view.keys),
            "window": view.window.describe(),
            "measures": list(view.measures),
            "fingerprint": fingerprint(view),
        }
        for view in _definitions().views.values()
    ]
    if json:
        print_json(listed)
        return
    table = Table(title="views", title_justify="left", header_style="bold")
    for column in ("view", "source", "mode", "keys", "window", "measures", "fingerprint"):
        table.add_column(column, no_wrap=column in ("view", "fingerprint"))
    for row in listed:
        table.add_row(*(", ".join(cell) if isinstance(cell, list) else str(cell) for cell in row.values()))
    console.print(table)


def show(
    view: Annotated[str, typer.Argument(help="The name of a view, or of a source.")],
    plan: Annotated[
        bool, typer.Option("--plan", help="Also Spark's plan, and the types that only Spark knows.")
    ] = False,
    json: Json = False,
) -> None:
    """Explain one view: columns, window and panes, state and its size, and fingerprint; or one source.

    The type of a derived or looked-up column is known once the view is deployed; before that, Spark says it (`--plan`).

    Example: `braid show page_traffic --json`
    """
    definitions = _definitions()
    if view in definitions.sources and view not in definitions.views:
        source = describe_source(definitions.sources[view])
        if json:
            print_json(source)
        else:
            print_table(view, ("what", "value"), [(name, _plain(value)) for name, value in source.items()])
        return
    found = definitions.view(view)
    types, text = _compiled(found) if plan else (known_types(current_settings(), found), None)
    shown = describe(found, types) | ({} if text is None else {"plan": text})
    if json:
        print_json(shown)
        return
    shown.pop("plan", None)
    for part in ("keys", "measures", "table"):
        rows = shown.pop(part)
        if rows:
            print_table(part, list(rows[0]), [[_plain(cell) for cell in row.values()] for row in rows])
    print_table(found.name, ("what", "value"), [(name, _plain(value)) for name, value in shown.items()])
    if text is not None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)


def known_types(settings: Settings, view: View) -> dict[str, str | None]:
    """The columns of the view's states with their types, without Spark: None where only Spark could say.

    Once such states are stored, their table says it.
    """
    from braid.tables.in_database import column_types

    stored: Mapping[str, str] = {}
    for version in load(settings, view.name).versions:
        if version.phase != "retired" and state_fingerprint(version.view) == state_fingerprint(view):
            stored = stored or column_types(ViewTables.of(settings, version).tail)
    columns = view.source.columns
    types: dict[str, str | None] = {"day": "date", **dict.fromkeys(bounds(view), "timestamp")}
    types |= {key: columns.get(key, stored.get(key)) for key in view.keys}
    types |= {
        name: measure.state_type(columns.get(measure.column or "")) or stored.get(name)
        for name, measure in state_columns(view).items()
    }
    return types


def _compiled(view: View) -> tuple[dict[str, str | None], str]:
    """The same by Spark itself, and how it would compute them."""
    from braid.check.definitions import compiled_states

    states = compiled_states(_spark(), view)
    return dict(states.dtypes), states._jdf.queryExecution().optimizedPlan().toString()


def describe(view: View, types: "Mapping[str, str | None]") -> dict[str, Any]:
    """Everything about a view that a reader or a program may ask, as plain data."""
    sizes = [measure.state_bytes() for measure in state_columns(view).values()]
    return {
        "name": view.name,
        "source": view.source.name,
        "timezone": view.source.timezone,
        "mode": view.mode,
        "enrich": [_lookup(lookup) for lookup in view.enrich],
        "derive": dict(view.derive),
        "each": dict(view.each),
        "where": view.where,
        "window": _window(view.window),
        "keys": [{"key": key, "type": types[key]} for key in view.keys],
        "measures": [
            {"measure": name, "kind": m.kind, "column": m.column, "bound": m.bound(), "state": m.state_name}
            for name, m in view.measures.items()
        ],
        "table": [{"column": name, "type": type_name} for name, type_name in types.items()],
        "state_bytes_per_row": {"min": sum(low for low, _ in sizes), "max": sum(high for _, high in sizes)},
        "fingerprint": fingerprint(view),
        "state_fingerprint": state_fingerprint(view),
    }


def describe_source(source: Source) -> dict[str, Any]:
    """What a source is, and where it comes from."""
    names = ["name", "columns", "event_time", "event_id", "timezone", "rules"]
    if not isinstance(source, JoinedSource):
        return {name: _as_data(getattr(source, name)) for name in (*names, "kafka_topic", "files")}
    names += ["on", "within", "select", "lateness", "identity"]
    inputs = {"left": source.left.name, "right": source.right.name}
    return inputs | {name: _as_data(getattr(source, name)) for name in names}


def _as_data(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else list(value) if isinstance(value, tuple) else value


def _window(window: Window) -> dict[str, Any]:
    described: dict[str, Any] = {"kind": window.kind, "text": window.describe()}
    if isinstance(window, Session):
        return described | {"gap": format_duration(window.gap)}
    described["pane"] = format_duration(window.pane)
    if isinstance(window, Fixed):
        described["size"], described["every"] = format_duration(window.size), format_duration(window.every)
        described["panes_per_window"] = window.size // window.pane
    return described


def _lookup(lookup: Lookup) -> dict[str, Any]:
    return {
        "table": lookup.location,
        "kind": lookup.kind,
        "on": list(lookup.keys),
        "columns": dict(lookup.added),
    }


def _plain(value: Any) -> str:
    """A value for a table's cell: nothing for what is empty."""
    if isinstance(value, dict):
        return "\n".join(f"{name} = {escape(str(item))}" for name, item in value.items())
    if isinstance(value, list):
        return "\n".join(map(_plain, value))
    return "" if value is None else escape(str(value))


def _definitions() -> Definitions:
    return load_definitions(current_settings().definitions)


def _spark() -> "SparkSession":
    from braid.runtime.spark import spark_session

    return spark_session(current_settings(), "braid-definitions", briefly=True)
