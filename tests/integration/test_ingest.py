"""Ingest keeps every record, counts none twice, and says why it rejected one."""

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from braid.cut import last_closed
from braid.errors import BraidError
from braid.infra.broker import Broker
from braid.log.table import Log
from braid.tables.commits import commits, newest_commit
from braid.tables.maintenance import maintain
from speed_layer.ingest.job import behind_kafka
from speed_layer.ingest.run import ingest
from speed_layer.ledger.balance import take_stock
from tests.conftest import free_port
from tests.ingesting import event, ids, rows, run
from tests.kafka import send
from tests.waiting import until

REASONS = {
    b'{"id": "a", "ti': "unparsable: not one JSON object",
    b'[{"id": "a"}]': "unparsable: not one JSON object",
    b'{"id": "a"} and more': "unparsable: not one JSON object",
    event("a") + event("b"): "unparsable: not one JSON object",
    event("a") + b"," + event("b"): "unparsable: not one JSON object",
    b"null": "unparsable: not one JSON object",
    b"   ": "unparsable: empty record",
    b'{"id": "\xff\xfe"}': "unparsable: not UTF-8",
    event("a", status="200"): "wrong type: status is not int",
    event("a", status=99999999999): "wrong type: status is not int",
    event("a", bytes=1.5): "wrong type: bytes is not bigint",
    event("a", time="yesterday"): "wrong type: time is not timestamp",
    event("a", time=None): "no event time",
    event("a", time="9999-01-01T00:00:00Z"): "clock out of range: more than 1 day after its arrival",
    event("a", time="1901-01-01T00:00:00Z"): "clock out of range: before 1970-01-01",
    event("a", status=99): "broken rule: status is an HTTP code",
}


def test_every_bad_record_is_in_the_log_with_its_reason_and_its_bytes(
    spark: Any, log: Log, broker: Broker
) -> None:
    send(broker.bootstrap, str(log.source.kafka_topic), [*REASONS, None])
    run(spark, log)
    found = {bytes(row._raw): row._error for row in rows(spark, log).select("_raw", "_error").collect()}
    assert found == REASONS | {b"": "unparsable: empty record"}


def test_times_are_read_with_their_zone_or_in_the_sources(spark: Any, log: Log, broker: Broker) -> None:
    times = {
        "zulu": ("2024-03-10T12:00:00Z", "2024-03-10 12:00:00", "2024-03-10"),
        "offset": ("2024-03-10T02:00:00+02:00", "2024-03-10 00:00:00", "2024-03-09"),
        "compact": ("2024-03-10T02:00:00+0200", "2024-03-10 00:00:00", "2024-03-09"),
        "winter wall": ("2024-03-10T01:30:00", "2024-03-10 06:30:00", "2024-03-10"),
        "summer wall": ("2024-03-10T03:30:00", "2024-03-10 07:30:00", "2024-03-10"),
        "date": ("2024-03-10", "2024-03-10 05:00:00", "2024-03-10"),
        "seconds": (807249601, "1995-08-01 04:00:01", "1995-08-01"),
    }
    send(
        broker.bootstrap,
        str(log.source.kafka_topic),
        [event(name, time=t) for name, (t, _, _) in times.items()],
    )
    run(spark, log)
    found = rows(spark, log).selectExpr("id", "string(time) as time", "string(day) as day").collect()
    assert {r.id: (r.time, r.day) for r in found} == {
        name: (time, day) for name, (_, time, day) in times.items()
    }


def test_duplicates_are_dropped_and_counted_but_never_records_without_an_id(
    spark: Any, log: Log, broker: Broker
) -> None:
    topic = str(log.source.kafka_topic)
    send(
        broker.bootstrap,
        topic,
        [event("a"), event("b"), event("a"), event(None), event(None), b"bad", b"bad"],
    )
    run(spark, log)
    send(broker.bootstrap, topic, [event("b"), event("c", status=9), event("c")])
    run(spark, log)
    books = take_stock(log)
    assert books.balanced
    assert books.duplicates_counted == sum(account.duplicates for account in books.accounts) == 2
    accepted = rows(spark, log).where("_error is null")
    assert sorted(row.id or "" for row in accepted.collect()) == ["", "", "a", "b", "c"]
    assert rows(spark, log).where("_error is not null").count() == 3


