"""The parameters of a question in a URL: each is known or refused, so that a misspelt one gives no wrong number."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from fastapi import Depends, Query
from fastapi import Request as HttpRequest

from braid.define.names import suggest
from braid.define.view import View
from serving_layer.answer.request import Request, RequestError, parse_request

# What a page holds unless it is said, and at most.
ROWS, MOST_ROWS = 1_000, 100_000
Given = dict[str, Any]
OF_EVERY_QUESTION = ("start", "end", "where", "group", "grain", "order", "limit", "offset")


# Not in a thread, where it would wait for one to be free.
async def question(
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


def asked(view: View, given: Mapping[str, Any], http: HttpRequest, more: Iterable[str] = ()) -> Request:
    """The request that the parameters make: `given` are those that the route names, keys stand for themselves."""
    known = (*OF_EVERY_QUESTION, *more)
    conditions: list[str] = list(given.get("where") or ())
    for name, value in http.query_params.multi_items():
        if name in known:
            continue
        if name not in view.keys:
            raise RequestError(
                f"{name!r} is no parameter of this question and no key of view {view.name!r}. "
                f"{suggest(name, [*view.keys, *known], 'parameters and keys')}",
                name,
            )
        conditions.append(f"{name}={value}")
    limit = given.get("limit")
    if limit is not None and limit > MOST_ROWS:
        raise RequestError(
            f"limit {limit} is more than the {MOST_ROWS:,} rows that a page may have.", "limit"
        )
    texts = {name: given.get(name) for name in ("start", "end", "group", "grain", "order")}
    return parse_request(
        view,
        where=conditions,
        limit=ROWS if limit is None else limit,
        offset=given.get("offset") or 0,
        **texts,
    )
