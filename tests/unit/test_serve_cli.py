"""`braid serve` and `braid sql` as people run them: an address, one sentence when it cannot be, and a quiet end."""

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from braid import tumbling
from braid.cli.serving.serve import other_layers
from braid.runtime.settings import Settings, bytes_of
from tests.conftest import Answer, free_port
from tests.serving import MIDNIGHT, Tables, some_events, view_of
from tests.waiting import until

BRAID = str(Path(sys.executable).with_name("braid"))


@pytest.fixture
def tables(home: Path) -> Tables:
    tables = Tables(Settings(home=str(home)), view_of(tumbling("1 hour")))
    tables.deploy()
    tables.append(some_events(0, 20, MIDNIGHT))
    return tables


def answers(address: str) -> bool:
    try:
        return httpx.get(f"{address}/health").status_code == 200
    except httpx.TransportError:
        return False


def test_it_serves_until_it_is_told_to_stop(tables: Tables) -> None:
    port = free_port()
    process = subprocess.Popen([BRAID, "serve", "--port", str(port)], stderr=subprocess.PIPE, text=True)
    address = f"http://127.0.0.1:{port}"
    try:
        until(lambda: answers(address))
        rows = httpx.get(f"{address}/views/hits").json()["rows"]
        assert sum(row["hits"] for row in rows) == 20
        with httpx.stream("GET", f"{address}/live", timeout=30) as stream:
            next(stream.iter_lines())
            # Whoever watches does not keep it from ending.
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
    finally:
        process.kill()
        said = process.communicate()[1]
    assert f"dashboard=http://127.0.0.1:{port}/" in said


def test_a_port_that_is_taken_is_named_with_the_setting_to_change(
    braid: Callable[..., Answer], tables: Tables
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        answer = braid("serve", "--port", port)
    assert (answer.code, "BRAID_SERVE_PORT" in answer.err) == (2, True)
    assert "Traceback" not in answer.err


def test_another_address_without_a_token_is_refused(braid: Callable[..., Answer], tables: Tables) -> None:
    answer = braid("serve", "--host", "0.0.0.0")
    assert answer.code == 2
    assert "BRAID_SERVE_TOKEN" in answer.err


def test_a_token_is_never_shown() -> None:
    settings = Settings(serve_token="very secret")
    assert "very secret" not in repr(settings)
    assert "very secret" not in str(settings.model_dump())


@pytest.mark.parametrize(("text", "number"), [("512m", 512 << 20), ("2g", 2 << 30)])
def test_memory_is_written_as_people_write_it(text: str, number: int) -> None:
    assert bytes_of(text) == number


def test_what_the_other_layers_know_is_told_of_a_home_without_anything(home: Path) -> None:
    told = other_layers(Settings(home=str(home), definitions="braid.examples.weblog"))
    assert told.days("page_traffic") == []
    assert told.accuracy("page_traffic")["days"] == []
    assert told.status()["processes"] == []


def test_sql_is_asked_from_the_command_line(braid: Callable[..., Answer], tables: Tables) -> None:
    answer = braid("sql", "select sum(hits) as hits from hits", "--json")
    assert json.loads(answer.out) == [{"hits": 20}]
    assert "hits" in braid("sql", "select host, hits from hits").out
    refused = braid("sql", "drop table hits")
    assert (refused.code, "can only be read" in refused.err) == (2, True)


def test_an_error_that_nobody_foresaw_is_no_failed_check(
    braid: Callable[..., Answer], tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("serving_layer.answer.sql.run", fail)
    answer = braid("sql", "select 1")
    assert answer.code == 70
    assert "defect of Braid" in answer.err
