"""The process of the sinks is killed and the database restarted while numbers move and versions change."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest

from braid import tumbling
from braid.deploy.store import changing
from braid.deploy.versions import Deployment, promoted, replayed, rolled_back
from braid.runtime.settings import Settings
from braid.runtime.status import SINKS, read_all
from serving_layer.answer.json_values import plain
from tests.postgres import Server, a_server
from tests.serving import MIDNIGHT, MINUTE, SOURCE, Tables, some_events, view_of
from tests.sinks import as_texts, served
from tests.waiting import until

ROOT = Path(__file__).parents[2]
BRAID = str(Path(sys.executable).with_name("braid"))
NOW = datetime(2024, 1, 1, tzinfo=UTC)
DEFINITIONS = """\
from dataclasses import replace
from braid import files, postgres, tumbling
from tests.serving import view_of
hits = replace(view_of(tumbling("1 minute")), sinks=(
    postgres("warehouse", table="hits"), files({folder!r}, format="jsonl", every="1 second")))
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with a_server() as running:
        yield running


@dataclass
class Reader:
    """Looks at the table again and again: what it ever sees is of one version, and never less than before."""

    dsn: str
    stop: threading.Event = field(default_factory=threading.Event)
    seen: list[tuple[int, int]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def run(self) -> None:
        while not self.stop.wait(0.005):
            try:
                with psycopg.connect(self.dsn, autocommit=True, connect_timeout=2) as connection:
                    while not self.stop.wait(0.005):
                        self.look(connection)
            except psycopg.Error:
                continue

    def look(self, connection: "psycopg.Connection[tuple[object, ...]]") -> None:
        found = connection.execute("SELECT array_agg(DISTINCT _version), sum(hits) FROM hits").fetchone()
        versions, hits = found or (None, None)
        if not isinstance(versions, list):
            return
        if len(versions) != 1:
            self.wrong.append(f"versions {versions} at once")
        total = int(str(hits))
        if self.seen and total < self.seen[-1][1]:
            self.wrong.append(f"{total} events after {self.seen[-1]}")
        self.seen.append((versions[0], total))


class Writing:
    """Two versions of a view, written as their streams and the batch layer would."""

    def __init__(self, settings: Settings) -> None:
        view = view_of(tumbling("1 minute"))
        other = replace(view, where="n is not null or n is null")
        self.both = [Tables(settings, view), Tables(settings, other, number=2)]
        for tables in self.both:
            tables.deploy()
        self.draw = random.Random(4)
        self._turns = iter(range(10**6))

    def work(self, rounds: int) -> None:
        for _ in range(rounds):
            turn = next(self._turns)
            epoch = MIDNIGHT + turn * MINUTE
            events = some_events(self.draw.randrange(10**6), 8, epoch, hours=self.draw.randrange(1, 30))
            # The candidate first: what it is behind would be seen as a loss when it is promoted.
            for tables in reversed(self.both):
                tables.append(events, complete=epoch - MINUTE)
                if turn % 3 == 2:
                    day = events[0].day
                    tables.publish(day, max(epoch - MINUTE, tables.through.get(day, MIDNIGHT)))


CHANGES: list[Callable[[Deployment], Deployment]] = [
    lambda dep: promoted(replayed(dep, 2, NOW), 2, NOW),
    lambda dep: rolled_back(dep, NOW),
    lambda dep: promoted(dep, 2, NOW),
    lambda dep: rolled_back(dep, NOW),
]


def table(server: Server) -> list[str]:
    columns = ("host", "window_start", "window_end", "hits", "total", "most", "_status")
    rows = server.query(f"SELECT {', '.join(columns)} FROM hits")
    return as_texts(
        {name: plain(value, SOURCE.zone) for name, value in zip(columns, row, strict=True)} for row in rows
    )


def running(environment: dict[str, str]) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([BRAID, "sink", "run"], env=os.environ | environment, cwd=ROOT)


def delivered(settings: Settings, after: int) -> bool:
    """Whether the sink in the database has had a delivery of a later revision, in this life of its process."""
    found = [q for p in read_all(settings) if p.process == SINKS for q in p.queries if "postgres" in q.name]
    return bool(found) and (found[0].batch or 0) > after


@pytest.mark.parametrize("kills", [3, pytest.param(12, marks=pytest.mark.soak)])
def test_killed_and_restarted_at_random_the_table_is_what_is_served_and_never_a_mixture(
    home: Path, tmp_path: Path, server: Server, kills: int
) -> None:
    server.query("DROP TABLE IF EXISTS hits, braid_sinks")
    settings = Settings(home=str(home))
    file = tmp_path / "defined.py"
    file.write_text(DEFINITIONS.format(folder=str(tmp_path / "out")))
    environment = {
        "BRAID_HOME": str(home), "BRAID_DEFINITIONS": str(file), "BRAID_DSN_WAREHOUSE": server.dsn,
        "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    writing = Writing(settings)
    writing.work(2)
    reader = Reader(server.dsn)
    watching = threading.Thread(target=reader.run)
    process = running(environment)
    with ExitStack() as ending:
        ending.callback(lambda: (process.kill(), process.wait()))
        until(lambda: delivered(settings, 0), 60)
        watching.start()
        ending.callback(watching.join)
        ending.callback(reader.stop.set)
        for kill in range(kills):
            writing.work(writing.draw.randrange(1, 4))
            if kill % 5 in (1, 2):
                server.stop(kill=True)
                writing.work(1)
                server.start()
            with changing(settings, "hits") as draft:
                draft.value = CHANGES[kill % 2 if kill < 2 else 2 + kill % 2](draft.value)
            writing.work(1)
            # At any moment of a delivery, which a reader's looks divide finely enough.
            looks = len(reader.seen) + writing.draw.randrange(60)
            until(lambda looks=looks: len(reader.seen) >= looks, 60)
            process.send_signal(signal.SIGKILL)
            process.wait()
            process = running(environment)
            newest = server.query("SELECT revision FROM braid_sinks")[0][0]
            if kill % 2:
                until(lambda newest=newest: delivered(settings, newest), 60)
        writing.work(3)
        until(lambda: table(server) == served(settings), 60)
        asked = subprocess.run(
            [BRAID, "query", "hits", "--json"],
            env=os.environ | environment,
            cwd=ROOT,
            check=True,
            capture_output=True,
        )
        assert as_texts(json.loads(asked.stdout)["rows"]) == table(server)
        until(lambda: len(reader.seen) > 100)
        process.terminate()
        assert process.wait(60) == 0
    assert reader.wrong == []
    assert {version for version, _ in reader.seen} == {1, 2}
    assert server.query("SELECT count(*) FROM hits") == [(len(served(settings)),)]
