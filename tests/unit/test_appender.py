"""The writer of a log refuses a clock that went back too far, and never lets a stop wait for itself."""

import json
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from braid.examples.weblog import requests
from braid.log.table import Log
from braid.runtime.settings import Settings
from braid.tables.commits import Commit
from speed_layer.ingest.appender import Appender, ClockWentBack, Counted
from speed_layer.jobs.batch_writer import Stopping
from speed_layer.jobs.checkpoint import Plan
from tests.waiting import until

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)


def appender(floor: datetime) -> Appender:
    nobody: Any = None
    writer = Appender(
        spark=nobody,
        checkpoint=nobody,
        log=Log(requests, Settings()),
        clock=lambda: NOON,
        counted=lambda batch: None,
    )
    writer.last, writer.floor = Commit("q", 7, NOON, NOON), floor
    return writer


def test_a_clock_that_went_back_by_more_than_the_horizon_ends_the_batch_before_it_is_written() -> None:
    started_yesterday = appender(floor=NOON - timedelta(days=1))
    started_yesterday._refuse_old_clock(Plan(NOON - requests.horizon, ()))
    with pytest.raises(ClockWentBack):
        started_yesterday._refuse_old_clock(Plan(NOON - requests.horizon - timedelta(seconds=1), ()))


def test_a_query_that_was_started_anew_holds_the_clock_where_it_was() -> None:
    appender(floor=NOON)._refuse_old_clock(Plan(NOON - timedelta(days=300), ()))


def test_a_batch_that_meets_a_stop_gives_way_instead_of_waiting() -> None:
    writer = appender(floor=NOON)
    ended: list[BaseException] = []

    def batch() -> None:
        try:
            writer.append(None, 8)  # type: ignore[arg-type]
        except Stopping as stopping:
            ended.append(stopping)

    with writer.lock:
        writer.stopping.set()
        worker = threading.Thread(target=batch)
        worker.start()
        worker.join(30)
    assert not worker.is_alive()
    assert len(ended) == 1


def test_after_a_commit_that_may_or_may_not_have_been_made_nothing_more_is_said(spark: Any) -> None:
    writer = appender(floor=NOON)
    later = NOON + timedelta(hours=1)
    writer.clock = lambda: later

    class Fails:
        """Rows whose commit ends in an error, after the fact or before it: the writer cannot know."""

        def __getattr__(self, name: str) -> Any:
            return self

        def __call__(self, *arguments: Any, **options: Any) -> Any:
            return self

        def save(self, table: str) -> None:
            raise OSError(table)

    failing: Any = Fails()
    before = writer.last
    assert before is not None
    with pytest.raises(OSError, match="requests"):
        writer._write(failing, before)
    assert writer.beat() is False
    writer.close_epoch()
    assert writer.last == before


def test_an_epoch_is_not_closed_before_the_batch_in_it_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    writer = appender(floor=NOON)
    writer.clock = lambda: NOON + timedelta(hours=1)
    written: list[Commit] = []
    monkeypatch.setattr(writer, "_write", lambda rows, commit: written.append(commit))
    monkeypatch.setattr(writer, "_nothing", lambda: None)
    writer._awaited = 7
    assert not writer.beat()
    writer.counted = lambda batch: Counted(duplicates=3)
    assert writer.beat()
    assert [(commit.duplicates, commit.uncounted, commit.beat) for commit in written] == [(3, 0, True)]


def test_a_count_that_a_crash_took_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    writer = appender(floor=NOON)
    writer.clock = lambda: NOON + timedelta(hours=1)
    written: list[Commit] = []
    monkeypatch.setattr(writer, "_write", lambda rows, commit: written.append(commit))
    monkeypatch.setattr(writer, "_nothing", lambda: None)
    assert writer.beat()
    assert [commit.uncounted for commit in written] == [1]


def far_ahead(monkeypatch: pytest.MonkeyPatch) -> tuple[Appender, list[Commit], list[float]]:
    """A writer whose last commit was made when the clock was ten years ahead, and a clock for what passes."""
    writer = appender(floor=NOON)
    later = NOON + timedelta(days=3650)
    writer.last, passed = Commit("q", 7, later, later), [0.0]
    writer.elapsed, writer._began = lambda: passed[0], 0.0
    written: list[Commit] = []

    def save(rows: Any, commit: Commit) -> Commit:
        written.append(commit)
        return commit

    monkeypatch.setattr(writer, "save", save)
    monkeypatch.setattr(writer, "_nothing", mock.MagicMock)
    return writer, written, passed


