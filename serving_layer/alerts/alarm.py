"""One alert at work: takes a view's rows as a sink does, judges them, and writes down what is new."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import duckdb
import pyarrow as pa

from braid.define.alerts import Alert
from braid.define.sinks import Emit
from braid.define.view import View
from braid.define.windows import Fixed
from braid.errors import BraidError
from braid.runtime import documents
from braid.runtime.settings import Settings
from braid.states.database import cursor
from serving_layer.alerts import journal
from serving_layer.alerts.judge import (
    FiringEvent,
    Spot,
    Standing,
    fires_at,
    over,
    stands,
    touched_by,
    verdict,
)
from serving_layer.answer.json_values import typed_array
from serving_layer.answer.numbers import STATUS
from serving_layer.memory.changes import Row
from serving_layer.sinks.outgoing import Delivery, Held, row_id


@dataclass(frozen=True)
class AlertSink:
    """An alert as a place that rows go to."""

    alert: Alert

    @property
    def name(self) -> str:
        return f"alert:{self.alert.name}"

    @property
    def emit(self) -> Emit:
        return self.alert.on


class Alarm:
    """What it has said is in the journal; what holds now is known again after all rows were taken once."""

    def __init__(
        self, alert: Alert, settings: Settings, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self.alert, self._settings, self._clock = alert, settings, clock
        self._began = settings.location("alerts", alert.name, "began.json")
        self._holds: dict[Spot, Row] = {}
        self._standing: dict[Spot, Standing] = {}
        self._ends: dict[Spot, datetime] = {}
        self._until: datetime | None = None
        self._number = 0
        self._is_anew = True
        self._has_begun = False

    def held(self, view: View) -> Held:
        """No row is known: all of them are judged again, and what was said before is not said twice."""
        self._holds, self._standing, self._ends = {}, {}, {}
        self._until, self._number, self._is_anew = None, 0, True
        self._has_begun = documents.exists(self._began)
        fixed = isinstance(view.window, Fixed)
        for entry in journal.read_journal(self._settings, self.alert.name):
            spot = Spot(json.dumps(entry["keys"], sort_keys=True), entry["window_start"])
            is_over = entry["change"] == "resolved" and entry["fires"]
            self._standing[spot] = Standing(entry["fires"], entry["fires"] and not is_over)
            if entry["window_end"] is not None and fixed:
                self._ends[spot] = entry["window_end"]
            self._number = max(self._number, entry["number"])
            known = [moment for moment in (self._until, entry["final_until"]) if moment]
            self._until = max(known, default=None)
        return Held({}, self._number)

    def take(self, delivery: Delivery) -> None:
        changed = {self._spot(delivery.view, row): row for row in delivery.changed.values()}
        gone = {self._spot(delivery.view, row) for row in delivery.withdrawn.values()}
        for spot in gone | changed.keys():
            self._holds.pop(spot, None)
        self._holds |= self._true(delivery, changed)
        spots = gone | changed.keys()
        if self._is_anew:
            spots = self._holds.keys() | {spot for spot, known in self._standing.items() if known.fires}
        events = self._judge(delivery, spots, changed)
        entries = [self._entry(delivery, event, changed) for event in events]
        journal.append(self._settings, entries)
        if not self._has_begun:
            documents.write(self._began, json.dumps({"at": self._clock().isoformat()}) + "\n")
            self._has_begun = True
        self._is_anew = False
        self._until = max(filter(None, (self._until, delivery.final_until)), default=None)

    def close(self) -> None:
        """Nothing is kept open."""

    def _judge(self, delivery: Delivery, spots: Any, changed: dict[Spot, Row]) -> list[FiringEvent]:
        view, windows, events = delivery.view, self.alert.windows, []
        for spot in sorted(set(touched_by(spots, windows, view)), key=_order):
            fires = fires_at(spot, self._holds.__contains__, windows, view)
            row = self._holds.get(spot) or changed.get(spot)
            end = _end_of(row) or self._ends.get(spot)
            event = verdict(spot, fires, self._standing.get(spot), self._was_final(end, row))
            if event is not None:
                self._standing[spot] = stands(event)
                if end is not None:
                    self._ends[spot] = end
                events.append(event)
        for event in over(view, self._standing, self._ends, delivery.final_until):
            self._standing[event.spot] = stands(event)
            events.append(event)
        return events

    def _was_final(self, end: datetime | None, row: Row | None) -> bool:
        """Whether its window was final when this alert last looked; what is called revised has been.

        When it looks for the first time nothing has been said that could be wrong.
        """
        was = end is not None and self._until is not None and end <= self._until
        return self._has_begun and (was or (row is not None and row[STATUS] == "revised"))

    def _true(self, delivery: Delivery, rows: dict[Spot, Row]) -> dict[Spot, Row]:
        """The rows for which the condition is true; no number is not true."""
        # Also without rows, at first: a condition that cannot be computed is known at once.
        is_asked = bool(rows) or self._is_anew
        held = conditions(self.alert, delivery.schema, list(rows.values())) if is_asked else []
        return {spot: row for (spot, row), is_true in zip(rows.items(), held, strict=True) if is_true}

    def _spot(self, view: View, row: Row) -> Spot:
        start = row.get("window_start")
        return Spot(
            json.dumps({key: row[key] for key in view.keys}, sort_keys=True),
            None if start is None else datetime.fromisoformat(start).astimezone(UTC),
        )

    def _entry(self, delivery: Delivery, event: FiringEvent, changed: dict[Spot, Row]) -> dict[str, Any]:
        self._number += 1
        spot, view = event.spot, delivery.view
        row = self._holds.get(spot) or changed.get(spot) or {}
        said = {name: row[name] for name in view.measures if name in row}
        return {
            "alert": self.alert.name, "number": self._number, "change": event.change, "fires": event.fires,
            "id": row_id(spot.start and spot.start.isoformat(), {"alert": self.alert.name, "keys": spot.keys}),
            "reason": event.reason, "severity": self.alert.severity, "view": view.name,
            "version": delivery.version, "keys": spot.keys, "window_start": spot.start,
            "window_end": self._ends.get(spot), "status": row.get(STATUS, ""), "numbers": json.dumps(said),
            "epoch": delivery.epoch, "complete": delivery.complete, "final_until": delivery.final_until,
            "tail_version": delivery.position.get("tail_version"),
            "base_version": delivery.position.get("base_version"), "at": self._clock(),
            "quiet": not self._has_begun,
        }  # fmt: skip


def conditions(alert: Alert, schema: pa.Schema, rows: list[Row]) -> list[bool]:
    """Whether the alert's condition is true of each row, as SQL over the numbers says it."""
    columns = {field.name: typed_array([row.get(field.name) for row in rows], field.type) for field in schema}
    try:
        with cursor() as database:
            database.execute("SET TimeZone = 'UTC'")
            database.register("numbers", pa.table(columns))
            found = database.sql(f"SELECT coalesce(({alert.when})::BOOLEAN, false) FROM numbers").fetchall()
    except duckdb.Error as error:
        raise BraidError(
            f"alert {alert.name!r}: when is {alert.when!r}: {' '.join(str(error).split())}. Mend the condition."
        ) from None
    return [bool(is_true) for (is_true,) in found]


def _end_of(row: Row | None) -> datetime | None:
    end = None if row is None else row.get("window_end")
    return None if end is None else datetime.fromisoformat(end).astimezone(UTC)


def _order(spot: Spot) -> tuple[str, str]:
    return spot.start.isoformat() if spot.start else "", spot.keys
