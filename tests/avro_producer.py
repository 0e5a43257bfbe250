"""Sends events as Avro with Confluent's client, in a process of its own: `python -m tests.avro_producer` and JSON."""

import io
import json
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from confluent_kafka import Producer
from fastavro import parse_schema, schemaless_writer

from tests.registry import register

FIRST: dict[str, Any] = {
    "type": "record", "name": "Order", "namespace": "shop",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "placed", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "country", "type": ["null", "string"], "default": None},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "items", "type": "int"},
        {"name": "due", "type": ["null", {"type": "int", "logicalType": "date"}], "default": None},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}  # fmt: skip
# Compatible by the registry's rules: a wider number, a new field with a default, one that is gone.
SECOND: dict[str, Any] = FIRST | {
    "fields": [
        *(field for field in FIRST["fields"] if field["name"] not in ("items", "due")),
        {"name": "items", "type": "long"},
        {"name": "channel", "type": ["null", "string"], "default": None},
    ]
}


def framed(schema_id: int, schema: dict[str, Any], event: dict[str, Any]) -> bytes:
    """Confluent's wire format: a zero, the id in four bytes, the record."""
    names = {field["name"] for field in schema["fields"]}
    values = {name: value for name, value in event.items() if name in names}
    values["placed"] = datetime.fromisoformat(event["placed"]).astimezone(UTC)
    values["amount"] = Decimal(event["amount"])
    if values.get("due") is not None:
        values["due"] = date.fromisoformat(event["due"])
    out = io.BytesIO()
    out.write(b"\0" + schema_id.to_bytes(4, "big"))
    schemaless_writer(out, parse_schema(schema), values)
    return out.getvalue()


def main() -> None:
    asked = json.load(sys.stdin)
    producer = Producer({"bootstrap.servers": asked["bootstrap"], "enable.idempotence": True})
    for schema, events in ((FIRST, asked["first"]), (SECOND, asked["second"])):
        schema_id = register(asked["registry"], f"{asked['topic']}-value", schema)
        for event in events:
            producer.produce(asked["topic"], framed(schema_id, schema, event), key=event["id"])
    assert producer.flush(60) == 0


if __name__ == "__main__":
    main()