def test_an_idle_source_closes_its_epoch_after_a_clock_that_jumped_forward_and_back(
    spark: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    writer, written, passed = far_ahead(monkeypatch)
    last = writer.last
    assert last is not None
    passed[0] = 59.0
    assert not writer.beat()
    passed[0] = 60.0
    assert writer.beat()
    assert [commit.epoch for commit in written] == [last.epoch + timedelta(minutes=1)]


def test_a_busy_source_closes_its_epochs_after_a_clock_that_jumped_forward_and_back(
    spark: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    writer, written, passed = far_ahead(monkeypatch)
    last = writer.last
    assert last is not None
    for second in range(0, 180, 10):
        passed[0] = float(second)
        commit = writer._next("q", 8 + second, Plan(NOON, ()))
        writer._write(mock.MagicMock(), commit)
    minutes = [(commit.epoch - last.epoch) // timedelta(minutes=1) for commit in written]
    assert minutes == sorted(minutes)
    assert minutes[-1] == 2


def test_what_deduplication_takes_for_now_moves_on_from_a_time_that_was_far_ahead(spark: Any) -> None:
    from pyspark.sql import functions as F

    from speed_layer.ingest.dedup import present

    floor = datetime.now(UTC) + timedelta(days=3650)

    def now() -> int:
        row = spark.range(1).select(F.unix_micros(present(floor, timedelta(days=3650)))).first()
        return int(row[0])

    first = now()
    assert first >= (floor - timedelta(minutes=5)).timestamp() * 1_000_000
    until(lambda: now() > first)


def test_ids_are_forgotten_after_a_clock_that_jumped_forward_and_back(spark: Any, tmp_path: Path) -> None:
    """A query that is started after the jump: an id comes again within the horizon, and long after it."""
    from pyspark.sql import functions as F

    from speed_layer.ingest.dedup import drop_duplicates

    far, came = timedelta(days=3650), tmp_path / "came"
    came.mkdir()
    rows = spark.readStream.schema("id string, _offset bigint").json(str(came))
    arrived = rows.select(
        "*",
        F.lit(0).alias("_partition"),
        F.lit(None).cast("string").alias("_error"),
        F.current_timestamp().alias("_arrival"),
    )
    source = replace(requests, dedup_horizon="1 second")
    kept = drop_duplicates(source, arrived, datetime.now(UTC) + far, far)
    accepted: list[tuple[str, int]] = []

    def take(batch: Any, _: int) -> None:
        accepted.extend((row.id, row._offset) for row in batch.select("id", "_offset").collect())

    query = kept.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path / "notes")).start()
    sent = count()

    def send(name: str) -> int:
        """One record, and its batch is awaited: the next one comes in a later batch."""
        number = next(sent)
        draft = tmp_path / f"{number}.json"
        draft.write_text(json.dumps({"id": name, "_offset": number}))
        draft.rename(came / draft.name)
        query.processAllAvailable()
        return number

    try:
        first = send("a")
        send("a")
        assert accepted == [("a", first)], "within the horizon it is a copy"
        until(lambda: ("a", send("a")) in accepted, timeout=60)
    finally:
        query.stop()


def test_a_start_after_a_jump_of_the_clock_goes_on_from_the_time_that_was_seen(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    writer = appender(floor=NOON)
    writer.log = Log(requests, Settings(home=str(tmp_path)))
    last = Commit("q", 7, NOON, NOON + timedelta(days=3650))
    monkeypatch.setattr("speed_layer.ingest.appender.newest_commit", lambda table: last)
    monkeypatch.setattr("speed_layer.ingest.appender.wall_clock", lambda: NOON)
    writer.begin()
    assert writer.ahead == timedelta(days=3650)
    writer._refuse_old_clock(Plan(NOON + timedelta(seconds=5), ()))
    assert writer._next("q", 8, Plan(NOON + timedelta(seconds=5), ())).clock == last.clock + timedelta(
        seconds=5
    )
