"""The API gives the exact number, says where it comes from, and refuses what cannot be asked with the reason."""

import csv
import io
import json
import os
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from prometheus_client.parser import text_string_to_metric_families

from batch_layer.days import Gate, write_gates
from batch_layer.gates import data_docs
from batch_layer.gates.values import Check, Verdict
from braid import session, sliding, tumbling
from braid.define.windows import Window
from braid.errors import SettingsError
from braid.runtime.settings import Settings
from braid.runtime.status import ProcessStatus
from serving_layer.http.app import Limits, OtherLayers, create_app
from serving_layer.memory.all_views import AllViews
from tests.api import events_of, serving
from tests.serving import MIDNIGHT, MINUTE, Event, Tables, some_events, view_of
from tests.waiting import until

WINDOWS = {
    "1 hour": tumbling("1 hour"),
    "3 hours every hour": sliding("3 hours", every="1 hour"),
    "session": session(gap="30 minutes"),
}


@pytest.fixture
def settings(home: Path) -> Settings:
    return Settings(home=str(home))


def filled(settings: Settings, window: Window) -> Tables:
    tables = Tables(settings, view_of(window))
    tables.deploy()
    for epoch in range(3):
        tables.append(some_events(epoch, 40, MIDNIGHT + epoch * MINUTE))
    tables.publish(MIDNIGHT.date(), MIDNIGHT + MINUTE)
    return tables


@pytest.fixture
def tables(settings: Settings) -> Tables:
    return filled(settings, tumbling("1 hour"))


@pytest.fixture
def client(tables: Tables) -> Iterator[httpx.Client]:
    with serving(tables.settings) as address, httpx.Client(base_url=address) as client:
        yield client


def rows_of(answer: httpx.Response) -> dict[Any, dict[str, Any]]:
    assert answer.status_code == 200, answer.text
    found = {}
    for row in answer.json()["rows"]:
        bounds = (datetime.fromisoformat(row.pop(name)) for name in ("window_start", "window_end"))
        found[(row.pop("host"), *bounds)] = row
    return found


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_numbers_are_those_of_all_events(settings: Settings, window: Window) -> None:
    tables = filled(settings, window)
    with serving(settings) as address:
        assert rows_of(httpx.get(f"{address}/views/hits")) == tables.answer()
        tables.append(some_events(9, 20, MIDNIGHT + 9 * MINUTE))
        tables.publish(MIDNIGHT.date(), MIDNIGHT + 9 * MINUTE)
        tables.collect()
        until(lambda: rows_of(httpx.get(f"{address}/views/hits")) == tables.answer())


def test_a_question_has_a_range_keys_an_order_and_a_page(client: httpx.Client, tables: Tables) -> None:
    end = MIDNIGHT + timedelta(hours=12)
    answer = client.get(
        "/views/hits",
        params={
            "start": "2024-03-10",
            "end": end.isoformat(),
            "host": ["a", "b"],
            "order": "-hits",
            "limit": 3,
        },
    )
    want = {
        known: row
        for known, row in tables.answer().items()
        if known[0] in ("a", "b") and MIDNIGHT <= known[1] < end
    }
    found = rows_of(answer)
    assert answer.json()["total"] == len(want)
    assert found.items() <= want.items()
    hits = [row["hits"] for row in found.values()]
    assert hits == sorted((row["hits"] for row in want.values()), reverse=True)[:3]


def test_a_grain_a_group_and_parts_can_be_asked_for(client: httpx.Client, tables: Tables) -> None:
    (row,) = client.get("/views/hits?grain=7+days&group=&parts=true&end=2024-03-11").json()["rows"]
    events = [event for event in tables.events if event.time < datetime.fromisoformat(row["window_end"])]
    covered = [event for event in events if event.day == MIDNIGHT.date() and event.epoch <= MIDNIGHT + MINUTE]
    assert (row["hits"], row["_events"], row["_in_tail"]) == (
        len(events),
        len(events),
        len(events) - len(covered),
    )


