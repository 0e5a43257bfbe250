"""What was told of runs, and what OpenLineage's specification (2-0-2) requires of each event."""

import json
import uuid
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


def told_in(file: str | Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(file).read_text().splitlines()]


def kinds(events: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(event["job"]["name"], event["eventType"]) for event in events]


def required(event: dict[str, Any]) -> None:
    """RunEvent: eventTime, producer, schemaURL, run, job; Dataset: namespace, name; BaseFacet: its two addresses."""
    assert event["eventType"] in {"START", "RUNNING", "COMPLETE", "ABORT", "FAIL", "OTHER"}
    assert datetime.fromisoformat(event["eventTime"]).tzinfo is not None
    assert urlsplit(event["producer"]).scheme
    assert event["schemaURL"] == "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
    uuid.UUID(event["run"]["runId"])
    for one in (event["job"], *event["inputs"], *event["outputs"]):
        assert isinstance(one["namespace"], str)
        assert one["namespace"]
        assert isinstance(one["name"], str)
        assert one["name"]
    for facet in _facets(event):
        assert urlsplit(facet["_producer"]).scheme
        assert urlsplit(facet["_schemaURL"]).scheme


def _facets(event: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from event["run"]["facets"].values()
    yield from event["job"]["facets"].values()
    for one in (*event["inputs"], *event["outputs"]):
        for part in ("facets", "inputFacets", "outputFacets"):
            yield from one.get(part, {}).values()
