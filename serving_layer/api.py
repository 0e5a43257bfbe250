"""The API: views, their numbers and where those come from, over HTTP and without Spark."""

from collections.abc import Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import anyio
from fastapi import Depends, FastAPI, Query, Request, Response
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, PlainTextResponse
from fastapi.staticfiles import StaticFiles

from braid.codec import braid_version
from braid.durations import format_duration
from braid.windows import DAY
from serving_layer import events, problems
from serving_layer.access import Access, is_loopback, require_token_beyond_loopback
from serving_layer.answer import Answer, ask, ask_top, provenance
from serving_layer.catalog import catalog
from serving_layer.formats import rendered
from serving_layer.held import Held, level_of
from serving_layer.hub import Hub
from serving_layer.metrics import Meter
from serving_layer.parameters import MOST_ROWS, asked
from serving_layer.problems import Refused, documented
from serving_layer.request import parse_ranking, range_of, scope_of

PAGE = Path(__file__).parent / "page"
LOOPBACK_NAMES = ("127.0.0.1", "localhost", "::1")

Result = TypeVar("Result")
Given = dict[str, Any]


@dataclass(frozen=True)
class Around:
    """What others know and the API tells: each is asked for a name, and answers plain data."""

    days: Callable[[str], list[dict[str, Any]]] = lambda _: []
    ledger: Callable[[str], dict[str, Any]] | None = None
    accuracy: Callable[[str], dict[str, Any]] = lambda name: {"view": name, "days": [], "completeness": []}
    status: Callable[[], dict[str, Any]] = lambda: {"healthy": True, "problems": [], "processes": []}
    metrics: Callable[[], str] = lambda: ""
    data_docs: Path | None = None


@dataclass(frozen=True)
class Limits:
    """What one question may cost: states that are merged, seconds, and how many are answered at a time."""

    states: int = 10_000_000
    seconds: float = 10.0
    at_once: int = 4


@dataclass
class Answering:
    """Answers questions in threads, a few at a time, each within its limits."""

    hub: Hub
    limits: Limits
    meter: Meter
    limiter: anyio.CapacityLimiter = field(init=False)

    def __post_init__(self) -> None:
        self.limiter = anyio.CapacityLimiter(self.limits.at_once)

    async def run(self, route: str, work: Callable[[], Result]) -> Result:
        with self.meter.timing(route):
            try:
                with anyio.fail_after(self.limits.seconds):
                    return await anyio.to_thread.run_sync(work, limiter=self.limiter, abandon_on_cancel=True)
            except TimeoutError:
                raise Refused(
                    503,
                    f"no answer within {self.limits.seconds:g} s: ask for a shorter range or a longer grain.",
                ) from None

    def require_affordable(self, held: Held, cost: int) -> None:
        if cost > self.limits.states:
            pane = getattr(held.view.window, "pane", DAY)
            raise Refused(
                413,
                f"about {cost:,} states would be merged, and {self.limits.states:,} may be: ask for a shorter range, "
                f"for some keys, or for a longer grain than {format_duration(pane)}.",
                "start",
            )


