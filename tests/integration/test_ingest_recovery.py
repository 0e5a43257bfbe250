"""Ingest that was killed, lost its checkpoint, or was started twice: refused, or gone on with, and never read twice."""

import shutil
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from braid.errors import BraidError
from braid.infra.broker import Broker
from braid.log.table import Log
from braid.tables.maintenance import maintain
from speed_layer import recovery
from speed_layer.ingest.quarantine import requeue
from speed_layer.ingest.run import ingest
from speed_layer.ledger.balance import take_stock
from tests.ingesting import event, ids, recover, run
from tests.kafka import send
from tests.waiting import until


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("newest_is_optimize", [False, True])
def test_a_batch_that_was_committed_before_a_crash_is_not_appended_again(
    spark: Any, log: Log, broker: Broker, newest_is_optimize: bool, strict: bool
) -> None:
    log = replace(log, settings=log.settings.model_copy(update={"strict": strict}))
    topic = str(log.source.kafka_topic)
    for part in range(2):
        send(broker.bootstrap, topic, [event(f"{part}-{n}") for n in range(20)])
        run(spark, log)
    # The crash: batch 1 is in the log, but its checkpoint never heard of that.
    for file in Path(log.checkpoint, "commits").glob("*1*"):
        file.unlink()
    if newest_is_optimize:
        maintain(spark, log.table)
    send(broker.bootstrap, topic, [event("0-0"), event("1-1"), event("2-0")])
    run(spark, log)
    run(spark, log)
    assert len(ids(spark, log)) == len(set(ids(spark, log))) == 41
    assert take_stock(log).balanced


def test_a_lost_checkpoint_is_refused_and_mended_by_the_command_it_names(
    spark: Any, log: Log, broker: Broker
) -> None:
    topic = str(log.source.kafka_topic)
    send(broker.bootstrap, topic, [event(str(n)) for n in range(10)])
    run(spark, log)
    Path(log.checkpoint).rename(f"{log.checkpoint}.elsewhere")
    send(broker.bootstrap, topic, [event("new")])
    with pytest.raises(BraidError, match=r"is gone.*`braid recover requests`"):
        run(spark, log)
    recover(spark, log)
    run(spark, log)
    run(spark, log)
    assert ids(spark, log) == sorted([*map(str, range(10)), "new"])
    assert take_stock(log).balanced


def test_a_log_from_an_old_backup_is_refused_beside_its_checkpoint_and_reads_again_what_it_lacks(
    spark: Any, log: Log, broker: Broker, tmp_path: Path
) -> None:
    topic = str(log.source.kafka_topic)
    for name in "abc":
        if name == "b":
            shutil.copytree(log.table, tmp_path / "backup")
        send(broker.bootstrap, topic, [event(name)])
        run(spark, log)
    shutil.rmtree(log.table)
    shutil.copytree(tmp_path / "backup", log.table)
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    send(broker.bootstrap, topic, [event("d")])
    for _ in range(2):
        with pytest.raises(BraidError, match=r"is older than its checkpoint.*`braid recover requests`"):
            run(spark, log)
    recover(spark, log)
    run(spark, log)
    assert ids(spark, log) == ["a", "b", "c", "d"]
    assert take_stock(log).balanced


def test_a_recovery_that_was_planned_before_the_last_batch_is_refused(
    spark: Any, log: Log, broker: Broker
) -> None:
    """Where no lock keeps them apart, a recovery meets an ingest that is at work."""
    topic, job = str(log.source.kafka_topic), f"ingest-{log.source.name}"
    send(broker.bootstrap, topic, [event("a")])
    run(spark, log)
    planned = recovery.plan_source(spark, log)
    send(broker.bootstrap, topic, [event("b")])
    run(spark, log)
    recovery.recover(spark, log.settings, job, planned)
    send(broker.bootstrap, topic, [event("c")])
    for _ in range(2):
        with pytest.raises(
            BraidError, match=r"has gone on since.*to batch \d+, from 0.*`braid recover requests`"
        ):
            run(spark, log)
    recover(spark, log)
    run(spark, log)
    run(spark, log)
    assert ids(spark, log) == ["a", "b", "c"]
    assert take_stock(log).balanced


@pytest.mark.parametrize("file", ["offsets/*", "metadata", "commits/*"])
def test_a_damaged_checkpoint_is_refused_and_can_be_mended(
    spark: Any, log: Log, broker: Broker, file: str
) -> None:
    topic = str(log.source.kafka_topic)
    send(broker.bootstrap, topic, [event("a")])
    run(spark, log)
    newest = max(Path(log.checkpoint).glob(file))
    newest.write_text("v1\n{")
    if file != "offsets/*":
        # With its checksum gone as well, only what is written in it tells.
        newest.with_name(f".{newest.name}.crc").unlink(missing_ok=True)
    send(broker.bootstrap, topic, [event("b")])
    with pytest.raises(BraidError, match=r"is damaged.*`braid recover requests`"):
        run(spark, log)
    recover(spark, log)
    run(spark, log)
    assert ids(spark, log) == ["a", "b"]
    assert take_stock(log).balanced


def test_a_checkpoint_from_an_old_backup_is_refused(spark: Any, log: Log, broker: Broker) -> None:
    import shutil

    topic = str(log.source.kafka_topic)
    for part in range(3):
        send(broker.bootstrap, topic, [event(str(part))])
        run(spark, log)
        if part == 0:
            shutil.copytree(log.checkpoint, f"{log.checkpoint}.backup")
    shutil.rmtree(log.checkpoint)
    Path(f"{log.checkpoint}.backup").rename(log.checkpoint)
    with pytest.raises(BraidError, match="older than its log"):
        run(spark, log)


def test_a_second_ingest_of_the_same_source_is_refused(spark: Any, log: Log, broker: Broker) -> None:
    send(broker.bootstrap, str(log.source.kafka_topic), [event("a")])
    stop = threading.Event()
    worker = threading.Thread(target=ingest, args=(spark, [log.source], log.settings), kwargs={"stop": stop})
    worker.start()
    try:
        until(lambda: Path(log.checkpoint, "commits", "0").exists())
        with pytest.raises(BraidError, match="runs already"):
            run(spark, log)
    finally:
        stop.set()
        worker.join()


def test_a_recovery_does_not_accept_requeued_records_again(spark: Any, log: Log, broker: Broker) -> None:
    topic = str(log.source.kafka_topic)
    send(broker.bootstrap, topic, [event("a", status=650), event("b")])
    run(spark, log)
    mended = replace(log, source=replace(log.source, rules={}))
    assert requeue(spark, mended) == 1
    run(spark, mended)
    recover(spark, mended)
    send(broker.bootstrap, topic, [event("c", status=650)])
    run(spark, mended)
    books = take_stock(mended)
    assert books.balanced, books
    assert books.requeued == {"sent": 1, "accepted": 1, "rejected": 0}
    assert ids(spark, mended) == ["a", "b", "c"]
