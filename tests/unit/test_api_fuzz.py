"""Whatever stands in times, grains, keys, paths and headers, the answer is a number or a clear refusal."""

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from batch_layer.gates import data_docs
from braid import tumbling
from braid.runtime.settings import Settings
from serving_layer.http.app import OtherLayers
from tests.api import serving
from tests.serving import MIDNIGHT, Tables, some_events, view_of

TOKEN = "a secret of many letters"
OFFSETS = st.integers(-24 * 60 + 1, 24 * 60 - 1).map(lambda minutes: timezone(timedelta(minutes=minutes)))
TIMES = st.datetimes(timezones=st.none() | OFFSETS).map(datetime.isoformat)
EDGES = [
    "0001-01-01T00:00+14:00",
    "9999-12-31T23:59-14:00",
    "0001-01-01",
    "9999-12-31",
    "2024-W10",
    "٢٠٢٤-٠٣-٠٨",
]
UNITS = ["days", "hours", "minutes", "seconds", "milliseconds", "weeks", "months", "d", "h"]
NUMBERS = st.integers(-1, 10**12) | st.sampled_from([0, 1, 24, 999_999_999, 10**30]) | st.floats()
HEADER = st.text(
    st.characters(min_codepoint=32, max_codepoint=255, exclude_characters="\x7f"), max_size=60
).map(lambda text: text.strip(" "))
often = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    home = Settings(home=str(tmp_path_factory.mktemp("home")))
    tables = Tables(home, view_of(tumbling("1 hour"), derive={"flag": "n > 0"}, keys=("host", "flag")))
    tables.deploy()
    tables.append(some_events(0, 50, MIDNIGHT))
    tables.publish(MIDNIGHT.date(), MIDNIGHT)
    others = OtherLayers(data_docs=partial(data_docs.opened, home))
    sent = {"authorization": f"Bearer {TOKEN}"}
    with (
        serving(home, others, token=TOKEN) as address,
        httpx.Client(base_url=address, headers=sent, timeout=30) as client,
    ):
        yield client


def is_clear(answer: httpx.Response, *statuses: int) -> None:
    assert answer.status_code in (statuses or (200, 400)), answer.text
    assert "default-src" in answer.headers["content-security-policy"]
    if answer.status_code >= 400:
        assert answer.json()["detail"]


@often
@given(start=TIMES | st.sampled_from(EDGES) | st.text(), end=st.none() | TIMES | st.sampled_from(EDGES))
@example(start="0001-01-01T00:00+14:00", end=None)
@example(start="2024-03-10", end="9999-12-31T23:59-14:00")
def test_any_time_can_be_written(client: httpx.Client, start: str, end: str | None) -> None:
    for path in ("/views/hits", "/views/hits/top?by=hits", "/views/hits/provenance"):
        asked = httpx.QueryParams({"start": start} | ({} if end is None else {"end": end}))
        is_clear(client.get(path + ("&" if "?" in path else "?") + str(asked)))


@often
@given(number=NUMBERS, unit=st.sampled_from(UNITS), end=st.none() | TIMES)
@example(number=999_999_999, unit="days", end=None)
@example(number=36_525, unit="days", end="8999-12-31")
def test_any_grain_can_be_written(client: httpx.Client, number: Any, unit: str, end: str | None) -> None:
    more = {} if end is None else {"end": end}
    is_clear(client.get("/views/hits", params={"grain": f"{number} {unit}"} | more))


@often
@given(key=st.sampled_from(["host", "flag"]), value=st.text())
def test_any_value_can_be_written(client: httpx.Client, key: str, value: str) -> None:
    try:
        asked = str(httpx.QueryParams({key: value}))
    except UnicodeEncodeError:
        return
    is_clear(client.get(f"/views/hits?{asked}"))


@often
@given(
    name=st.sampled_from(["cookie", "accept", "authorization", "x-forwarded-for", "x-forwarded-proto"]),
    value=HEADER,
)
@example(name="cookie", value='a,b=1; "c; braid_token=x')
@example(name="cookie", value="bad[name]=1")
@example(name="cookie", value="braid_token=\xb2.\xb2")
@example(name="accept", value="text/csv;q=nan, */*;q=inf")
def test_any_header_can_be_sent(client: httpx.Client, name: str, value: str) -> None:
    given = {name: value.encode("latin-1")}
    is_clear(client.get("/views/hits", headers=given), 200, 401, 406)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "path",
    [
        "/data-docs/",
        "/data-docs/index.html",
        "/data-docs/../../secret",
        "/data-docs/view-hits/2024-03-10",
        "/data-docs/%2e%2e/%2e%2e/validation.json",
        "/assets/%00",
        "/assets/" + "a" * 3000,
        "/%ff",
        "/views/%00/top?by=hits",
    ],
)
def test_a_path_to_nothing_is_not_found(client: httpx.Client, path: str) -> None:
    is_clear(client.get(path), 404)


def test_before_any_audit_the_pages_of_gates_say_what_writes_them(client: httpx.Client) -> None:
    assert "`braid batch run`" in client.get("/data-docs/").json()["detail"]