def test_the_largest_are_ranked(client: httpx.Client, tables: Tables) -> None:
    rows = client.get("/views/hits/top?by=hits&n=2").json()["rows"]
    by_host: dict[Any, int] = {}
    for event in tables.events:
        by_host[event.host] = by_host.get(event.host, 0) + 1
    assert [row["hits"] for row in rows] == sorted(by_host.values(), reverse=True)[:2]
    assert [row["_rank"] for row in rows] == [1, 2]
    assert {row["_rank"] for row in client.get("/views/hits/top?by=hits&per=window&n=1").json()["rows"]} == {
        1
    }


def test_a_number_says_where_it_comes_from(client: httpx.Client, tables: Tables) -> None:
    given = client.get("/views/hits/provenance").json()
    covered = sum(
        event.day == MIDNIGHT.date() and event.epoch <= MIDNIGHT + MINUTE for event in tables.events
    )
    assert (given["base"]["events"], given["tail"]["events"]) == (covered, len(tables.events) - covered)
    assert given["base"]["cuts"] == [
        {"first_day": "2024-03-10", "last_day": "2024-03-10", "through": "2024-03-10T00:01:00-05:00"}
    ]
    assert given["tail"]["epoch"] == "2024-03-10T00:02:00-05:00"
    assert sum(given["windows"].values()) == len(tables.answer())
    assert given["version"] == 1


def test_the_same_rows_come_as_json_csv_and_arrow(client: httpx.Client) -> None:
    plain = client.get("/views/hits").json()["rows"]
    text = client.get("/views/hits", headers={"accept": "text/csv"})
    assert text.headers["content-type"].startswith("text/csv")
    read = list(csv.DictReader(io.StringIO(text.text)))
    assert read == [{k: "" if v is None else str(v) for k, v in row.items()} for row in plain]
    arrow = client.get("/views/hits", headers={"accept": "application/vnd.apache.arrow.stream"})
    table = pa.ipc.open_stream(arrow.content).read_all()
    assert [row["hits"] for row in table.to_pylist()] == [row["hits"] for row in plain]
    assert arrow.headers["x-total-rows"] == str(len(plain))
    assert client.get("/views/hits", headers={"accept": "image/png"}).status_code == 406


@pytest.mark.parametrize(
    ("path", "status", "parameter", "says"),
    [
        ("/views/hitz", 404, "view", "Did you mean 'hits'"),
        ("/views/hits?hots=a", 400, "hots", "Did you mean 'host'"),
        ("/views/hits?start=yesterday", 400, "start", "not a time"),
        ("/views/hits?start=2024-03-11&end=2024-03-10", 400, "end", "is not after"),
        ("/views/hits?grain=7+minutes", 400, "grain", "7 minutes"),
        ("/views/hits?order=-hots", 400, "order", "no column 'hots'"),
        ("/views/hits?group=url", 400, "group", "'url' is not a key"),
        ("/views/hits?where=nonsense", 400, "where", "KEY=VALUE"),
        ("/views/hits?limit=-1", 400, "limit", "-1"),
        ("/views/hits?limit=1000000000", 400, "limit", "1000000000"),
        ("/views/hits?limit=many", 400, "limit", "many"),
        ("/views/hits?parts=perhaps", 400, "parts", "perhaps"),
        ("/views/hits/top?by=hots", 400, "by", "Did you mean 'hits'"),
        ("/views/hits/top", 400, "by", "required"),
        ("/views/hits/top?by=hits&n=0", 400, "n", "0"),
        ("/views/hits/top?by=hits&per=century", 400, "per", "century"),
        ("/views/hits/live?mode=loud", 400, "mode", "loud"),
        ("/ledger/nothing", 404, "source", "'nothing'"),
        ("/days/hitz", 404, "view", "hitz"),
        ("/nowhere", 404, None, "/docs"),
    ],
)
def test_what_cannot_be_asked_is_refused_with_the_parameter(
    client: httpx.Client, path: str, status: int, parameter: str | None, says: str
) -> None:
    answer = client.get(path)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    found = answer.json()
    assert (found["status"], found.get("parameter")) == (status, parameter)
    assert says in found["detail"]


