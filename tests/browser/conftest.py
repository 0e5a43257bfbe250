"""The page under test: Debian's Chromium before the real server, over tables that are written without Spark."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from playwright.sync_api import Browser, Page, expect, sync_playwright

from braid import session, tumbling
from braid.runtime.settings import Settings
from serving_layer.http.app import OtherLayers, create_app
from serving_layer.memory.all_views import AllViews
from tests.conftest import free_port
from tests.serving import MIDNIGHT, MINUTE, Event, Tables, view_of
from tests.waiting import until

# A machine that runs Spark beside it takes its time.
PATIENCE = 30_000
CHROMIUM = Path("/usr/bin/chromium")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
HOSTILE = "<img src=x onerror=\"document.title='taken over'\">"
NOON = MIDNIGHT + timedelta(hours=11)
CUT = MIDNIGHT + 3 * MINUTE


@dataclass
class Site:
    """A server, and the tables that it serves."""

    address: str
    hits: Tables
    stays: Tables


# Not longer than a module: while Playwright is open, no other test of this process can have an event loop.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if not CHROMIUM.exists():
        pytest.skip(f"needs {CHROMIUM}: `apt-get install chromium`")
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture
def site(home: Path) -> Iterator[Site]:
    """Two views of one source: `hits` by the minute, whose first day is published, and `stays`, sessions."""
    settings = Settings(home=str(home))
    hits = Tables(settings, view_of(tumbling("1 minute")))
    stays = Tables(settings, view_of(session(gap="30 minutes"), name="stays"))
    for tables in (hits, stays):
        tables.deploy()
        tables.append(morning())
        tables.publish(MIDNIGHT.date(), CUT)
        tables.append(noon())
    port = free_port()
    app = create_app(AllViews(settings, 64 << 20), around())
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error"))
    thread = threading.Thread(target=server.run, name="site")
    thread.start()
    until(lambda: server.started, 30)
    yield Site(f"http://127.0.0.1:{port}", hits, stays)
    server.should_exit = True
    thread.join()


@pytest.fixture
def opened(browser: Browser, site: Site) -> Iterator[Callable[..., Page]]:
    """Opens the page; what a browser complains about, or asks of another host, is a failure of any test."""
    contexts = []
    strangers: list[str] = []
    complaints: list[str] = []

    def asked(address: str) -> None:
        if not address.startswith((site.address, "data:", "blob:")):
            strangers.append(address)

    def said(kind: str, text: str, excused: str | None) -> None:
        if kind in ("error", "warning") and not (excused and excused in text):
            complaints.append(text)

    def open_page(path: str = "/", excused: str | None = None, **options: Any) -> Page:
        context = browser.new_context(**{"viewport": {"width": 1440, "height": 900}} | options)
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda request: asked(request.url))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda message: said(message.type, message.text, excused))
        page.goto(f"{site.address}{path}")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert strangers == []
    assert complaints == []


def morning() -> list[Event]:
    """An event a minute from each of three hosts, up to the cut."""
    return [
        Event(MIDNIGHT + minute * MINUTE, host, minute, CUT)
        for minute in range(60)
        for host in ("a", "b", HOSTILE)
    ]


def noon() -> list[Event]:
    """Events that came after the cut: two in a minute that is covered, and some at noon."""
    late = [Event(MIDNIGHT + 59 * MINUTE, "b", 7, CUT + MINUTE, late=1) for _ in range(2)]
    return late + [Event(NOON + n * timedelta(seconds=20), "a", n, CUT + 2 * MINUTE) for n in range(9)]


def around() -> OtherLayers:
    """What the layers know, as plain data: an engine with two queries, a day, and a ledger that balances."""
    cut, day = CUT.isoformat(), str(MIDNIGHT.date())
    query = {
        "state": "running", "rows_per_second": 900.0, "batch_ms": 310.0, "lag_events": 4, "lag_seconds": 0.4,
        "late": 2, "epoch": cut, "source": "requests", "error": None, "version": 1,
    }  # fmt: skip
    queries = [
        query | {"name": "ingest requests", "kind": "ingest", "events": 191, "view": None},
        query | {"name": "hits", "kind": "stream", "events": 191, "view": "hits"},
    ]
    board = {
        "day": day, "state": "stale", "reason": "2 events came after its cut", "events": 191, "rows": 180,
        "duplicates": 1, "cut": cut, "published": cut, "beyond": 11, "since": cut, "gate": "passed", "failing": [],
        "released_because": None, "accuracy": 0.99, "largest_error": 0.5,
    }  # fmt: skip
    ledger = {
        "source": "requests", "epoch": cut, "consumed": 195, "accepted": 191, "rejected": 3, "duplicates": 1,
        "requeued": 0, "balanced": True, "rows": 194, "partitions": [{"partition": "0", "start": 0, "end": 195}],
        "quarantine": [{"reason": HOSTILE, "events": 3}],
    }  # fmt: skip
    accuracy = {"day": day, "groups": 100, "equal": 99, "share": 0.99, "largest_error": 0.5, "cut": cut}
    completeness = [{"after_seconds": after, "share": share} for after, share in ((0, 0.9), (60, 1.0))]
    processes = [{"process": "engine", "pid": 1, "queries": queries, "children": []}]
    return OtherLayers(
        days=lambda _: [board],
        ledger=lambda _: ledger,
        accuracy=lambda name: {"view": name, "days": [accuracy], "completeness": completeness},
        status=lambda: {"healthy": True, "problems": [], "processes": processes},
        data_docs=lambda path: "<title>Data Docs</title>" if path == "" else None,
    )
