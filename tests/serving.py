"""A view's tables written by hand and without Spark, and the naive answer to what they hold."""

import random
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake

from braid import Source, View, count, max_, sum_
from braid.define.windows import AllTime, Session, Window
from braid.deploy.store import changing
from braid.deploy.versions import Version, deployed
from braid.runtime.settings import Settings
from braid.states.calendar import local_day, pane_start
from braid.tables.commits import Position, TailCommit
from braid.tables.view_tables import ViewTables
from tests.laws import twin

INSTANT = pa.timestamp("us", "UTC")
# The night of the 10th has no hour from 2 to 3, and the day has 23.
MIDNIGHT = datetime(2024, 3, 10, 5, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
SOURCE = Source(
    name="requests",
    kafka_topic="requests",
    schema="time timestamp, host string, n bigint",
    event_time="time",
    timezone="America/New_York",
)


@dataclass(frozen=True)
class Event:
    time: datetime
    host: str | None
    n: int | None
    epoch: datetime
    late: int = 0
    flag: bool | None = None

    @property
    def day(self) -> date:
        return local_day(self.time, SOURCE.zone)


def view_of(window: Window, **changes: Any) -> View:
    measures = {"hits": count(), "total": sum_("n"), "most": max_("n")}
    return View(
        **{"name": "hits", "source": SOURCE, "keys": ("host",), "window": window, "measures": measures}
        | changes
    )


def some_events(seed: int, number: int, epoch: datetime, hours: int = 60) -> list[Event]:
    """Around a change of the clock, over three days and with keys that have no value."""
    draw = random.Random(seed)
    hosts = ["a", "b", "", None]
    return [
        Event(
            MIDNIGHT
            + timedelta(seconds=draw.randrange(-12 * 3600, hours * 3600), microseconds=draw.choice([0, 7])),
            draw.choice(hosts),
            draw.choice([None, 0, draw.randrange(-50, 50)]),
            epoch,
            int(draw.random() < 0.2),
        )
        for _ in range(number)
    ]


@dataclass
class Tables:
    """A stream and a publisher in one: what they would write, and all events that they were given."""

    settings: Settings
    view: View
    number: int = 1
    events: list[Event] = field(default_factory=list)
    through: dict[date, datetime] = field(default_factory=dict)
    mark: TailCommit = field(default_factory=lambda: TailCommit("query", -1, Position(0)))

    @property
    def place(self) -> ViewTables:
        return ViewTables(self.settings, self.view.name, self.number)

    def deploy(self) -> Version:
        with changing(self.settings, self.view.name) as draft:
            draft.value = deployed(draft.value, self.view, datetime(2024, 1, 1, tzinfo=UTC))
        return draft.value.version(self.number)

    def append(self, events: Iterable[Event], **said: Any) -> None:
        """One micro-batch of the stream."""
        new = list(events)
        self.events += new
        known = [time for time in (self.mark.seen, *(event.time for event in new)) if time]
        epochs = [epoch for epoch in (self.mark.epoch, *(event.epoch for event in new)) if epoch]
        changes = {
            "seen": max(known, default=None),
            "epoch": max(epochs, default=None),
            "batch": self.mark.batch + 1,
        }
        self.mark = replace(self.mark, **changes | said)
        rows = [self._row(event) | {"epoch": event.epoch} for event in new]
        write_deltalake(
            self.place.tail, self._table(rows, "epoch"), mode="append", partition_by=["epoch"],
            commit_properties=self._said(),
        )  # fmt: skip

    def publish(self, day: date, through: datetime) -> None:
        """The batch layer: the day as it is in the log up to a cut, in one commit."""
        rows = [self._row(event) for event in self.events if event.day == day and event.epoch <= through]
        self.through[day] = through
        table = self._table([row | {"through": through} for row in rows or [{"day": day}]], "through")
        there = (
            {"mode": "overwrite", "predicate": f"day = '{day}'"}
            if DeltaTable.is_deltatable(self.place.base)
            else {}
        )
        write_deltalake(self.place.base, table, partition_by=["day"], **there)

    def collect(self) -> None:
        """The stream removes what its base covers."""
        rows = DeltaTable(self.place.tail).to_pyarrow_table().to_pylist()
        self._rewrite(
            [row for row in rows if row["day"] not in self.through or row["epoch"] > self.through[row["day"]]]
        )

    def fold(self) -> None:
        """The stream writes the same rows anew."""
        self._rewrite(DeltaTable(self.place.tail).to_pyarrow_table().to_pylist())

    def optimize(self) -> None:
        """Somebody compacts the table, and says nothing about it."""
        DeltaTable(self.place.tail).optimize.compact()

    def answer(self, window: Window | None = None) -> dict[Any, dict[str, Any]]:
        """(host, window_start, window_end) -> the numbers, from all events and by hand."""
        return naive(self.view, self.events, self.mark, window)

    def _rewrite(self, rows: list[dict[str, Any]]) -> None:
        table = self._table(rows, "epoch")
        write_deltalake(self.place.tail, table, mode="overwrite", commit_properties=self._said(fold=True))

    def _said(self, fold: bool = False) -> CommitProperties:
        # Spark's `userMetadata` is this field of the commit.
        return CommitProperties(custom_metadata={"userMetadata": replace(self.mark, fold=fold).to_json()})

    def _row(self, event: Event) -> dict[str, Any]:
        if isinstance(self.view.window, Session):
            when = {"first": event.time, "last": event.time}
        else:
            when = {"pane": pane_start(event.time, self.view.window.pane, SOURCE.zone)}
        keys = {key: getattr(event, key) for key in self.view.keys}
        total = None if event.n is None else Decimal(event.n)
        states = {"count": 1, "sum_n": total, "max_n": event.n, "_late": event.late}
        return {"day": event.day} | when | keys | states

    def _table(self, rows: list[dict[str, Any]], more: str) -> pa.Table:
        bounds = ("first", "last") if isinstance(self.view.window, Session) else ("pane",)
        schema = pa.schema(
            {more: INSTANT, "day": pa.date32()} | dict.fromkeys(bounds, INSTANT) | {"_late": pa.int64()}
            | {key: pa.bool_() if key == "flag" else pa.string() for key in self.view.keys}
            | {"count": pa.int64(), "sum_n": pa.decimal128(38, 0), "max_n": pa.int64()}
        )  # fmt: skip
        return pa.Table.from_pylist(rows, schema)


def filled(settings: Settings, window: Window, collected: bool = False, **changes: Any) -> Tables:
    """Three days of events in five epochs, two of the days published at different cuts."""
    tables = Tables(settings, view_of(window, **changes))
    tables.deploy()
    for epoch in range(5):
        tables.append(some_events(epoch, 40, MIDNIGHT + epoch * MINUTE))
    days = sorted({event.day for event in tables.events})
    tables.publish(days[0], MIDNIGHT + 3 * MINUTE)
    tables.publish(days[1], MIDNIGHT + MINUTE)
    if collected:
        tables.collect()
    return tables


def naive(
    view: View, events: list[Event], mark: TailCommit, window: Window | None = None
) -> dict[Any, dict[str, Any]]:
    window = window or view.window
    by_key = defaultdict(list)
    for event in events:
        by_key[tuple(getattr(event, key) for key in view.keys)].append(event)
    found = {}
    for key, members in by_key.items():
        for bounds, inside in _windows(window, [event.time for event in members]).items():
            found[(*key, *bounds)] = _numbers([members[i] for i in inside], bounds, view, mark)
    return found


def _windows(window: Window, times: list[datetime]) -> dict[Any, list[int]]:
    if isinstance(window, AllTime):
        return {(): list(range(len(times)))}
    if isinstance(window, Session):
        return twin.sessions(times, window.gap)
    by_hand = twin.elapsed_windows if window.every <= timedelta(hours=1) else twin.calendar_windows
    return by_hand(times, window.size, window.every, SOURCE.zone)


def _numbers(members: list[Event], bounds: Any, view: View, mark: TailCommit) -> dict[str, Any]:
    given = [event.n for event in members if event.n is not None]
    final = bool(bounds) and mark.seen is not None and mark.seen - view.patience >= bounds[1]
    late = "revised" if any(event.late for event in members) else "final"
    return {
        "hits": len(members),
        "total": sum(given) if given else None,
        "most": max(given, default=None),
        "_status": late if final and not mark.replaying else "provisional",
    }