@pytest.mark.parametrize(
    "text", ["' OR 1=1 --", '"; DROP TABLE states; --', "a' UNION SELECT 1", "\x00", "%", "𝔞" * 1000]
)
def test_a_value_is_a_value_whatever_it_looks_like(client: httpx.Client, text: str) -> None:
    assert client.get("/views/hits", params={"host": text}).json()["rows"] == []
    assert client.get("/views/hits", params={"order": text}).status_code in (200, 400)
    assert client.get("/views/hits/top", params={"by": text}).status_code == 400
    assert client.get("/views/hits").json()["total"] > 0


def test_a_question_that_costs_too_much_is_refused_and_says_how_to_ask(tables: Tables) -> None:
    with serving(tables.settings, limits=Limits(states=10)) as address:
        answer = httpx.get(f"{address}/views/hits")
        assert answer.status_code == 413
        assert "shorter range" in answer.json()["detail"]
        assert httpx.get(f"{address}/views/hits?start=2030-01-01").json()["rows"] == []


def test_a_question_that_takes_too_long_is_given_up(tables: Tables) -> None:
    with serving(tables.settings, limits=Limits(seconds=1e-9)) as address:
        answer = httpx.get(f"{address}/views/hits")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")


def test_a_view_without_numbers_yet_says_how_to_get_them(home: Path) -> None:
    with serving(Settings(home=str(home), definitions="braid.examples.weblog")) as address:
        answer = httpx.get(f"{address}/views/visits")
        assert answer.status_code == 503
        assert "`braid stream visits`" in answer.json()["detail"]
        views = {view["name"]: view for view in httpx.get(f"{address}/views").json()["views"]}
        assert views["visits"]["version"] is None
        assert views["visits"]["window"]["gap_seconds"] == 1800


def test_a_view_that_is_deployed_later_is_served_too(home: Path) -> None:
    settings = Settings(home=str(home))
    with serving(settings) as address:
        assert httpx.get(f"{address}/views/hits").status_code == 404
        tables = filled(settings, tumbling("1 hour"))
        until(lambda: httpx.get(f"{address}/views/hits").status_code == 200)
        assert rows_of(httpx.get(f"{address}/views/hits")) == tables.answer()


def test_who_watches_is_told_what_moves(client: httpx.Client, tables: Tables) -> None:
    with client.stream("GET", "/views/hits/live?host=a", timeout=30) as stream:
        told = events_of(stream)
        assert next(told)[0] == "hello"
        tables.append(
            [Event(MIDNIGHT, "b", 1, MIDNIGHT + 5 * MINUTE), Event(MIDNIGHT, "a", 5, MIDNIGHT + 5 * MINUTE)]
        )
        name, data = next(told)
    assert name == "update"
    key = ("a", MIDNIGHT, MIDNIGHT + timedelta(hours=1))
    (row,) = data["rows"]
    assert (row["host"], row["hits"], row["_change"]) == ("a", tables.answer()[key]["hits"], "changed")


