"""Topics and records for tests, on the real broker."""

from collections.abc import Iterable
from typing import Any

from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewTopic


def create_topic(bootstrap: str, topic: str, partitions: int = 2) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics([NewTopic(topic, num_partitions=partitions, replication_factor=1)])
    admin.close()


def send(bootstrap: str, topic: str, values: Iterable[bytes | None]) -> None:
    producer: Any = KafkaProducer(bootstrap_servers=bootstrap, acks="all")
    for number, value in enumerate(values):
        producer.send(topic, value, key=str(number).encode())
    producer.close()
