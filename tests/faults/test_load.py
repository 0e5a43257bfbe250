"""Ten times as many as may ask do, for a minute: who behaves notices little, probes notice nothing, memory holds."""

import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from braid import tumbling
from braid.runtime.settings import Settings, bytes_of
from tests.conftest import free_port
from tests.serving import MIDNIGHT, MINUTE, Event, Tables, view_of
from tests.waiting import until

pytestmark = pytest.mark.soak

ROOT = Path(__file__).parents[2]
BRAID = str(Path(sys.executable).with_name("braid"))
DEFINITIONS = """\
from braid import tumbling
from tests.serving import view_of
hits = view_of(tumbling("1 minute"))
"""
HOURS, HOSTS = 24, 40
SECONDS = 60
# What the interpreter and its libraries take, beside what the settings allow.
ITSELF = 512 << 20
# Another client than the one that asks too much.
ELSEWHERE = ("127.0.0.2", 0)
POINT = "/views/hits?host=h7&start=2024-03-10T12:00:00Z&end=2024-03-10T12:01:00Z"
LUA = """
local threads = {}
function setup(thread) table.insert(threads, thread) end
function init(args) ok, refused, later, bare, other = 0, 0, 0, 0, 0 end
local number = 0
function request()
  number = number + 1
  if number % 10 == 0 then return wrk.format("GET", "/views/hits?host=h3&limit=2000") end
  if number % 50 == 1 then return wrk.format("GET", "/views/hits/top?by=hits") end
  local minute = "&start=2024-03-10T12:00:00Z&end=2024-03-10T12:01:00Z"
  return wrk.format("GET", "/views/hits?host=h" .. (number % 40) .. minute)
end
function response(status, headers)
  if status == 200 then ok = ok + 1
  elseif status == 429 then refused = refused + 1
  elseif status == 503 then later = later + 1
  else other = other + 1 end
  local after = headers["retry-after"] or headers["Retry-After"]
  if (status == 429 or status == 503) and not after then bare = bare + 1 end
end
function done()
  local sum = {ok = 0, refused = 0, later = 0, bare = 0, other = 0}
  for _, thread in ipairs(threads) do
    for name in pairs(sum) do sum[name] = sum[name] + thread:get(name) end
  end
  io.write(string.format('TOTAL {"ok": %d, "refused": %d, "later": %d, "bare": %d, "other": %d}\\n',
    sum.ok, sum.refused, sum.later, sum.bare, sum.other))
end
"""


@dataclass
class Asking:
    """Asks the same again and again, at a steady pace, and keeps how long each answer took."""

    port: int
    path: str
    every: float
    keeps: bool = True
    took: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def running(self) -> Iterator["Asking"]:
        thread = threading.Thread(target=self._run)
        thread.start()
        try:
            yield self
        finally:
            self.stop.set()
            thread.join()

    def _run(self) -> None:
        connection = None
        while not self.stop.wait(self.every):
            if connection is None or not self.keeps:
                connection = http.client.HTTPConnection("127.0.0.1", self.port, 10, source_address=ELSEWHERE)
            began = time.perf_counter()
            try:
                connection.request("GET", self.path)
                answer = connection.getresponse()
                answer.read()
            except OSError as error:
                self.wrong.append(repr(error))
                connection = None
                continue
            self.took.append(time.perf_counter() - began)
            if answer.status != 200:
                self.wrong.append(str(answer.status))
            if not self.keeps:
                connection.close()

    def quantile(self, share: float) -> float:
        return sorted(self.took)[int(share * (len(self.took) - 1))]


@contextmanager
def a_server(settings: Settings, file: Path) -> Iterator[tuple[int, psutil.Process]]:
    port = free_port()
    known = {
        "BRAID_HOME": settings.home, "BRAID_DEFINITIONS": str(file), "BRAID_SERVE_PORT": str(port),
        "BRAID_SERVE_MEMORY": settings.serve_memory, "BRAID_SERVE_QUERY_MEMORY": settings.serve_query_memory,
        "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    process = subprocess.Popen([BRAID, "serve"], env=os.environ | known)
    try:
        until(lambda: is_ready(port), 60)
        yield port, psutil.Process(process.pid)
    finally:
        process.terminate()
        assert process.wait(60) == 0


def is_ready(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, 5)
    try:
        connection.request("GET", "/ready")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def watched(work: Callable[[], str], server: psutil.Process) -> tuple[str, int]:
    """What the work gives, and the most memory that the server had meanwhile."""
    most, stop = [0], threading.Event()

    def look() -> None:
        while not stop.wait(0.2):
            most[0] = max(most[0], server.memory_info().rss)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        return work(), most[0]
    finally:
        stop.set()
        thread.join()


def test_who_asks_ten_times_as_much_as_allowed_harms_nobody_else(home: Path, tmp_path: Path) -> None:
    if shutil.which("wrk") is None:
        pytest.skip("needs wrk: on Debian, apt-get install wrk")
    settings = Settings(home=str(home), serve_memory="64m", serve_query_memory="128m")
    file, script = tmp_path / "defined.py", tmp_path / "load.lua"
    file.write_text(DEFINITIONS)
    script.write_text(LUA)
    tables = Tables(settings, view_of(tumbling("1 minute")))
    tables.deploy()
    tables.append(
        Event(MIDNIGHT + minute * MINUTE, f"h{host}", host, MIDNIGHT)
        for minute in range(HOURS * 60)
        for host in range(HOSTS)
    )
    seconds = int(os.environ.get("LOAD_SECONDS", SECONDS))
    connections = 10 * settings.serve_connections // 4
    with a_server(settings, file) as (port, server):
        with Asking(port, POINT, 0.02).running() as rest:
            until(lambda: len(rest.took) >= 500, 120)
        words = ["wrk", "-t2", f"-c{connections}", f"-d{seconds}s", "--timeout", "15s", "-s", str(script)]

        def load() -> str:
            return subprocess.run(
                [*words, f"http://127.0.0.1:{port}/"], check=True, capture_output=True, text=True
            ).stdout

        before = sum(server.cpu_times()[:2])
        with (
            Asking(port, POINT, 0.02).running() as busy,
            Asking(port, "/health", 0.1, False).running() as probe,
        ):
            said, memory = watched(load, server)
        worked = sum(server.cpu_times()[:2]) - before
    found = re.search("TOTAL (.*)", said)
    assert found is not None, said
    counted = json.loads(found[1])
    told = {name: [round(asked.quantile(q) * 1000, 1) for q in (0.5, 0.99, 1.0)] for name, asked in
            {"at rest": rest, "under load": busy, "/health": probe}.items()}  # fmt: skip
    print(said, f"p50, p99, most (ms): {told}; {memory >> 20} MiB, {worked:.1f} s of processor", sep="\n")
    print(f"wrong: {busy.wrong} {probe.wrong}")
    assert counted["other"] == counted["bare"] == 0
    assert counted["ok"] > 0
    assert busy.wrong == probe.wrong == []
    assert memory <= bytes_of(settings.serve_memory) + bytes_of(settings.serve_query_memory) + ITSELF
    assert max(probe.took) <= 0.1
    assert busy.quantile(0.99) <= 2 * rest.quantile(0.99)
