"""Where a source's records come from: the broker of its topic, or the folder of its files; neither may be missing."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from braid.define.derived.base import Derived
from braid.define.source import Source
from braid.errors import BraidError, NotYet
from braid.log.derived import PATTERN, DerivedPlaces
from braid.log.table import Log
from braid.runtime import documents, kafka
from braid.runtime.settings import Settings

TIMEOUT_MS = 10_000
# A broker that has nothing to say of a place so often, a second each, is asked no more.
PATIENCE, POLL_MS, AT_ONCE = 10, 1_000, 5_000

Span = tuple[int, int]  # from (inclusive), to (exclusive)


def folder_of(log: Log) -> tuple[str, str]:
    """The folder to watch and the pattern of names in it; a user's folder that is not there is refused."""
    source = log.source
    if isinstance(source, Derived):
        folder = DerivedPlaces(log).events
        documents.make_folder(folder)
        return folder, PATTERN
    head, _, pattern = str(source.files).rpartition("/")
    folder = head or "."
    if "://" not in folder:
        if not Path(folder).is_dir():
            raise BraidError(
                f"source {source.name!r}: there is no folder {folder!r} (seen from {Path.cwd()}): make it, or mend "
                f"files={source.files!r}."
            )
        folder = str(Path(folder).resolve())
    return folder, pattern or "*"


class SilentError(Exception):
    """The broker says nothing of a place, neither that a record is there nor that there is none."""


@contextmanager
def _consumer(settings: Settings) -> Iterator[Any]:
    from kafka import KafkaConsumer

    with kafka.client(settings, KafkaConsumer, TIMEOUT_MS, enable_auto_commit=False) as consumer:
        yield consumer


def require_topic(source: Source, settings: Settings) -> list[int]:
    """The partitions of the source's topic; a topic that is not there is refused."""
    with _consumer(settings) as consumer:
        partitions = consumer.partitions_for_topic(source.kafka_topic)
        if not partitions:
            topics = sorted(name for name in consumer.topics() if not name.startswith("__"))
            known = f"the topics are: {', '.join(topics[:20])}" if topics else "it has no topics yet"
            raise NotYet(
                f"source {source.name!r}: the broker on {settings.bootstrap} has no topic {source.kafka_topic!r}; "
                f"{known}. Create it (producers do: `braid produce`), or mend kafka_topic."
            )
        return sorted(partitions)


def offsets(source: Source, settings: Settings) -> tuple[dict[str, int], dict[str, int]]:
    """(first, next) offset that the broker holds, per partition."""
    from kafka import TopicPartition

    partitions = require_topic(source, settings)
    with _consumer(settings) as consumer:
        places = [TopicPartition(source.kafka_topic, partition) for partition in partitions]
        first, after = consumer.beginning_offsets(places), consumer.end_offsets(places)
    return (
        {str(place.partition): first[place] for place in places},
        {str(place.partition): after[place] for place in places},
    )


def records_at(source: Source, settings: Settings, spans: Mapping[int, Sequence[Span]]) -> Iterator[Any]:
    """The records that the broker has in these spans of its partitions; places that hold none are passed over."""
    from kafka import TopicPartition

    with _consumer(settings) as consumer:
        for partition, wanted in spans.items():
            place = TopicPartition(source.kafka_topic, partition)
            consumer.assign([place])
            for start, end in wanted:
                yield from _records(consumer, place, start, end)


def _records(consumer: Any, place: Any, start: int, end: int) -> Iterator[Any]:
    consumer.seek(place, start)
    silent = 0
    while consumer.position(place) < end and silent < PATIENCE:
        found = consumer.poll(timeout_ms=POLL_MS, max_records=AT_ONCE).get(place, [])
        yield from (record for record in found if record.offset < end)
        silent = 0 if found else silent + 1
    if silent == PATIENCE:
        raise SilentError
