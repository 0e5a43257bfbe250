"""The ledger balances or says where it does not; what was rejected can be sent again, and counts once."""

from dataclasses import replace
from typing import Any

from braid.infra.broker import Broker
from braid.log.database import describe_rejected
from braid.log.table import Log
from speed_layer.ingest.quarantine import requeue
from speed_layer.ledger.balance import take_stock
from tests.ingesting import event, ids, rows, run
from tests.kafka import send


def test_the_ledger_finds_rows_that_vanished_and_rows_that_came_twice(
    spark: Any, log: Log, broker: Broker
) -> None:
    send(broker.bootstrap, str(log.source.kafka_topic), [event(str(n)) for n in range(40)])
    run(spark, log)
    place = rows(spark, log).where("_partition = 0").orderBy("_offset").first()
    spark.sql(f"alter table delta.`{log.table}` set tblproperties ('delta.appendOnly' = 'false')")
    spark.sql(f"delete from delta.`{log.table}` where _partition = 0 and _offset = {place._offset}")
    lost = take_stock(log)
    assert not lost.balanced
    assert [(v.kind, v.partition, v.first, v.last) for v in lost.violations] == [
        ("lost", 0, place._offset, place._offset)
    ]
    row = rows(spark, log).where("_partition = 1").limit(1)
    row.write.format("delta").mode("append").save(log.table)
    assert "repeated" in {violation.kind for violation in take_stock(log).violations}


def test_what_retention_deleted_before_it_was_read_is_reported_as_a_gap(
    spark: Any, log: Log, broker: Broker
) -> None:
    from kafka import KafkaAdminClient, TopicPartition

    topic = str(log.source.kafka_topic)
    send(broker.bootstrap, topic, [event("a")])
    run(spark, log)
    send(broker.bootstrap, topic, [event(str(n)) for n in range(40)])
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.delete_records({TopicPartition(topic, 0): 5})
    admin.close()
    run(spark, log)
    books = take_stock(log)
    assert not books.balanced
    assert {(v.kind, v.partition, v.last) for v in books.violations} == {("gap", 0, 4)}


def test_duplicates_that_kafka_has_deleted_since_are_proved_by_the_engines_count(
    spark: Any, log: Log, broker: Broker
) -> None:
    from kafka import KafkaAdminClient, TopicPartition

    topic = str(log.source.kafka_topic)
    send(broker.bootstrap, topic, [event(str(n % 10)) for n in range(40)])
    run(spark, log)
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.delete_records({TopicPartition(topic, 0): -1, TopicPartition(topic, 1): -1})
    admin.close()
    books = take_stock(log)
    assert books.balanced
    assert sum(account.duplicates for account in books.accounts) == 30


def test_a_requeued_record_is_accepted_once_after_the_rule_is_mended(
    spark: Any, log: Log, broker: Broker
) -> None:
    topic = str(log.source.kafka_topic)
    send(broker.bootstrap, topic, [event("a", status=650), event("b", status=650), event("c"), b"bad"])
    run(spark, log)
    assert {r["reason"]: r["records"] for r in describe_rejected(log)} == {
        "broken rule: status is an HTTP code": 2,
        "unparsable: not one JSON object": 1,
    }
    mended = replace(log, source=replace(log.source, rules={}))
    assert requeue(spark, mended, reason="broken rule") == 2
    assert requeue(spark, mended, reason="broken rule") == 0
    run(spark, mended)
    run(spark, mended)
    assert ids(spark, mended) == ["a", "b", "c"]
    books = take_stock(mended)
    assert books.balanced
    assert books.requeued == {"sent": 2, "accepted": 2, "rejected": 0}
    assert [r["reason"] for r in describe_rejected(mended)] == ["unparsable: not one JSON object"]


def test_a_record_that_fails_again_can_be_requeued_again(spark: Any, log: Log, broker: Broker) -> None:
    send(broker.bootstrap, str(log.source.kafka_topic), [event("a", status=650)])
    run(spark, log)
    assert requeue(spark, log) == 1
    run(spark, log)
    assert ids(spark, log) == []
    mended = replace(log, source=replace(log.source, rules={}))
    assert requeue(spark, mended) == 1
    run(spark, mended)
    assert ids(spark, mended) == ["a"]