@pytest.mark.parametrize("condition", ["flag=true", "where=flag%3Dtrue"])
def test_who_watches_a_key_that_is_no_text_is_told_by_its_value(settings: Settings, condition: str) -> None:
    tables = Tables(settings, view_of(tumbling("1 hour"), keys=("flag",), derive={"flag": "n > 0"}))
    tables.deploy()
    tables.append([Event(MIDNIGHT, None, 1, MIDNIGHT, flag=True)])
    with serving(settings) as address, httpx.Client(base_url=address, timeout=30) as client:
        assert [row["flag"] for row in client.get(f"/views/hits?{condition}").json()["rows"]] == [True]
        with client.stream("GET", f"/views/hits/live?{condition}") as stream:
            told = events_of(stream)
            assert next(told)[0] == "hello"
            epoch = MIDNIGHT + MINUTE
            tables.append([Event(MIDNIGHT, None, 1, epoch, flag=flag) for flag in (True, False, None)])
            name, data = next(told)
        assert (name, [(row["flag"], row["hits"]) for row in data["rows"]]) == ("update", [(True, 2)])
        refused = client.get("/views/hits/live?flag=perhaps")
        assert (refused.status_code, refused.json()["parameter"]) == (400, "where")


def test_the_dashboard_is_told_where_all_views_stand(client: httpx.Client, tables: Tables) -> None:
    with client.stream("GET", "/live", timeout=30) as stream:
        told = events_of(stream)
        first = next(data for name, data in told if name == "views")
        tables.append([Event(MIDNIGHT, "b", 1, MIDNIGHT + 5 * MINUTE)])
        second = next(data for name, data in told if name == "views")
    assert second["hits"]["tail_version"] == first["hits"]["tail_version"] + 1


def test_another_address_than_loopback_needs_a_token(settings: Settings) -> None:
    with pytest.raises(SettingsError, match="BRAID_SERVE_TOKEN"):
        create_app(AllViews(settings, 1 << 20), host="0.0.0.0")


TOKEN = "a secret of many letters"


def test_a_token_that_can_be_guessed_is_refused(settings: Settings) -> None:
    with pytest.raises(SettingsError, match="at least 16"):
        create_app(AllViews(settings, 1 << 20), token="short")


def test_with_a_token_nobody_asks_without_it(tables: Tables) -> None:
    with serving(tables.settings, token=TOKEN) as address:
        refused = httpx.get(f"{address}/views")
        assert (refused.status_code, refused.json()["parameter"]) == (401, "Authorization")
        assert refused.headers["www-authenticate"].startswith("Bearer")
        for wrong in ("Bearer no", "Bearer", f"Basic {TOKEN}", "Bearer \xe9"):
            given = {"authorization": wrong.encode("latin-1")}
            assert httpx.get(f"{address}/views", headers=given).status_code == 401  # type: ignore[arg-type]
        right = {"authorization": f"Bearer {TOKEN}"}
        assert httpx.get(f"{address}/views", headers=right).status_code == 200
        assert httpx.get(f"{address}/health").status_code == 200
        # Addresses are kept in histories and logs: only a page that is opened in a browser has no other way.
        assert httpx.get(f"{address}/views", params={"token": TOKEN}).status_code == 401


