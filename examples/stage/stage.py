"""Where an example plays: one Spark application, a broker and a home of its own, and the verbs of a play."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from threading import Event as Stop
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from batch_layer.compare_derived import DerivedReport
from batch_layer.compare_derived import compare as compare_derived
from batch_layer.derived import correct
from batch_layer.plan import ALL, plan
from batch_layer.run import run
from batch_layer.tasks import Asked
from braid.define.derived.base import with_inputs
from braid.define.derived.join import JoinedSource
from braid.define.source import Source
from braid.define.view import View
from braid.deploy import store as deployment
from braid.deploy.versions import Version
from braid.examples.stage.checks import TruthCheck, against_truth, equal, identical
from braid.examples.stage.naive import Answer, Event
from braid.log.contents import read
from braid.log.table import Log
from braid.produce.outlet import FileOutlet, kafka_outlet
from braid.produce.record import EVENT, Record
from braid.runtime.settings import Settings
from braid.tables.commits import newest_commit
from serving_layer.answer.answers import ask, ask_top, provenance
from serving_layer.answer.reader import FromTables
from serving_layer.answer.request import parse_ranking, parse_request
from speed_layer.jobs.engine import stream
from speed_layer.ledger.balance import take_stock
from speed_layer.stream.replay import replay

PARTITIONS = 3

Say = Callable[[str], AbstractContextManager[None]]


@dataclass
class Stage:
    """Views of one example and what happens to them. Paths in its definitions are seen from `folder`."""

    spark: SparkSession
    settings: Settings
    say: Say
    # What tells the topics of two stages on one broker apart.
    apart: str = ""
    views: dict[str, View] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        return self.settings.local_home()

    def set(self, *views: View) -> None:
        self.views = {view.name: self._placed(view) for view in views}

    def write(self, path: str, lines: Iterable[str]) -> None:
        """A file where the example's definitions look for it; a folder never shows half of it."""
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        records = (Record(b"", line.encode(), EVENT) for line in lines)
        FileOutlet(file).send(records, lambda record: None, Stop())

    def write_table(self, path: str, columns: Sequence[str], rows: Sequence[tuple[str, ...]]) -> None:
        """A Delta table of texts, as it is from now on; what it was stays readable as it was."""
        table = pa.table({name: [row[at] for row in rows] for at, name in enumerate(columns)})
        frame = self.spark.createDataFrame(table)
        frame.coalesce(1).write.format("delta").mode("overwrite").save(self._path(path))

    def send(self, records: Iterable[Record]) -> None:
        """To the topic of the example's source, in this order."""
        self._send(next(iter(self.views.values())).source, records)

    def bring_to(self, events: Mapping[str, Sequence[Event]], what: str) -> None:
        """To the topics of several sources, by name, and then through all streams."""
        sources = {source.name: source for source in self.sources}
        with self.say(f"sending {sum(map(len, events.values())):,} {what}, and streaming them into numbers"):
            for name, some in events.items():
                self._send(
                    sources[name], (Record(str(n).encode(), _json(e), EVENT) for n, e in enumerate(some))
                )
            self.stream()

    def derived(self, source: Source) -> DerivedReport:
        """What the stream of a derived source has drawn, beside what batch draws."""
        with self.say(f"comparing {source.name} with what batch draws"):
            return compare_derived(self.spark, self._join(source), self.settings)

    def correct(self, source: Source) -> int:
        """Batch adds what the stream missed; it is streamed like everything that comes late."""
        with self.say(f"adding what the stream of {source.name} missed (batch), and streaming it"):
            added = correct(lambda: self.spark, self.settings, [self._join(source)])
            self.stream()
        return added

    def ledger(self, source: Source) -> dict[str, Any]:
        return take_stock(Log(self._join(source), self.settings)).as_dict()

    def _send(self, source: Source, records: Iterable[Record]) -> None:
        with kafka_outlet(self.settings, str(source.kafka_topic), PARTITIONS) as outlet:
            outlet.send(records, lambda record: None, Stop())

    def _join(self, source: Source) -> JoinedSource:
        found = next(one for one in self.sources if one.name == source.name)
        assert isinstance(found, JoinedSource)
        return found

    @property
    def sources(self) -> list[Source]:
        """Those of its views, and what these are derived from."""
        return with_inputs(view.source for view in self.views.values())

    def bring(self, what: str, events: Sequence[Event]) -> None:
        records = [Record(str(n).encode(), _json(event), EVENT) for n, event in enumerate(events)]
        self.bring_records(f"{len(events):,} {what}", records)

    def bring_records(self, what: str, records: Iterable[Record]) -> None:
        with self.say(f"sending {what}, and streaming them into numbers"):
            self.send(records)
            self.stream()

    def stream(self) -> None:
        """Ingests what has come, then streams it."""
        views = list(self.views.values())
        stream(self.spark, views, self.settings, sources=self.sources, only=True, once=True)

    def batch(self, *views: View) -> list[TruthCheck]:
        """Recomputes every day of views, all of them where none is named, and publishes it."""
        chosen = [self.views[view.name] for view in views] or list(self.views.values())
        with self.say("recomputing every day from the log, and publishing it (batch)"):
            run(lambda: self.spark, self.settings, chosen, Asked())
        days = Counter(day.state for source in plan(self.settings, chosen, ALL) for day in source.days)
        return [equal("days that batch has published", dict(days), {"up to date": days.total()})]

    def replay(self, view: View) -> Answer:
        """History through the streaming code into a new version (Kappa); the version's rows."""
        with self.say(f"replaying history into a new version of {view.name} (Kappa)"):
            return self.rows(view, replay(self.spark, self.settings, self.views[view.name]))

    def rows(self, view: View, version: Version | None = None, grain: str | None = None) -> Answer:
        """What a reader gets: keys and start of the window -> numbers."""
        rows = ask(self._reading(view, version), parse_request(view, grain=grain)).rows.to_pylist()
        starts = ("window_start",) if rows and "window_start" in rows[0] else ()
        return {
            tuple(row[name] for name in (*view.keys, *starts)): {name: row[name] for name in view.measures}
            for row in rows
        }

    def top(
        self, view: View, by: str, n: int, per: str = "range", **asked: Any
    ) -> tuple[tuple[Any, ...], ...]:
        """The keys with the largest numbers, in a range of time or in each of its windows, and those numbers."""
        ranking = parse_ranking(view, by, n, per)
        rows = ask_top(self._reading(view), parse_request(view, **asked), ranking).rows.to_pylist()
        return tuple(tuple(row[name] for name in (*view.keys, by)) for row in rows)

    def provenance(self, view: View) -> dict[str, Any]:
        return provenance(self._reading(view), parse_request(view))

    def rejected(self) -> dict[str, int]:
        """Reason -> records of the log that are in quarantine."""
        (source,) = {view.source for view in self.views.values()}
        rows = read(self.spark, Log(source, self.settings)).where("_error is not null")
        reasons = rows.selectExpr("substring_index(_error, ':', 1) as reason").groupBy("reason").count()
        return {row["reason"]: row["count"] for row in reasons.collect()}

    def duplicates(self) -> int | None:
        """Records that were dropped because their event had come before."""
        (source,) = {view.source for view in self.views.values()}
        written = newest_commit(Log(source, self.settings).table)
        return written.duplicates if written else None

    def three_ways(
        self, truths: Mapping[str, Answer], streamed: Mapping[str, Answer] | None = None
    ) -> list[TruthCheck]:
        """Stream, batch and Kappa beside the truth, and beside each other; `streamed` where that has another truth."""
        views = [self.views[name] for name in truths]
        live = {view.name: self.rows(view) for view in views}
        checks = [
            against_truth(f"stream: {view.name}", view, live[view.name], (streamed or truths)[view.name])
            for view in views
        ]
        # Before the batch: a replay reads what other views have learnt, and publishing teaches them.
        replayed = {view.name: self.replay(view) for view in views}
        checks += self.batch()
        for view in views:
            batch, kappa, true = self.rows(view), replayed[view.name], truths[view.name]
            checks.append(against_truth(f"batch: {view.name}", view, batch, true))
            checks.append(against_truth(f"Kappa: {view.name}", view, kappa, true))
            checks.append(identical(f"batch and Kappa: {view.name}", view, batch, kappa))
            if streamed is None:
                checks.append(identical(f"batch and stream: {view.name}", view, batch, live[view.name]))
        return checks

    def _reading(self, view: View, version: Version | None = None) -> Any:
        found = version or deployment.load(self.settings, view.name).active
        assert found is not None, f"{view.name} was streamed"
        return FromTables(self.settings, found)

    def _placed(self, view: View) -> View:
        """The same view as if it were defined in the stage's folder, which is where its paths begin."""
        lookups = (
            replace(one, table=self._placed(one.view) if one.view else self._path(one.location))
            for one in view.enrich
        )
        return replace(view, source=self._source(view.source), enrich=tuple(lookups))

    def _source(self, source: Source) -> Source:
        if isinstance(source, JoinedSource):
            return replace(source, left=self._source(source.left), right=self._source(source.right))
        if source.kafka_topic:
            return replace(source, kafka_topic=source.kafka_topic + self.apart)
        return replace(source, files=self._path(str(source.files)))

    def _path(self, path: str) -> str:
        return str(self.folder / path)


def _json(event: Event) -> bytes:
    return json.dumps(event, default=_text).encode()


def _text(value: object) -> str:
    """Times as ISO-8601 and money as text: a number would lose its cents."""
    assert isinstance(value, datetime | Decimal), value
    return value.isoformat() if isinstance(value, datetime) else str(value)
