"""When each event of a view happened, came and was due: the narrow table that questions about lateness are asked of.

It is made by DuckDB in a file of its own, so that a long log needs disk and no memory.
"""

import math
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any, Literal

from braid.define.schema import double_quoted
from braid.define.view import View
from braid.define.windows import Fixed, Session
from braid.states.calendar import MONDAY, QUARTER, instant_of, micros, micros_of, needs_no_zone, windows_of

MEMORY = "512MB"
SECOND = 1_000_000
# History that was imported says nothing by the time of its import: no live source is this late on the whole.
IMPORTED = micros(timedelta(days=2))
NO_KEY = "∅"

Clock = Literal["arrival", "column", "event time"]


@dataclass(frozen=True)
class Span:
    """Which events are asked about: those of some days, up to a cut."""

    cut: datetime
    first: date | None = None
    last: date | None = None


@dataclass(frozen=True)
class Brought:
    """What lies before an offset of a partition, and in no earlier commit, could be read from this moment on."""

    partition: int
    before: int
    micros: int


@dataclass(frozen=True)
class EventTimes:
    """A table `event_times` with a row per event, all times in microseconds.

    `t` is the event's own time, `ends` the end of its first window, `came` when it came by the clock that is used,
    `seen` the largest event time before it, `served` when it could be read at the latest, `grp` its window and keys,
    `dawn` and `dusk` where its day begins and ends.
    """

    connection: Any
    clock: Clock
    events: int

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = self.connection.sql(sql).fetchall()
        return found

    def row(self, sql: str) -> tuple[Any, ...]:
        return self.rows(sql)[0]


@contextmanager
def event_times(
    view: View,
    rows: Any,
    span: Span,
    epoch: timedelta,
    arrival: str | None = None,
    brought: Sequence[Brought] = (),
) -> Iterator[EventTimes]:
    """`rows` is an Arrow dataset with the columns of the log that matter here, as `narrow_columns` names them.

    `arrival` is a column that tells when the record really came, for history that was imported later. What no commit
    is known to have `brought` was served by the end of its epoch.
    """
    import duckdb

    with tempfile.TemporaryDirectory(prefix="braid-accuracy-") as folder:
        connection = duckdb.connect(str(Path(folder) / "times.db"))
        try:
            connection.sql("SET TimeZone = 'UTC'")
            connection.sql(f"SET memory_limit = '{MEMORY}'")
            connection.register("log", rows)
            connection.sql(_taken(view, span, arrival))
            _add_days(connection, view)
            connection.sql(_placed(view, connection))
            clock = _clock(connection, arrival)
            _add_brought(connection, brought)
            connection.sql(_timed(clock, span, epoch))
            (events,) = connection.sql("SELECT count(*) FROM event_times").fetchall()[0]
            yield EventTimes(connection, clock, events)
        finally:
            connection.close()


def is_between(day: date, first: date | None, last: date | None) -> bool:
    return (first is None or day >= first) and (last is None or day <= last)


def needs_spark(view: View) -> bool:
    """Whether only Spark can tell which events are measured, and under which keys."""
    return view.where is not None or bool(view.each) or not set(view.keys) <= set(view.source.columns)


def narrow_columns(view: View, arrival: str | None = None) -> list[str]:
    """The columns of the log that event times are made from."""
    source = view.source
    wanted = [source.event_time, *view.keys, *filter(None, (source.event_id, arrival))]
    return list(dict.fromkeys([*wanted, "day", "_partition", "_offset", "_arrival", "_epoch", "_error"]))


def _taken(view: View, span: Span, arrival: str | None) -> str:
    """Every event once, and the largest event time before it in the order of the log.

    Days before the first are left out: their events are earlier than all others, so they never were the largest.
    """
    source = view.source
    keys = [f"coalesce({double_quoted(key)}::VARCHAR, '{NO_KEY}')" for key in view.keys]
    came = f"epoch_us({double_quoted(arrival)}::TIMESTAMPTZ)" if arrival else "epoch_us(_arrival)"
    order = "arrived, p, o" if arrival else "epoch, arrived, p, o"
    first_copy = (
        # By rank: an event that counts once for each of its elements has several rows at one place.
        "QUALIFY id IS NULL OR rank() OVER (PARTITION BY day, id ORDER BY epoch, p, o) = 1"
        if source.event_id
        else ""
    )
    since = f"AND day >= DATE '{span.first}'" if span.first else ""
    return f"""
        CREATE TABLE taken AS
        WITH events AS (
            SELECT day, epoch_us({double_quoted(source.event_time)}) AS t,
                   coalesce({came}, epoch_us(_arrival)) AS arrived,
                   epoch_us(_epoch) AS epoch, _partition AS p, _offset AS o,
                   {double_quoted(source.event_id) if source.event_id else "NULL"} AS id,
                   {" || ' · ' || ".join(keys) or "''"} AS key
            FROM log WHERE _error IS NULL AND _epoch <= TIMESTAMPTZ '{span.cut.isoformat()}' {since}
        ), firsts AS (SELECT * FROM events {first_copy})
        SELECT day, t, arrived, epoch, p, o, key, max(t) OVER (
                   ORDER BY {order} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
               ) AS seen
        FROM firsts
    """