def test_a_backlog_is_read_in_portions_of_level_size(spark: Any, log: Log, broker: Broker) -> None:
    """Also by a run for its result, and what is left of a portion comes with the next start."""
    few = Log(log.source, log.settings.model_copy(update={"batch_records": 40}))
    send(broker.bootstrap, str(log.source.kafka_topic), [event(str(n)) for n in range(200)])
    run(spark, few)
    written = [commit for _, commit in commits(log.table) if not commit.beat][::-1]
    ends = [0, *(sum(commit.end.values()) for commit in written)]
    sizes = [after - before for before, after in pairwise(ends)]
    assert sum(sizes) == 200
    assert max(sizes) <= 42, sizes
    assert take_stock(log).balanced
    assert ids(spark, log) == sorted(str(n) for n in range(200))


def test_what_waits_is_counted_over_all_partitions() -> None:
    ends = {"requests": {"0": 10, "1": 20, "2": 30}}
    latest = {"requests": {"0": 110, "1": 220, "2": 30, "3": 5}}
    of_files = {"latestOffset": None, "endOffset": {"logOffset": 3}}
    assert behind_kafka({"sources": [{"latestOffset": latest, "endOffset": ends}, of_files]}) == 305
    assert behind_kafka({"sources": [of_files]}) is None
    assert behind_kafka({}) is None


def test_running_it_again_adds_nothing(spark: Any, log: Log, broker: Broker) -> None:
    send(broker.bootstrap, str(log.source.kafka_topic), [event(str(n)) for n in range(10)])
    run(spark, log)
    version = next(commits(log.table))[0]
    run(spark, log)
    assert next(commits(log.table))[0] == version
    assert rows(spark, log).count() == 10


def test_epochs_never_decrease_when_the_clock_jumps_back(spark: Any, log: Log, broker: Broker) -> None:
    topic = str(log.source.kafka_topic)
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    for part, clock in enumerate((noon, noon - timedelta(hours=3), noon + timedelta(minutes=9))):
        send(broker.bootstrap, topic, [event(f"{part}-{n}") for n in range(5)])
        run(spark, log, clock=lambda clock=clock: clock)
    epochs = [commit.epoch for _, commit in commits(log.table)][::-1]
    assert epochs == sorted(epochs)
    assert rows(spark, log).count() == 15
    assert take_stock(log).balanced


def test_when_ingest_stops_its_last_epoch_is_closed(spark: Any, log: Log, broker: Broker) -> None:
    send(broker.bootstrap, str(log.source.kafka_topic), [event("a")])
    run(spark, log)
    newest = newest_commit(log.table)
    assert newest is not None
    last = rows(spark, log).agg({"_epoch": "max"}).selectExpr("unix_seconds(`max(_epoch)`)").first()[0]
    assert last <= last_closed(newest.epoch, log.settings.epoch).timestamp()


def test_an_idle_source_still_closes_its_epochs(spark: Any, log: Log, broker: Broker) -> None:
    settings = log.settings.model_copy(update={"epoch": timedelta(seconds=1)})
    log = replace(log, settings=settings)
    send(broker.bootstrap, str(log.source.kafka_topic), [event("a")])
    stop = threading.Event()
    worker = threading.Thread(target=ingest, args=(spark, [log.source], settings), kwargs={"stop": stop})
    worker.start()
    try:
        until(lambda: Path(log.table, "_delta_log").is_dir() and newest_commit(log.table) is not None)
        first = newest_commit(log.table)
        assert first is not None

        def has_moved_on() -> bool:
            newest = newest_commit(log.table)
            return newest is not None and newest.beat and newest.epoch >= first.epoch + timedelta(seconds=3)

        until(has_moved_on)
    finally:
        stop.set()
        worker.join()
    assert ids(spark, log) == ["a"]


def test_a_decimal_is_kept_to_the_last_digit_or_rejected(spark: Any, log: Log, broker: Broker) -> None:
    money = replace(log.source, schema="id string, time timestamp, price decimal(10,2)", rules={})
    log = replace(log, source=money)
    prices = {"a": 1.25, "b": "19.90", "c": 1.555, "d": 123456789, "e": "much", "f": None, "g": 1e2}
    send(
        broker.bootstrap, str(money.kafka_topic), [event(name, price=price) for name, price in prices.items()]
    )
    run(spark, log)
    accepted = {r.id: r.price for r in rows(spark, log).where("_error is null").collect()}
    assert {name: None if price is None else str(price) for name, price in accepted.items()} == {
        "a": "1.25", "b": "19.90", "f": None, "g": "100.00"
    }  # fmt: skip
    errors = {row._error for row in rows(spark, log).where("_error is not null").collect()}
    assert errors == {"wrong type: price is not decimal(10,2)"}


