"""Real files with their real disorder: every line arrives, the mangled ones with a reason."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Answer

DEFINITIONS = """
from braid import Source

requests = Source(
    name="requests", kafka_topic="{topic}",
    schema="id string, time timestamp, host string, url string, status int, bytes bigint",
    event_time="time", event_id="id", timezone="America/New_York",
)
quakes = Source(
    name="quakes", kafka_topic="{topic}-quakes",
    schema="id string, time timestamp, updated timestamp, latitude double, longitude double, mag double, place string",
    event_time="time", event_id="id",
)
"""


@pytest.fixture
def replay(
    braid: Callable[..., Answer], broker: Any, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., dict[str, Any]]:
    """Replays a file through Kafka and ingest, and gives the ledger."""
    import uuid

    definitions = tmp_path / "definitions.py"
    definitions.write_text(DEFINITIONS.replace("{topic}", f"t-{uuid.uuid4().hex}"))
    monkeypatch.setenv("BRAID_DEFINITIONS", str(definitions))
    monkeypatch.setenv("BRAID_KAFKA_BOOTSTRAP", broker.bootstrap)

    def run(source: str, *options: str) -> dict[str, Any]:
        sent = braid("produce", "--source", source, "--json", *options)
        assert sent.code == 0, sent.err
        ingested = braid("ingest", source, "--once")
        assert ingested.code == 0, ingested.err
        books = json.loads(braid("ledger", source, "--json").out)
        assert books["balanced"], books
        return {
            "sent": json.loads(sent.out)["sent"],
            "accepted": sum(account["accepted"] for account in books["accounts"]),
            "rejected": sum(account["rejected"] for account in books["accounts"]),
        }

    return run


@pytest.mark.usefixtures("spark")
def test_all_requests_of_a_day_reach_the_log(replay: Callable[..., Any], shared_data: Path) -> None:
    file = shared_data / "nasa" / "nasa_19950801_full_day.tsv"
    found = replay("requests", "--csv", str(file), "--map", "status=response")
    assert found == {"sent": 33_996, "accepted": 33_996, "rejected": 0}


@pytest.mark.usefixtures("spark")
def test_mangled_lines_are_in_the_quarantine_with_reasons(
    replay: Callable[..., Any], braid: Callable[..., Answer], shared_data: Path
) -> None:
    file = shared_data / "nasa" / "NASA_access_log_Aug95_head_mangled_wraps.clf"
    assert replay("requests", "--clf", str(file)) == {"sent": 1_930, "accepted": 1_841, "rejected": 89}
    reasons = json.loads(braid("quarantine", "requests", "--json").out)
    assert sum(reason["records"] for reason in reasons) == 89


@pytest.mark.usefixtures("spark")
def test_earthquakes_in_the_order_of_their_revisions_are_all_kept(
    replay: Callable[..., Any], shared_data: Path
) -> None:
    file = shared_data / "usgs" / "all_month_quakewatch.csv"
    found = replay("quakes", "--csv", str(file), "--arrival", "updated")
    assert found == {"sent": 9_462, "accepted": 9_462, "rejected": 0}
