"""The routes of views: which there are, their numbers and where these come from, as JSON, CSV or Arrow."""

import csv
import io
from collections.abc import Callable
from datetime import timedelta
from typing import Annotated, Any, Literal

import pyarrow as pa
from fastapi import FastAPI, Query, Response
from fastapi import Request as HttpRequest
from fastapi.responses import JSONResponse

from braid.define.view import View
from braid.define.windows import DAY, Fixed, Session
from serving_layer.answer.answers import Answer, ask, ask_top, json_document, provenance, shown
from serving_layer.answer.json_values import parts_of, plain_rows
from serving_layer.answer.request import Request, parse_ranking, range_of, scope_of
from serving_layer.http.limits import Answering
from serving_layer.http.parameters import MOST_ROWS, Question, asked
from serving_layer.http.problems import Refused, documented
from serving_layer.memory.all_views import AllViews, NotDeployed
from serving_layer.memory.tail_pieces import level_of
from serving_layer.memory.view_in_memory import ViewInMemory

# An answer is made in the thread that found it: the event loop, where probes are answered, has no time for that.
Plain = dict[str, Any]
JSON, CSV, ARROW = "application/json", "text/csv", "application/vnd.apache.arrow.stream"


def windows_cost(now: ViewInMemory, request: Request) -> int:
    """About how many states the windows of a question are merged from: one counts in each window that it is in."""
    window = now.view.window.read_as(request.grain)
    copies = -(-window.size // window.every) if isinstance(window, Fixed) else 1
    return now.cost(scope_of(now.view, request), level_of(now.view, window)) * copies


def range_cost(now: ViewInMemory, request: Request) -> int:
    """The same for numbers of the range as a whole, which are read from days where there are whole ones."""
    return now.cost(range_of(now.view, request), DAY if now.levels() else None)


def add_views(app: FastAPI, views: AllViews, answering: Answering) -> None:
    @app.get("/views", tags=["views"], response_model=Plain)
    async def list_views() -> Response:
        """The views, with their keys, measures and windows."""
        return await answering.run("/views", lambda: JSONResponse(catalog(views)))

    @app.get("/views/{view}", tags=["views"], responses=documented(400, 404, 406, 413, 503))
    async def numbers(
        view: str,
        given: Question,
        http: HttpRequest,
        parts: Annotated[
            bool, Query(description="Also how many of a row's events there are, and how many in the tail.")
        ] = False,
    ) -> Response:
        """A view's numbers: base and tail merged, exact up to what the stream has read."""

        def work() -> Any:
            now = views.now(view)
            request = asked(now.view, given, http, ["parts"])
            accept = http.headers.get("accept", "")
            cost = windows_cost(now, request)
            return answering.by_size(
                now, cost, bool(request.where), lambda: rendered(ask(now, request), accept, parts)
            )

        return await answering.run("/views/{view}", work)

    @app.get("/views/{view}/top", tags=["views"], responses=documented(400, 404, 406, 413, 503))
    async def top(
        view: str,
        given: Question,
        http: HttpRequest,
        by: Annotated[str, Query(description="The measure that decides.", examples=["hits"])],
        n: Annotated[int, Query(ge=1, le=MOST_ROWS, description="So many rows.")] = 10,
        per: Annotated[
            Literal["window", "range"], Query(description="Of each window, or of the range as a whole.")
        ] = "range",
    ) -> Response:
        """The rows with the largest numbers, with their rank."""

        def work() -> Any:
            now = views.now(view)
            request = asked(now.view, given, http, ["by", "n", "per"])
            ranking = parse_ranking(now.view, by, n, per)
            cost = range_cost if per == "range" else windows_cost
            accept = http.headers.get("accept", "")

            def answer() -> Response:
                return rendered(ask_top(now, request, ranking), accept, parts=per == "range")

            return answering.by_size(now, cost(now, request), bool(request.where), answer)

        return await answering.run("/views/{view}/top", work)

    @app.get(
        "/views/{view}/provenance",
        tags=["views"],
        response_model=Plain,
        responses=documented(400, 404, 413, 503),
    )
    async def where_from(view: str, given: Question, http: HttpRequest) -> Response:
        """Where the numbers come from: base share and cuts, tail share and newest epoch, how final, which version."""

        def work() -> Any:
            now = views.now(view)
            request = asked(now.view, given, http)
            cost = windows_cost(now, request)
            return answering.by_size(
                now, cost, bool(request.where), lambda: JSONResponse(provenance(now, request))
            )

        return await answering.run("/views/{view}/provenance", work)


def catalog(views: AllViews) -> dict[str, Any]:
    return {"views": [_entry(views, name) for name in views.names]}


def _entry(views: AllViews, name: str) -> dict[str, Any]:
    try:
        now = views.now(name)
    except NotDeployed:
        return _view(views.definitions.view(name)) | {"version": None, "first_day": None, "last_day": None}
    days = [*now.files, *now.tail_days()]
    return _view(now.view) | {
        "version": now.version.number,
        "first_day": str(min(days)) if days else None,
        "last_day": str(max(days)) if days else None,
    }


def _view(view: View) -> dict[str, Any]:
    window = view.window
    return {
        "name": view.name,
        "source": view.source.name,
        "timezone": view.source.timezone,
        "mode": view.mode,
        "lateness": view.lateness,
        "keys": list(view.keys),
        "measures": [
            {"name": name, "kind": measure.kind, "bound": measure.bound()}
            for name, measure in view.measures.items()
        ],
        "window": {
            "kind": window.kind,
            "describe": window.describe(),
            "size_seconds": _seconds(window.size) if isinstance(window, Fixed) else None,
            "every_seconds": _seconds(window.every) if isinstance(window, Fixed) else None,
            "gap_seconds": _seconds(window.gap) if isinstance(window, Session) else None,
        },
    }


def _seconds(length: timedelta) -> float:
    return length.total_seconds()


def rendered(given: Answer, accept: str, parts: bool = False) -> Response:
    forms: dict[str, Callable[[Answer, bool], Response]] = {JSON: _json, CSV: _csv, ARROW: _arrow}
    return forms[chosen(accept)](given, parts)


def chosen(accept: str) -> str:
    """The form that the reader likes best; of those that it likes equally, the first one here."""
    wishes = [_wish(part) for part in accept.split(",") if part.strip()] or [("*/*", 1.0)]
    ranked = []
    for place, form in enumerate((JSON, CSV, ARROW)):
        group = form.partition("/")[0]
        # The more exact a wish, the more it counts: "text/csv;q=0, */*" is everything but CSV.
        for pattern in (form, f"{group}/*", "*/*"):
            found = [quality for media, quality in wishes if media == pattern]
            if found:
                if found[0] > 0:
                    ranked.append((-found[0], place, form))
                break
    if not ranked:
        raise Refused(406, f"Accept {accept!r} is none of {JSON}, {CSV} and {ARROW}.", "Accept")
    return min(ranked)[2]


def _wish(part: str) -> tuple[str, float]:
    media, _, rest = part.strip().partition(";")
    quality = 1.0
    for parameter in rest.split(";"):
        name, _, value = parameter.strip().partition("=")
        if name == "q":
            try:
                quality = float(value)
            except ValueError:
                quality = 0.0
    return media.strip().lower(), quality


def _json(given: Answer, parts: bool) -> Response:
    return Response(json_document(given, parts), media_type=JSON)


def _csv(given: Answer, parts: bool) -> Response:
    rows = shown(given, parts)
    text = io.StringIO()
    writer = csv.DictWriter(text, rows.column_names)
    writer.writeheader()
    for part in parts_of(rows):
        writer.writerows(plain_rows(part, given.version.view.source.zone))
    return Response(text.getvalue(), media_type=f"{CSV}; charset=utf-8", headers=_total(given))


def _arrow(given: Answer, parts: bool) -> Response:
    rows, sink = shown(given, parts), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    return Response(sink.getvalue().to_pybytes(), media_type=ARROW, headers=_total(given))


def _total(given: Answer) -> dict[str, str]:
    """What JSON says beside the rows."""
    return {"X-Total-Rows": str(given.total), "X-View-Version": str(given.version.number)}
