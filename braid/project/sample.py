"""A sample of events: the first lines of a file, or what a topic holds at its beginning."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from braid.errors import BraidError
from braid.produce.files import csv_rows, default_delimiter, jsonl_rows
from braid.runtime.kafka import client
from braid.runtime.settings import Settings

MOST = 1_000
TIMEOUT_MS = 10_000
_CSV = (".csv", ".tsv", ".tab")


@dataclass(frozen=True)
class Sample:
    """Events as they were decoded, and their lines as they were written."""

    events: tuple[dict[str, Any], ...]
    lines: tuple[bytes, ...]
    header: bytes | None = None
    delimiter: str | None = None

    @property
    def is_csv(self) -> bool:
        return self.delimiter is not None


def from_file(path: Path) -> Sample:
    if path.name.removesuffix(".gz").endswith(_CSV):
        delimiter = default_delimiter(path)
        rows = [row for row in islice(csv_rows(path, delimiter), MOST) if row.fields is not None]
        header = delimiter.join(rows[0].fields or ()).encode() if rows else b""
        found = tuple(dict(row.fields or {}) for row in rows)
        return Sample(found, tuple(row.raw for row in rows), header, delimiter)
    rows = [row for row in islice(jsonl_rows(path), MOST) if row.raw.strip()]
    good = tuple(dict(row.fields) for row in rows if row.fields is not None)
    if not good:
        raise BraidError(
            f"{path} has no line that is one JSON object, and it is no .csv file: give one of the two."
        )
    return Sample(good, tuple(row.raw for row in rows))


def from_topic(settings: Settings, topic: str) -> Sample:
    """What is at the beginning of the topic; records that are not JSON are in the lines, and not among the events."""
    lines = tuple(islice(_values(settings, topic), MOST))
    events = tuple(event for line in lines if isinstance(event := _decoded(line), dict))
    if not events:
        what = f"none of its first {len(lines)} records is a JSON object" if lines else "it is empty"
        raise BraidError(f"topic {topic!r} gives no sample: {what}. Give a file with --from-file.")
    return Sample(events, tuple(line for line in lines if b"\n" not in line))


def _values(settings: Settings, topic: str) -> Iterator[bytes]:
    from kafka import KafkaConsumer, TopicPartition

    with client(settings, KafkaConsumer, TIMEOUT_MS, enable_auto_commit=False) as consumer:
        partitions = consumer.partitions_for_topic(topic)
        if not partitions:
            known = ", ".join(sorted(name for name in consumer.topics() if not name.startswith("__"))[:20])
            raise BraidError(
                f"there is no topic {topic!r} on {settings.bootstrap}; there are: {known or 'none'}."
            )
        places = [TopicPartition(topic, partition) for partition in sorted(partitions)]
        consumer.assign(places)
        consumer.seek_to_beginning(*places)
        ends = consumer.end_offsets(places)
        while any(consumer.position(place) < ends[place] for place in places):
            batches = consumer.poll(TIMEOUT_MS, max_records=MOST)
            if not batches:
                return
            yield from (record.value for records in batches.values() for record in records if record.value)


def _decoded(line: bytes) -> Any:
    try:
        return json.loads(line.decode())
    except (ValueError, RecursionError):
        return None