def create_app(
    hub: Hub,
    around: Around | None = None,
    limits: Limits | None = None,
    *,
    host: str = "127.0.0.1",
    token: str = "",
) -> FastAPI:
    """The application. The hub is started and stopped with it."""
    require_token_beyond_loopback(host, token)
    meter = Meter()
    answering = Answering(hub, limits or Limits(), meter)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> Any:
        await anyio.to_thread.run_sync(hub.start)
        yield
        await anyio.to_thread.run_sync(hub.stop)

    app = FastAPI(
        title="Braid",
        version=braid_version(),
        description="One exact number per question: the batch layer's base and the stream's tail, merged at their cut.",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    problems.install(app)
    _views(app, answering)
    _watching(app, hub, around or Around())
    _running(app, hub, around or Around(), meter)
    _pages(app, (around or Around()).data_docs)
    names = LOOPBACK_NAMES if is_loopback(host) else None
    app.add_middleware(Access, token=token, names=names)
    return app


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


def _views(app: FastAPI, answering: Answering) -> None:
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
            level = level_of(held.view, held.view.window.read_as(request.grain))
            answering.require_affordable(held, held.cost(scope_of(held.view, request), level))
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
            if per == "range":
                cost = held.cost(range_of(held.view, request), DAY if held.levels() else None)
            else:
                level = level_of(held.view, held.view.window.read_as(request.grain))
                cost = held.cost(scope_of(held.view, request), level)
            answering.require_affordable(held, cost)
            given_rows: Answer = ask_top(held, request, ranking)
            return rendered(given_rows, http.headers.get("accept", ""), parts=per == "range")

        return await answering.run("/views/{view}/top", work)

    @app.get("/views/{view}/provenance", tags=["views"], responses=documented(400, 404, 413, 503))
    async def where_from(view: str, given: Question, http: Request) -> dict[str, Any]:
        """Where the numbers come from: base share and cuts, tail share and newest epoch, how final, which version."""

        def work() -> dict[str, Any]:
            held = hub.held(view)
            request = asked(held.view, given, http)
            level = level_of(held.view, held.view.window.read_as(request.grain))
            answering.require_affordable(held, held.cost(scope_of(held.view, request), level))
            return provenance(held, request)

        return await answering.run("/views/{view}/provenance", work)


def _watching(app: FastAPI, hub: Hub, around: Around) -> None:
    @app.get(
        "/views/{view}/live", tags=["live"], responses=documented(400, 404, 503), response_class=Response
    )
    async def live(
        view: str,
        http: Request,
        mode: Annotated[
            Literal["updates", "final"], Query(description="What changes, or becomes final.")
        ] = "updates",
        where: Annotated[list[str] | None, Query(description="KEY=VALUE.")] = None,
    ) -> Response:
        """Server-sent events: `hello`, then `update` (or `final`) with the rows that moved; `reset`: read anew."""
        request = asked(hub.held(view).view, {"where": where}, http, ["mode"])
        return events.event_stream(events.moves(hub, view, request, mode))

    @app.get("/live", tags=["live"], response_class=Response)
    async def live_everything() -> Response:
        """Server-sent events: `views` when one of them has moved, `status` of the processes every two seconds."""
        return events.event_stream(events.everything(hub, around.status))


def _running(app: FastAPI, hub: Hub, around: Around, meter: Meter) -> None:
    def known_view(name: str) -> str:
        if name not in hub.names:
            hub.held(name)
        return name

    @app.get("/days/{view}", tags=["layers"], responses=documented(404))
    def days(view: str) -> dict[str, Any]:
        """Day by day: state, events, rows, cut, gate, and how right the served number was before the publish."""
        return {"view": known_view(view), "days": around.days(view)}

    @app.get("/ledger/{source}", tags=["layers"], responses=documented(400, 404))
    def ledger(source: str) -> dict[str, Any]:
        """What was consumed, and what became of it."""
        if source not in hub.definitions.sources or around.ledger is None:
            known = ", ".join(hub.definitions.sources)
            raise Refused(404, f"there is no source {source!r}: the sources are {known}.", "source")
        return around.ledger(source)

    @app.get("/accuracy/{view}", tags=["layers"], responses=documented(404))
    def accuracy(view: str) -> dict[str, Any]:
        """How right what was served turned out to be, by day, and how complete how soon."""
        return around.accuracy(known_view(view))

    @app.get("/status", tags=["running"])
    def status() -> dict[str, Any]:
        """What runs and how it does."""
        return around.status()

    @app.get("/health", tags=["running"])
    async def health() -> dict[str, Any]:
        """Whether the server lives."""
        return {"alive": True}

    @app.get("/ready", tags=["running"], responses=documented(503))
    async def ready() -> Response:
        """Whether every view can be answered; 503 with the reasons otherwise."""
        content = {"ready": not hub.problems, "views": hub.versions(), "problems": dict(hub.problems)}
        return JSONResponse(content, 503 if hub.problems else 200)

    @app.get("/metrics", tags=["running"], response_class=PlainTextResponse)
    def metrics() -> PlainTextResponse:
        """Prometheus' text: the processes' metrics, and those of this server."""
        return PlainTextResponse(around.metrics() + meter.text(hub), media_type=meter.CONTENT_TYPE)


def _pages(app: FastAPI, data_docs: Path | None) -> None:
    swagger = Path(str(files("fastapi_swagger") / "resources"))
    assets: Mapping[str, Path] = {
        "plotly.min.js": Path(str(files("plotly") / "package_data" / "plotly.min.js")),
        "swagger-ui-bundle.js": swagger / "swagger-ui-bundle.js",
        "swagger-ui.css": swagger / "swagger-ui.css",
    }

    @app.get("/", include_in_schema=False)
    async def dashboard() -> FileResponse:
        return FileResponse(PAGE / "index.html")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse((PAGE / "docs.html").read_text())

    for name, path in assets.items():
        app.add_route(f"/assets/{name}", partial(_packaged, path), include_in_schema=False)
    app.mount("/assets", StaticFiles(directory=PAGE), name="assets")
    if data_docs is not None:
        app.mount(
            "/data-docs", StaticFiles(directory=data_docs, html=True, check_dir=False), name="data-docs"
        )


async def _packaged(path: Path, _: Request) -> FileResponse:
    """A script that a pinned package ships: it changes only with the package."""
    return FileResponse(path, headers={"Cache-Control": "max-age=3600"})
