"""What an answer costs: `python -m bench.serving [--days N] [--keys N] [--seconds N]`.

The same questions (a point, a day's series, the ten largest of all days) asked of `braid serve`, over one day and over
many days of base, while its tail gains a commit every second; beside DuckDB that reads the Delta tables cold, and
Spark SQL. Also how soon a commit of the tail is visible, and the server's memory. The machine is noisy: read the
ratios, not the numbers.
"""

import argparse
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil

from bench.shared.common import BY_PAGE, ResultRow, percentile, program, settings_at
from bench.shared.made_tables import FIRST, MINUTE, MadeTables, page
from braid.infra.services.service import free_port
from braid.runtime.settings import Settings

POINT_WANTED, TOP_WANTED, VISIBLE_WANTED, TIMES_WANTED = 0.020, 0.150, 0.100, 20
# Long enough to be sure of a percentile, short enough to be run often.
COLD_RUNS = 5


@contextmanager
def server(settings: Settings) -> Iterator[tuple[httpx.Client, psutil.Process]]:
    port = free_port()
    environment = os.environ | {
        "BRAID_HOME": settings.home,
        "BRAID_DEFINITIONS": "bench.shared.made_tables",
        "BRAID_LOG_LEVEL": "warning",
    }
    command = [str(Path(sys.executable).with_name("braid")), "serve", "--port", str(port)]
    process = subprocess.Popen(command, env=environment)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            while True:
                try:
                    if client.get("/views/by_page?limit=0&start=2100-01-01").status_code == 200:
                        break
                except httpx.TransportError:
                    assert process.poll() is None, "the server ended"
                time.sleep(0.05)
            yield client, psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait()


def warm(client: httpx.Client) -> float:
    """Until the server has read what it keeps: memory does not grow any more."""
    began, before = time.monotonic(), -1.0
    while True:
        now = _metric(client, "braid_serving_memory_bytes")
        if now == before and now > 0:
            return time.monotonic() - began
        before = now
        time.sleep(2)


def _metric(client: httpx.Client, name: str) -> float:
    lines = client.get("/metrics").text.splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(f"{name} "))


@contextmanager
def growing_tail(made: MadeTables, day: int) -> Iterator[list[float]]:
    """A commit every second, as a stream does; gives when each was done."""
    stop, done = threading.Event(), [0.0]

    def grow() -> None:
        minute = 1
        while not stop.wait(1.0):
            made.commit(day, minute % 1440)
            done.append(time.monotonic())
            minute += 1

    made.commit(day, 0)
    thread = threading.Thread(target=grow)
    thread.start()
    try:
        yield done
    finally:
        stop.set()
        thread.join()


def questions(days: int, keys: int) -> dict[str, Callable[[Any], tuple[str, dict[str, Any]]]]:
    """Name -> a question drawn at random."""

    def point(draw: Any) -> tuple[str, dict[str, Any]]:
        minute = FIRST + timedelta(days=int(draw.integers(days)), minutes=int(draw.integers(1440)))
        bounds = {"start": minute.isoformat(), "end": (minute + MINUTE).isoformat()}
        return "/views/by_page", {"url": page(int(draw.integers(keys))), **bounds}

    def series(draw: Any) -> tuple[str, dict[str, Any]]:
        day = FIRST + timedelta(days=int(draw.integers(days)))
        bounds = {"start": day.isoformat(), "end": (day + timedelta(days=1)).isoformat()}
        return "/views/by_page", {"url": page(int(draw.integers(keys))), "limit": 1440, **bounds}

    def top(_: Any) -> tuple[str, dict[str, Any]]:
        return "/views/by_page/top", {"by": "hits", "n": 10}

    return {"point": point, "a day's series": series, "10 largest of all days": top}


def timed(
    client: httpx.Client, draw: Any, ask: Callable[[Any], tuple[str, dict[str, Any]]], seconds: float
) -> list[float]:
    took: list[float] = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        path, parameters = ask(draw)
        began = time.perf_counter()
        answer = client.get(path, params=parameters)
        took.append(time.perf_counter() - began)
        assert answer.status_code == 200, answer.text
        assert answer.json()["rows"], parameters
    return took


def visible(client: httpx.Client, done: list[float], commits: int) -> list[float]:
    """From the end of a commit to the first answer that knows of it."""
    took: list[float] = []
    while len(took) < commits:
        known = client.get("/versions").json()["views"]["by_page"]["tail_version"]
        count = len(done)
        while len(done) == count:
            time.sleep(0.001)
        while client.get("/versions").json()["views"]["by_page"]["tail_version"] == known:
            pass
        took.append(time.monotonic() - done[-1])
    return took


SQL = {
    "point": "SELECT url, pane, sum(count), sum(sum_bytes) FROM {t} WHERE day = DATE '{day}' AND pane = TIMESTAMP "
    "'{minute}' AND url = '{url}' GROUP BY ALL",
    "a day's series": "SELECT url, pane, sum(count), sum(sum_bytes) FROM {t} WHERE day = DATE '{day}' "
    "AND url = '{url}' GROUP BY ALL",
    "10 largest of all days": "SELECT url, sum(count) AS hits FROM {t} GROUP BY ALL ORDER BY hits DESC LIMIT 10",
}


