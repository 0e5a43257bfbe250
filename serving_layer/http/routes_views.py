"""The routes of views: their numbers, the largest of them, and where they come from."""

from functools import partial
from typing import Annotated, Any, Literal

from fastapi import Depends, FastAPI, Query, Request, Response

from braid.define.windows import DAY
from serving_layer.answer.answers import ask, ask_top, provenance
from serving_layer.answer.catalog import catalog
from serving_layer.answer.request import Request as Asked
from serving_layer.answer.request import parse_ranking, range_of, scope_of
from serving_layer.http.answering import Answering
from serving_layer.http.formats import rendered
from serving_layer.http.parameters import MOST_ROWS, asked
from serving_layer.http.problems import documented
from serving_layer.memory.view_in_memory import Held, level_of

Given = dict[str, Any]


def question(
    start: Annotated[
        str | None, Query(description="Windows that begin at this time or later.", examples=["2026-03-01"])
    ] = None,
    end: Annotated[
        str | None, Query(description="Windows that begin before this time.", examples=["2026-03-02T06:00Z"])
    ] = None,
    where: Annotated[
        list[str] | None,
        Query(
            description="KEY=VALUE, or 'KEY is null'; for keys whose name is a parameter's. Any other key is a "
            "parameter of its own: `url=/`.",
            examples=[["url=/"]],
        ),
    ] = None,
    group: Annotated[
        str | None,
        Query(description="Keys to tell rows apart by, 'url,status'; empty: none.", examples=["url"]),
    ] = None,
    grain: Annotated[
        str | None, Query(description="Windows of this length instead.", examples=["1 hour"])
    ] = None,
    order: Annotated[
        str | None, Query(description="Columns to order by; '-' is largest first.", examples=["-hits,url"])
    ] = None,
    limit: Annotated[int | None, Query(ge=0, le=MOST_ROWS, description="At most so many rows.")] = None,
    offset: Annotated[int, Query(ge=0, le=1 << 31, description="Leave out so many rows first.")] = 0,
) -> Given:
    return {
        "start": start, "end": end, "where": where, "group": group,
        "grain": grain, "order": order, "limit": limit, "offset": offset,
    }  # fmt: skip


Question = Annotated[Given, Depends(question)]


def windows_cost(held: Held, request: Asked) -> int:
    """About how many states the windows of a question are merged from."""
    level = level_of(held.view, held.view.window.read_as(request.grain))
    return held.cost(scope_of(held.view, request), level)


def range_cost(held: Held, request: Asked) -> int:
    """The same for numbers of the range as a whole, which are read from days where there are whole ones."""
    return held.cost(range_of(held.view, request), DAY if held.levels() else None)


def add_views(app: FastAPI, answering: Answering) -> None:
    hub = answering.hub

    @app.get("/views", tags=["views"])
    async def list_views() -> dict[str, Any]:
        """The views, with their keys, measures and windows."""
        return await answering.run("/views", partial(catalog, hub))

    @app.get("/views/{view}", tags=["views"], responses=documented(400, 404, 406, 413, 503))
    async def numbers(
        view: str,
        given: Question,
        http: Request,
        parts: Annotated[
            bool, Query(description="Also how many of a row's events there are, and how many in the tail.")
        ] = False,
    ) -> Response:
        """A view's numbers: base and tail merged, exact up to what the stream has read."""

        def work() -> Response:
            held = hub.held(view)
            request = asked(held.view, given, http, ["parts"])
            answering.require_affordable(held, windows_cost(held, request))
            return rendered(ask(held, request), http.headers.get("accept", ""), parts)

        return await answering.run("/views/{view}", work)

    @app.get("/views/{view}/top", tags=["views"], responses=documented(400, 404, 406, 413, 503))
    async def top(
        view: str,
        given: Question,
        http: Request,
        by: Annotated[str, Query(description="The measure that decides.", examples=["hits"])],
        n: Annotated[int, Query(ge=1, le=MOST_ROWS, description="So many rows.")] = 10,
        per: Annotated[
            Literal["window", "range"], Query(description="Of each window, or of the range as a whole.")
        ] = "range",
    ) -> Response:
        """The rows with the largest numbers, with their rank."""

        def work() -> Response:
            held = hub.held(view)
            request = asked(held.view, given, http, ["by", "n", "per"])
            ranking = parse_ranking(held.view, by, n, per)
            cost = range_cost if per == "range" else windows_cost
            answering.require_affordable(held, cost(held, request))
            found = ask_top(held, request, ranking)
            return rendered(found, http.headers.get("accept", ""), parts=per == "range")

        return await answering.run("/views/{view}/top", work)

    @app.get("/views/{view}/provenance", tags=["views"], responses=documented(400, 404, 413, 503))
    async def where_from(view: str, given: Question, http: Request) -> dict[str, Any]:
        """Where the numbers come from: base share and cuts, tail share and newest epoch, how final, which version."""

        def work() -> dict[str, Any]:
            held = hub.held(view)
            request = asked(held.view, given, http)
            answering.require_affordable(held, windows_cost(held, request))
            return provenance(held, request)

        return await answering.run("/views/{view}/provenance", work)