def test_a_browser_is_given_a_cookie_that_ends_and_is_not_the_token(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(tables.settings, token=TOKEN) as address, httpx.Client(base_url=address) as browser:
        page = browser.get("/", params={"token": TOKEN})
        cookie = page.headers["set-cookie"]
        assert page.status_code == 200
        assert {"HttpOnly", "SameSite=Strict", "Max-Age=43200", "Path=/"} <= set(cookie.split("; "))
        assert "Secure" not in cookie
        assert "secret" not in cookie
        assert browser.get("/views").status_code == 200
        beside = {"cookie": f"bad[name]=1; {cookie.partition(';')[0]}"}
        assert httpx.get(f"{address}/views", headers=beside).status_code == 200
        longer = {"cookie": "braid_token=9" + cookie.partition("=")[2].partition(";")[0]}
        assert httpx.get(f"{address}/views", headers=longer).status_code == 401
        encrypted = httpx.get(f"{address}/", params={"token": TOKEN}, headers={"x-forwarded-proto": "https"})
        assert "; Secure" in encrypted.headers["set-cookie"]
        later = time.time() + 43_201
        monkeypatch.setattr("serving_layer.http.access.time.time", lambda: later)
        assert browser.get("/views").status_code == 401
        browser.cookies.clear()
        assert browser.get("/views", headers={"cookie": f"braid_token={TOKEN}"}).status_code == 401


def test_a_defect_has_the_headers_of_every_answer(tables: Tables) -> None:
    def fail(_: str) -> list[Any]:
        raise ZeroDivisionError

    with serving(tables.settings, OtherLayers(days=fail)) as address:
        answer = httpx.get(f"{address}/days/hits")
    assert (answer.status_code, answer.headers["content-type"]) == (500, "application/problem+json")
    assert "default-src 'self'" in answer.headers["content-security-policy"]


def test_a_page_of_another_host_cannot_ask_under_its_own_name(client: httpx.Client) -> None:
    assert client.get("/views", headers={"host": "evil.example"}).status_code == 421
    assert (
        "access-control-allow-origin"
        not in client.get("/views", headers={"origin": "http://evil.example"}).headers
    )


def test_every_answer_forbids_what_a_page_does_not_need(client: httpx.Client) -> None:
    for path in ("/", "/docs", "/views", "/nowhere"):
        assert "default-src 'self'" in client.get(path).headers["content-security-policy"]


def test_the_document_is_shown_without_asking_another_host(client: httpx.Client) -> None:
    page = client.get("/docs").text
    assert "//" not in page.replace("<!doctype", "")
    for asset in ("swagger-ui-bundle.js", "swagger-ui.css", "plotly.min.js", "docs.js"):
        assert client.get(f"/assets/{asset}").status_code == 200
    document = client.get("/openapi.json").json()
    assert document["paths"]["/views/{view}"]["get"]["parameters"]


def test_how_it_does_is_told_to_people_and_to_prometheus(tables: Tables) -> None:
    now = datetime.now(UTC)
    around = OtherLayers(
        days=lambda view: [{"day": "2024-03-10", "state": "stale"}],
        processes=lambda: [ProcessStatus("engine", os.getpid(), now, now)],
    )
    with serving(tables.settings, around) as address:
        assert httpx.get(f"{address}/health").json() == {"alive": True}
        assert httpx.get(f"{address}/ready").json() == {"ready": True}
        assert httpx.get(f"{address}/versions").json()["views"]["hits"]["version"] == 1
        assert httpx.get(f"{address}/days/hits").json()["days"] == [{"day": "2024-03-10", "state": "stale"}]
        httpx.get(f"{address}/views/hits")
        text = httpx.get(f"{address}/metrics").text
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert samples["braid_process_up", "engine"] == 1
    assert samples["braid_answer_seconds_count", "/views/{view}"] == 1
    assert samples["braid_serving_memory_limit_bytes",] == 268435456


def test_the_pages_of_gates_are_made_when_they_are_opened(tables: Tables) -> None:
    good, bad = Verdict((Check("rows", True, 7, "at least 1"),)), Verdict((Check("rows", False, 0, "<b>"),))
    first, second = MIDNIGHT.date(), MIDNIGHT.date() + timedelta(days=1)
    write_gates(tables.settings, "requests", {first: Gate(MIDNIGHT, good), second: Gate(MIDNIGHT, bad)})
    with serving(
        tables.settings, OtherLayers(data_docs=partial(data_docs.opened, tables.settings))
    ) as address:
        index = httpx.get(f"{address}/data-docs", follow_redirects=True)
        assert index.headers["content-type"].startswith("text/html")
        assert httpx.head(f"{address}/data-docs/").status_code == 200
        links = re.findall(r'href="([^"]+)"', index.text)
        assert links == [f"source-requests/{day}/index.html" for day in (second, first)], (
            "what failed comes first"
        )
        failed, passed = (httpx.get(f"{index.url}{link}") for link in links)
        assert "&lt;b&gt;" in failed.text
        assert "at least 1" in passed.text
        # Nothing was written for it, and what the gates say next is what the next reader sees.
        assert not Path(data_docs.site(tables.settings)).exists()
        write_gates(tables.settings, "requests", {second: Gate(MIDNIGHT, good)})
        assert "Failed" not in httpx.get(f"{index.url}{links[0]}").text
        missing = httpx.get(f"{index.url}source-requests/2031-01-01/")
    assert missing.status_code == 404
    assert "`braid batch run`" in missing.json()["detail"]


def test_a_view_whose_table_is_damaged_is_named_and_the_others_are_served(tables: Tables) -> None:
    other = Tables(tables.settings, view_of(tumbling("1 hour"), name="other"))
    other.deploy()
    other.append(some_events(1, 5, MIDNIGHT))
    with serving(tables.settings) as address:
        log = Path(other.place.tail, "_delta_log", f"{1:020d}.json")
        log.write_text("{ this is no commit")
        until(lambda: httpx.get(f"{address}/ready").status_code == 503)
        assert list(httpx.get(f"{address}/versions").json()["problems"]) == ["other"]
        assert rows_of(httpx.get(f"{address}/views/hits")) == tables.answer()
        assert rows_of(httpx.get(f"{address}/views/other")) == other.answer()


def test_the_example_of_the_documentation_runs(client: httpx.Client) -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "ask-over-http.md").read_text()
    example = next(part for part in page.split("```py\n") if "httpx" in part).partition("```")[0]
    names: dict[str, Any] = {}
    exec(
        example.replace("http://127.0.0.1:8471", str(client.base_url)).replace("page_traffic", "hits"), names
    )
    want = client.get("/views/hits?grain=1+day").json()["rows"]
    assert names["table"]["hits"].to_pylist() == [row["hits"] for row in want]


