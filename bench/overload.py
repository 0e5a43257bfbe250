"""What a crowd does to the server: `python -m bench.overload [--days N] [--keys N] [--seconds N]`.

`braid serve` is asked by ten times as many as it lets in: by one client (Debian's `wrk`), and by sixteen that ask
for points, series, rankings and large answers. Beside them somebody asks for a point now and then, and a probe for
/health; both did so at rest before. The crowd is on the same machine, and niced: it stands for other machines.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpx
import numpy as np
import psutil

from bench.serving import questions, server, warm
from bench.shared.common import BY_PAGE, ResultRow, percentile, program, settings_at
from bench.shared.made_tables import MadeTables
from braid.runtime.settings import bytes_of

# So many questions are answered or wait at a time: Limits of serving_layer/http/limits.py.
ALLOWED, TIMES, CLIENTS = 68, 10, 16
HEALTH_WANTED, POINT_TIMES_WANTED = 0.100, 2.0
# What a process without tables takes, beside those and the queries.
OWN_MEMORY = 300 << 20
POINTS_EVERY, PROBES_EVERY, MEMORY_EVERY = 0.2, 0.05, 0.2


class Bystander:
    """Asks for a point and for /health now and then, and looks at the server's memory, until it is told to stop."""

    def __init__(self, address: str, process: psutil.Process, paths: list[str]) -> None:
        self._address, self._process, self._paths = address, process, paths
        parts = urlsplit(address)
        self._at = str(parts.hostname), int(parts.port or 0)
        self.points: list[float] = []
        self.probes: list[float] = []
        self.refused = 0
        self.memory = 0

    @contextmanager
    def watching(self) -> Iterator[None]:
        self.points, self.probes, self.refused, self.memory = [], [], 0, 0
        stop = threading.Event()
        works = (self._ask, POINTS_EVERY), (self._probe, PROBES_EVERY), (self._weigh, MEMORY_EVERY)
        threads = [threading.Thread(target=self._again, args=(stop, *work)) for work in works]
        transport = httpx.HTTPTransport(local_address="127.0.3.1")
        with httpx.Client(transport=transport, timeout=60) as self._client:
            for thread in threads:
                thread.start()
            try:
                yield
            finally:
                stop.set()
                for thread in threads:
                    thread.join()

    def _again(self, stop: threading.Event, work: Any, every: float) -> None:
        while not stop.wait(every):
            work()

    def _ask(self) -> None:
        began = time.perf_counter()
        answer = self._client.get(self._address + self._paths[len(self.points) % len(self._paths)])
        if answer.status_code == 200:
            self.points.append(time.perf_counter() - began)
        else:
            assert answer.status_code in (429, 503), answer.text
            self.refused += 1

    def _probe(self) -> None:
        """As a probe asks: on a connection of its own."""
        began = time.perf_counter()
        probe = HTTPConnection(*self._at, timeout=60)
        probe.request("GET", "/health")
        status = probe.getresponse().status
        probe.close()
        self.probes.append(time.perf_counter() - began)
        assert status == 200, status

    def _weigh(self) -> None:
        self.memory = max(self.memory, self._process.memory_info().rss)


def by_wrk(address: str, paths: list[str], seconds: float) -> dict[str, Any]:
    """One client that asks for one point, from many connections; it counts what is not 2xx or 3xx, and no more."""
    found = shutil.which("wrk")
    assert found, "needs wrk: on Debian, apt-get install wrk"
    command = [found, "-t1", f"-c{ALLOWED * TIMES}", f"-d{seconds:.0f}s", "--latency", address + paths[0]]
    said = subprocess.run(["nice", *command], check=True, capture_output=True, text=True).stdout
    asked = int(re.findall(r"(\d+) requests in", said)[0])
    refused = int((re.findall(r"Non-2xx or 3xx responses: (\d+)", said) or ["0"])[0])
    return {"statuses": {"200": asked - refused, "refused": refused}, "without_retry_after": 0}


