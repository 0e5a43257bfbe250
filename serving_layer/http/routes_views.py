"""The routes of views: which there are, their numbers, the largest of them, and where they come from."""

from datetime import timedelta
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Query, Response
from fastapi import Request as HttpRequest

from braid.define.view import View
from braid.define.windows import DAY, Fixed, Session
from serving_layer.answer.answers import ask, ask_top, provenance
from serving_layer.answer.request import Request, parse_ranking, range_of, scope_of
from serving_layer.http.formats import rendered
from serving_layer.http.limits import Answering
from serving_layer.http.parameters import MOST_ROWS, Question, asked
from serving_layer.http.problems import documented
from serving_layer.memory.all_views import AllViews, NotDeployed
from serving_layer.memory.view_in_memory import ViewInMemory, level_of


def windows_cost(now: ViewInMemory, request: Request) -> int:
    """About how many states the windows of a question are merged from: one counts in each window that it is in."""
    window = now.view.window.read_as(request.grain)
    copies = -(-window.size // window.every) if isinstance(window, Fixed) else 1
    return now.cost(scope_of(now.view, request), level_of(now.view, window)) * copies


def range_cost(now: ViewInMemory, request: Request) -> int:
    """The same for numbers of the range as a whole, which are read from days where there are whole ones."""
    return now.cost(range_of(now.view, request), DAY if now.levels() else None)


def add_views(app: FastAPI, views: AllViews, answering: Answering) -> None:

    @app.get("/views", tags=["views"])
    async def list_views() -> dict[str, Any]:
        """The views, with their keys, measures and windows."""
        return await answering.run("/views", partial(catalog, views))

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

        def work() -> Response:
            now = views.now(view)
            request = asked(now.view, given, http, ["parts"])
            answering.require_affordable(now, windows_cost(now, request))
            return rendered(ask(now, request), http.headers.get("accept", ""), parts)

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

        def work() -> Response:
            now = views.now(view)
            request = asked(now.view, given, http, ["by", "n", "per"])
            ranking = parse_ranking(now.view, by, n, per)
            cost = range_cost if per == "range" else windows_cost
            answering.require_affordable(now, cost(now, request))
            found = ask_top(now, request, ranking)
            return rendered(found, http.headers.get("accept", ""), parts=per == "range")

        return await answering.run("/views/{view}/top", work)

    @app.get("/views/{view}/provenance", tags=["views"], responses=documented(400, 404, 413, 503))
    async def where_from(view: str, given: Question, http: HttpRequest) -> dict[str, Any]:
        """Where the numbers come from: base share and cuts, tail share and newest epoch, how final, which version."""

        def work() -> dict[str, Any]:
            now = views.now(view)
            request = asked(now.view, given, http)
            answering.require_affordable(now, windows_cost(now, request))
            return provenance(now, request)

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
