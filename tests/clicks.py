"""The example `clicks` without a broker: its two sources are folders, and what is true of them is known by hand."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from braid import View
from braid.define.derived.base import with_inputs
from braid.define.derived.join import JoinedSource
from braid.examples import clicks as example
from braid.examples.clicks.play import showings_and_clicks, split, true_pairs
from braid.log.table import Log
from braid.runtime.settings import Settings
from speed_layer.jobs.engine import stream

DEFINITIONS = """\
from dataclasses import replace
from braid.examples import clicks as example
impressions = replace(example.impressions, kafka_topic=None, files={folder!r} + "/impressions/*.jsonl")
clicks = replace(example.clicks, kafka_topic=None, files={folder!r} + "/clicks/*.jsonl")
clicked = replace(example.clicked, left=impressions, right=clicks)
clicked_per_hour = replace(example.clicked_per_hour, source=clicked)
"""
Event = dict[str, Any]
Pair = tuple[datetime, str, Any, int]


@dataclass(frozen=True)
class Parts:
    """Showings and clicks: what comes in time, and what comes too late for a stream."""

    shown: list[Event]
    clicks: list[Event]
    late_shown: list[Event]
    late_clicks: list[Event]

    def pairs(self, late: bool) -> list[Pair]:
        more = (self.late_shown, self.late_clicks) if late else ([], [])
        found = true_pairs(self.shown + more[0], self.clicks + more[1])
        return sorted((p["time"].replace(tzinfo=None), p["campaign"], p["cost"], p["after"]) for p in found)


def parts(number: int = 600) -> Parts:
    shown, clicks = (split(events, n) for n, events in enumerate(showings_and_clicks(number, seed=1), 2))
    return Parts(shown[0], clicks[0], shown[1], clicks[1])


@dataclass(frozen=True)
class Clicks:
    """A home, and the folders that its sources are read from."""

    spark: Any
    folder: Path
    home: Path

    @property
    def settings(self) -> Settings:
        return Settings(
            home=str(self.home), spark_master="local[2]", spark_memory="1g", epoch=timedelta(seconds=1),
            definitions=str(self.folder / "definitions.py"),
        )  # fmt: skip

    @property
    def join(self) -> JoinedSource:
        left, right = (
            replace(source, kafka_topic=None, files=f"{self.folder}/{source.name}/*.jsonl")
            for source in example.clicked.inputs
        )
        return replace(example.clicked, left=left, right=right)

    @property
    def view(self) -> View:
        return replace(example.clicked_per_hour, source=self.join)

    @property
    def log(self) -> Log:
        return Log(self.join, self.settings)

    def make(self) -> None:
        for name in ("impressions", "clicks"):
            (self.folder / name).mkdir(parents=True)
        (self.folder / "definitions.py").write_text(DEFINITIONS.format(folder=str(self.folder)))

    def put(self, name: str, impressions: Sequence[Event], clicks: Sequence[Event]) -> None:
        for folder, events in (("impressions", impressions), ("clicks", clicks)):
            draft = self.folder / folder / f".{name}"
            draft.write_text("".join(json.dumps(event, default=_text) + "\n" for event in events))
            draft.rename(self.folder / folder / f"{name}.jsonl")

    def stream(self) -> None:
        stream(self.spark, [self.view], self.settings, sources=with_inputs([self.join]), only=True, once=True)

    def rows(self) -> list[Any]:
        table = self.spark.read.format("delta").load(self.log.table).where("_error is null")
        return table.select("id", "time", "campaign", "cost", "after", "_partition").collect()

    def pairs(self) -> list[Pair]:
        return sorted((row.time, row.campaign, row.cost, row.after) for row in self.rows())

    def ids(self) -> list[str]:
        return sorted(row.id for row in self.rows())


def _text(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