def by_crowd(address: str, paths: list[str], seconds: float) -> dict[str, Any]:
    """Clients with an address each, which ask all kinds of questions."""
    command = [sys.executable, "-m", "bench.shared.crowd", address, *paths, f"--clients={CLIENTS}",
               f"--connections={ALLOWED * TIMES}", f"--seconds={seconds}"]  # fmt: skip
    said = subprocess.run(["nice", *command], check=True, capture_output=True, text=True).stdout
    found: dict[str, Any] = json.loads(said)
    return found


def measure(folder: Path, options: argparse.Namespace) -> tuple[list[ResultRow], dict[str, Any]]:
    settings = settings_at(folder)
    made = MadeTables(settings, options.keys)
    made.base(options.days)
    made.commit(options.days, 0)
    draw = np.random.default_rng(1)
    asks = questions(options.days, options.keys)

    def drawn(name: str, number: int) -> list[str]:
        return [f"{path}?{urlencode(rest)}" for path, rest in (asks[name](draw) for _ in range(number))]

    points = drawn("point", 50)
    mixed = [*points[:12], *drawn("a day's series", 4), *drawn("10 largest of all days", 1)]
    mixed += [f"/views/{BY_PAGE.name}?limit=100000"]
    most = bytes_of(settings.serve_memory) + bytes_of(settings.serve_query_memory) + OWN_MEMORY
    rows: list[ResultRow] = []
    details: dict[str, Any] = {}
    with server(settings) as (client, process):
        warm(client)
        address = str(client.base_url).rstrip("/")
        bystander = Bystander(address, process, points)
        with bystander.watching():
            time.sleep(options.seconds / 2)
        rest = percentile(bystander.points, 0.99)
        details["at rest"] = {"points": len(bystander.points), "p50": percentile(bystander.points, 0.5),
                              "p99": rest, "health max": max(bystander.probes)}  # fmt: skip
        rows.append(
            ResultRow(
                "at rest", f"p99 {rest * 1e3:.1f} ms, /health at most {max(bystander.probes) * 1e3:.0f} ms"
            )
        )
        loads = {"one client": (by_wrk, points), "sixteen clients": (by_crowd, mixed)}
        for name in options.load or loads:
            load, paths = loads[name]
            with bystander.watching():
                told = load(address, paths, options.seconds)
            p99 = percentile(bystander.points, 0.99) if bystander.points else float("inf")
            health = max(bystander.probes)
            details[name] = {"crowd": told,
                "points": len(bystander.points), "refused": bystander.refused, "p99": p99,
                "p50": percentile(bystander.points, 0.5) if bystander.points else None,
                "health max": health, "health p99": percentile(bystander.probes, 0.99),
                "probes": len(bystander.probes), "MiB": bystander.memory >> 20,
            }  # fmt: skip
            rows += [
                ResultRow(f"a point beside {name}", f"p99 {p99 * 1e3:.1f} ms, {bystander.refused} refused",
                          f"{p99 / rest:.1f}x", f"<= {POINT_TIMES_WANTED:g}x"),
                ResultRow(f"/health beside {name}", f"at most {health * 1e3:.0f} ms", "",
                          f"<= {HEALTH_WANTED * 1e3:.0f} ms"),
                ResultRow(f"memory beside {name}", f"{bystander.memory >> 20} MiB", "", f"<= {most >> 20} MiB"),
                ResultRow(f"what {name} heard", ", ".join(f"{n} x {s}" for s, n in told["statuses"].items()), "",
                          "no 5xx but 503 with Retry-After"),
            ]  # fmt: skip
    return rows, details


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--days", type=int, default=2, help="days of base")
    parser.add_argument("--keys", type=int, default=500, help="keys of each minute")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long the crowd asks")
    parser.add_argument("--load", nargs="+", help="'one client' or 'sixteen clients' alone")


if __name__ == "__main__":
    program("overload", __doc__, add_arguments, measure)
