"""The client of a local Airflow, beside a server that fails as Airflow does while its database is busy."""

import json
import threading
import urllib.error
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from braid.infra.airflow.api import Api
from braid.infra.airflow.files import LocalAirflow


class Busy(BaseHTTPRequestHandler):
    """Answers requests for a token; of the others, each gets the next of the codes that it was given."""

    codes: list[int]
    asked: list[str]

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/auth/token":
            return self._say(201, {"access_token": "t"})
        self.asked.append(self.path)
        return self._say(self.codes.pop(0), {"detail": "said"})

    def _say(self, code: int, answer: dict[str, str]) -> None:
        self.send_response(code)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def airflow(tmp_path: Path) -> Iterator[tuple[Api, type[Busy]]]:
    handler = type("Handler", (Busy,), {"codes": [], "asked": []})
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        (tmp_path / "airflow.cfg").write_text(f"[api]\nport = {server.server_port}\n")
        (tmp_path / "passwords.json").write_text(json.dumps({"admin": "p"}))
        yield Api(LocalAirflow(tmp_path)), handler
        server.shutdown()
        thread.join()


def test_what_its_database_refused_is_asked_again(airflow: tuple[Api, type[Busy]]) -> None:
    api, server = airflow
    server.codes += [500, 500, 200]
    assert api.ask("POST", "/backfills", {}) == {"detail": "said"}
    assert len(server.asked) == 3


def test_what_was_made_although_an_error_was_said_is_there_when_it_is_asked_for_again(
    airflow: tuple[Api, type[Busy]],
) -> None:
    api, server = airflow
    server.codes += [500, 409]
    api.ask("POST", "/backfills", {})
    assert len(server.asked) == 2


@pytest.mark.parametrize("code", [409, 400, 404])
def test_what_is_refused_at_once_is_an_error(airflow: tuple[Api, type[Busy]], code: int) -> None:
    api, server = airflow
    server.codes += [code]
    with pytest.raises(urllib.error.HTTPError, match=str(code)):
        api.ask("POST", "/backfills", {})
    server.codes += [500, 404]
    with pytest.raises(urllib.error.HTTPError, match="404"):
        api.ask("POST", "/backfills", {})