def test_unknown_fields_are_reported_and_kept_on_request(spark: Any, log: Log, broker: Broker) -> None:
    topic = str(log.source.kafka_topic)
    records = [event(str(n), referrer="here", agent={"os": "x"}) for n in range(200)]
    send(broker.bootstrap, topic, records)
    run(spark, log)
    newest = newest_commit(log.table)
    assert newest is not None
    assert newest.unknown_fields == ("agent", "referrer")
    keeping = replace(log, source=replace(log.source, keep_unknown=True))
    send(broker.bootstrap, topic, [event("kept", referrer="there", agent={"os": "y"})])
    run(spark, keeping)
    kept = rows(spark, keeping).where("id = 'kept'").first()
    assert json.loads(kept._unknown) == {"referrer": "there", "agent": '{"os":"y"}'}


def test_a_new_column_is_added_to_the_log_and_a_changed_type_is_refused(
    spark: Any, log: Log, broker: Broker
) -> None:
    topic = str(log.source.kafka_topic)
    send(broker.bootstrap, topic, [event("old", host="h")])
    run(spark, log)
    wider = replace(log, source=replace(log.source, schema=f"{log.source.schema}, host string"))
    send(broker.bootstrap, topic, [event("new", host="h")])
    run(spark, wider)
    assert {row.id: row.host for row in rows(spark, wider).collect()} == {"old": None, "new": "h"}
    changed = replace(
        log, source=replace(log.source, schema=log.source.schema.replace("bytes bigint", "bytes string"))
    )
    with pytest.raises(BraidError, match=r"'bytes' is bigint in the log and string in the definition"):
        run(spark, changed)


def test_maintenance_while_ingest_runs_loses_nothing(spark: Any, log: Log, broker: Broker) -> None:
    topic = str(log.source.kafka_topic)
    stop = threading.Event()
    settings = log.settings.model_copy(update={"trigger": timedelta(0)})
    send(broker.bootstrap, topic, [event("first")])
    worker = threading.Thread(target=ingest, args=(spark, [log.source], settings), kwargs={"stop": stop})
    worker.start()
    try:
        until(lambda: Path(log.checkpoint, "commits", "0").exists())
        for part in range(3):
            send(broker.bootstrap, topic, [event(f"{part}-{n}") for n in range(20)])
            maintain(spark, log.table)
        until(lambda: rows(spark, log).count() == 61)
    finally:
        stop.set()
        worker.join()
    assert take_stock(log).balanced


def test_an_unknown_topic_is_named_with_the_ones_that_exist(spark: Any, log: Log) -> None:
    lost = replace(log, source=replace(log.source, kafka_topic="no-such-topic"))
    with pytest.raises(BraidError, match=r"has no topic 'no-such-topic'; the topics are: .*t-"):
        run(spark, lost)


def test_a_broker_that_does_not_answer_is_named(spark: Any, log: Log) -> None:
    address = f"127.0.0.1:{free_port()}"
    away = replace(log, settings=log.settings.model_copy(update={"kafka_bootstrap": address}))
    with pytest.raises(BraidError, match=f"no Kafka broker answers on {address}"):
        run(spark, away)


def test_the_commands_read_the_log(
    braid: Callable[..., Any],
    spark: Any,
    log: Log,
    broker: Broker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    definitions = tmp_path / "definitions.py"
    definitions.write_text(
        "from braid import Source\n"
        f"requests = Source(name='requests', kafka_topic={log.source.kafka_topic!r}, schema={log.source.schema!r},\n"
        "    event_time='time', event_id='id', rules={'status is an HTTP code': 'status between 100 and 599'})\n"
    )
    monkeypatch.setenv("BRAID_DEFINITIONS", str(definitions))
    monkeypatch.setenv("BRAID_KAFKA_BOOTSTRAP", broker.bootstrap)
    send(broker.bootstrap, str(log.source.kafka_topic), [event("a"), event("a"), b"bad"])
    assert braid("log", "requests").code == 2
    assert braid("ingest", "requests", "--once").code == 0
    report = json.loads(braid("log", "requests", "--json").out)
    assert [day["accepted"] for day in report["days"]] == [1, 0]
    assert sum(report["lag"].values()) == 0
    books = braid("ledger", "requests", "--json")
    assert books.code == 0
    assert json.loads(books.out)["balanced"] is True
    (reason,) = json.loads(braid("quarantine", "requests", "--json").out)
    assert reason["examples"][0]["raw"] == "bad"
    assert json.loads(braid("quarantine", "requeue", "requests", "--json").out)["requeued"] == 1
    assert "moved aside" in braid("recover", "requests").out
    assert json.loads(braid("maintain", "--json").out)[0]["files_after"] <= 2
    assert "'request'" in braid("ledger", "request").err