def test_a_finished_day_has_one_total_whatever_happens_around_it(tables: Tables) -> None:
    """Late events of other days, publishes, collections and folds go on; reads see none of it."""
    day = MIDNIGHT.date() - timedelta(days=1)
    want = sum(event.day == day for event in tables.events)
    stop = threading.Event()

    def work() -> None:
        turn = 3
        while not stop.is_set():
            epoch, turn = MIDNIGHT + turn * MINUTE, turn + 1
            tables.append(
                replace(event, epoch=epoch) for event in some_events(turn, 5, epoch) if event.day != day
            )
            for published in (day, MIDNIGHT.date()):
                tables.publish(published, epoch)
            tables.collect() if turn % 2 else tables.fold()

    with serving(tables.settings) as address, httpx.Client(base_url=address) as client:
        question = {"start": str(day), "end": str(MIDNIGHT.date()), "grain": "1 day", "group": ""}
        worker = threading.Thread(target=work)
        worker.start()
        try:
            answers = [client.get("/views/hits", params=question).json() for _ in range(300)]
        finally:
            stop.set()
            worker.join()
    assert {row["hits"] for answer in answers for row in answer["rows"]} == {want}
    assert all(len(answer["rows"]) == 1 for answer in answers)
    cuts = {json.dumps(answer["provenance"]["base_through"]) for answer in answers}
    assert len(cuts) > 3, "nothing happened meanwhile"


def test_a_deployment_that_is_damaged_is_named_and_the_others_are_found(tables: Tables) -> None:
    place = Path(tables.settings.location("views", "broken", "deployment.json"))
    place.parent.mkdir(parents=True)
    place.write_text("{ this is no deployment")
    with serving(tables.settings) as address:
        assert rows_of(httpx.get(f"{address}/views/hits")) == tables.answer()
        assert httpx.get(f"{address}/ready").status_code == 503
        problems = httpx.get(f"{address}/versions").json()["problems"]
        assert "restore it from a backup" in problems["broken"]
        later = Tables(tables.settings, view_of(tumbling("1 hour"), name="later"))
        later.deploy()
        later.append(some_events(1, 5, MIDNIGHT))
        until(lambda: httpx.get(f"{address}/views/later").status_code == 200)