def sql_of(name: str, table: str, days: int) -> str:
    minute = FIRST + timedelta(days=days - 1, minutes=721)
    moment = f"{minute:%Y-%m-%d %H:%M:%S}"
    return SQL[name].format(t=table, day=minute.date(), minute=moment, url=page(7))


def cold_duckdb(made: MadeTables, name: str, days: int) -> float:
    import duckdb
    from deltalake import DeltaTable

    began = time.perf_counter()
    with duckdb.connect() as database:
        database.sql("SET TimeZone = 'UTC'")
        for side in ("base", "tail"):
            database.register(side, DeltaTable(getattr(made.place, side)).to_pyarrow_dataset())
        columns = "day, pane, url, count, sum_bytes"
        both = f"(SELECT {columns} FROM base UNION ALL SELECT {columns} FROM tail)"
        assert database.sql(sql_of(name, both, days)).fetchall()
    return time.perf_counter() - began


def cold_spark(spark: Any, made: MadeTables, name: str, days: int) -> float:
    began = time.perf_counter()
    columns = ("day", "pane", "url", "count", "sum_bytes")
    base, tail = (
        spark.read.format("delta").load(place).select(*columns)
        for place in (made.place.base, made.place.tail)
    )
    base.unionByName(tail).createOrReplaceTempView("both_sides")
    assert spark.sql(sql_of(name, "both_sides", days)).collect()
    return time.perf_counter() - began


def measure(
    folder: Path, days: int, options: argparse.Namespace, spark: Any
) -> tuple[list[ResultRow], dict[str, Any]]:
    settings = settings_at(folder / f"{days}-days")
    made = MadeTables(settings, options.keys)
    made.base(days)
    rows: list[ResultRow] = []
    details: dict[str, Any] = {}
    draw = np.random.default_rng(1)
    made.commit(days, 0)
    began = time.monotonic()
    with server(settings) as (client, process):
        details["ready after s"] = round(time.monotonic() - began, 2)
        details["warm after s"] = round(warm(client), 1)
        with growing_tail(made, days) as done:
            for name, ask in questions(days, options.keys).items():
                timed(client, draw, ask, 1.0)
                took = timed(client, draw, ask, options.seconds)
                p50, p99 = percentile(took, 0.5), percentile(took, 0.99)
                details[name] = {"p50 ms": p50 * 1e3, "p99 ms": p99 * 1e3, "per s": len(took) / sum(took)}
                cold = statistics.median(cold_duckdb(made, name, days) for _ in range(COLD_RUNS))
                by_spark = (
                    statistics.median(cold_spark(spark, made, name, days) for _ in range(COLD_RUNS))
                    if spark
                    else None
                )
                wanted = {
                    "point": f"p99 <= {POINT_WANTED * 1e3:.0f} ms",
                    "10 largest of all days": f"p99 <= {TOP_WANTED * 1e3:.0f} ms",
                }
                ratio = f"DuckDB cold {cold / p50:.0f}x" + (
                    f", Spark {by_spark / p50:.0f}x" if by_spark else ""
                )
                details[name] |= {"cold DuckDB ms": cold * 1e3, "Spark ms": by_spark and by_spark * 1e3}
                rows.append(
                    ResultRow(
                        f"{name}, {days} days",
                        f"p50 {p50 * 1e3:.1f} ms, p99 {p99 * 1e3:.1f} ms, {len(took) / sum(took):,.0f}/s",
                        ratio,
                        wanted.get(name, "") + (f", >= {TIMES_WANTED}x" if name == "point" else ""),
                    )
                )
            seen = visible(client, done, 10)
        rows.append(
            ResultRow(
                f"a commit is visible, {days} days",
                f"p50 {percentile(seen, 0.5) * 1e3:.0f} ms, max {max(seen) * 1e3:.0f} ms",
                "",
                f"<= {VISIBLE_WANTED * 1e3:.0f} ms",
            )
        )
        details["server MiB"] = round(process.memory_info().rss / 2**20)
        details["tables MiB"] = round(_metric(client, "braid_serving_memory_bytes") / 2**20)
        rows.append(
            ResultRow(
                f"memory, {days} days", f"{details['server MiB']} MiB, tables {details['tables MiB']} MiB"
            )
        )
    return rows, details


def measure_all(folder: Path, options: argparse.Namespace) -> tuple[list[ResultRow], dict[str, Any]]:
    from braid.runtime.spark import spark_session

    spark = None if options.no_spark else spark_session(settings_at(folder), "bench")
    rows: list[ResultRow] = []
    details: dict[str, Any] = {"keys of a minute": options.keys}
    for days in options.days:
        found, details[f"{days} days"] = measure(folder, days, options, spark)
        rows += found
    if spark is not None:
        spark.stop()
    return rows, details


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--days", type=int, nargs="+", default=[1, 30], help="days of base")
    parser.add_argument("--keys", type=int, default=500, help="keys of each minute")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long each question is asked")
    parser.add_argument("--no-spark", action="store_true", help="leave Spark SQL out")


if __name__ == "__main__":
    program(f"serving: {BY_PAGE.name}", __doc__, add_arguments, measure_all)