def _add_days(connection: Any, view: View) -> None:
    """Where each day begins and ends where the source is."""
    connection.sql("CREATE TABLE days (day DATE, dawn BIGINT, dusk BIGINT)")
    rows = [
        (day, _midnight(day, view), _midnight(day + timedelta(days=1), view))
        for (day,) in connection.sql("SELECT DISTINCT day FROM taken").fetchall()
    ]
    if rows:
        connection.executemany("INSERT INTO days VALUES (?, ?, ?)", rows)


def _add_brought(connection: Any, brought: Sequence[Brought]) -> None:
    import pyarrow as pa

    columns = ("partition", "before", "micros")
    table = pa.table(
        {name: pa.array([getattr(one, name) for one in brought], pa.int64()) for name in columns}
    )
    connection.register("brought", table)


def _placed(view: View, connection: Any) -> str:
    """Each event with the end of the first window that it is in; a window without an end is due at once."""
    window = view.window
    if isinstance(window, Session):
        gap = micros(window.gap)
        return f"""
            CREATE TABLE placed AS
            WITH begun AS (
                SELECT *, coalesce(t - lag(t) OVER (PARTITION BY key ORDER BY t) > {gap}, true)::INT AS begins
                FROM taken
            ), numbered AS (SELECT *, sum(begins) OVER (PARTITION BY key ORDER BY t) AS island FROM begun)
            SELECT * EXCLUDE (begins, island), max(t) OVER (PARTITION BY key, island) + {gap} AS ends FROM numbered
        """
    if not isinstance(window, Fixed):
        return "CREATE TABLE placed AS SELECT *, t AS ends FROM taken"
    every = micros(window.every)
    if needs_no_zone(window.every):
        zero = micros_of(MONDAY.replace(tzinfo=UTC))
        return f"""
            CREATE TABLE placed AS
            SELECT *, t - ((t - {zero}) % {every} + {every}) % {every} + {every} AS ends FROM taken
        """
    # All instants between two such moments are in the same windows, whatever the zone does.
    step = math.gcd(every, micros(QUARTER))
    connection.sql("CREATE TABLE steps (step BIGINT, ends BIGINT)")
    known = connection.sql(f"SELECT DISTINCT t // {step} FROM taken").fetchall()
    ends = [(n, _first_end(n * step, window, view)) for (n,) in known]
    if ends:
        connection.executemany("INSERT INTO steps VALUES (?, ?)", ends)
    return f"CREATE TABLE placed AS SELECT taken.*, ends FROM taken JOIN steps ON t // {step} = step"


def _clock(connection: Any, arrival: str | None) -> Clock:
    if arrival is not None:
        return "column"
    (late,) = connection.sql("SELECT median(arrived - t) FROM taken").fetchall()[0]
    return "event time" if late is not None and late > IMPORTED else "arrival"


def _timed(clock: Clock, span: Span, epoch: timedelta) -> str:
    """By the clock of event time, something comes when the newest event before it happened."""
    came = "greatest(t, coalesce(seen, t))" if clock == "event time" else "arrived"
    by_epoch = f"epoch + {micros(epoch)}"
    # Two machines have two clocks: nothing is served before it came.
    known = f"CASE WHEN micros IS NULL THEN {by_epoch} ELSE greatest(micros, arrived) END"
    served = known if clock == "arrival" else "NULL::BIGINT"
    until = f"WHERE day <= DATE '{span.last}'" if span.last else ""
    return f"""
        CREATE TABLE event_times AS
        SELECT day, t, ends, {came} AS came, coalesce(seen, t) AS seen, {served} AS served, key, hash(ends, key) AS grp,
               dawn, dusk
        FROM placed JOIN days USING (day)
        ASOF LEFT JOIN brought ON p = partition AND o < before {until}
    """


def _first_end(start: int, window: Fixed, view: View) -> int:
    return micros_of(min(end for _, end in windows_of(instant_of(start), window, view.source.zone)))


def _midnight(day: date, view: View) -> int:
    return micros_of(datetime.combine(day, time(), tzinfo=view.source.zone))
