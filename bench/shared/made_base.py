"""A view's tables, written without Spark: days of minutes and pages for the base, and a tail that goes on."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
from deltalake import CommitProperties, write_deltalake

from bench.shared.common import REQUESTS
from braid import View, count, sum_, tumbling
from braid.deploy.store import changing
from braid.deploy.versions import deployed
from braid.runtime.settings import Settings
from braid.tables.commits import Position, TailCommit
from braid.tables.view_tables import ViewTables

BY_PAGE = View(
    name="by_page", source=REQUESTS, keys=("url",), window=tumbling("1 minute"),
    measures={"hits": count(), "bytes": sum_("bytes")},
)  # fmt: skip
FIRST = datetime(2024, 3, 1, tzinfo=UTC)
MINUTE, MINUTES = timedelta(minutes=1), 1440
INSTANT = pa.timestamp("us", "UTC")


def page(number: int) -> str:
    return f"/page/{number:04d}.html"


class MadeTables:
    """Writes what a batch layer and a stream would have written, and counts it."""

    def __init__(self, settings: Settings, keys: int) -> None:
        self.place = ViewTables(settings, BY_PAGE.name, 1)
        self._keys = pa.array([page(number) for number in range(keys)])
        self._count = keys
        self._draw = np.random.default_rng(7)
        self._batch = 0
        with changing(settings, BY_PAGE.name) as draft:
            draft.value = deployed(draft.value, BY_PAGE, FIRST)

    def base(self, days: int) -> None:
        """So many days, a file each, as a publish writes them."""
        for number in range(days):
            day = FIRST + timedelta(days=number)
            panes = np.repeat(np.arange(MINUTES), self._count)
            table = self._states(day, panes, np.tile(np.arange(self._count), MINUTES))
            through = pa.repeat(pa.scalar(FIRST + timedelta(days=number + 1), INSTANT), len(table))
            write_deltalake(
                self.place.base,
                table.append_column("through", through).select(
                    ["day", "through", "pane", "_late", "url", "count", "sum_bytes"]
                ),
                mode="append",
                partition_by=["day"],
            )

    def commit(self, day: int, minute: int) -> int:
        """One micro-batch of the stream: every key in this minute; gives back how many events it held."""
        start = FIRST + timedelta(days=day)
        table = self._states(start, np.full(self._count, minute), np.arange(self._count))
        epoch = start + minute * MINUTE
        mark = TailCommit(
            "made", self._batch, Position(self._batch), epoch=epoch, complete=epoch - MINUTE, seen=epoch
        )
        self._batch += 1
        write_deltalake(
            self.place.tail,
            table.add_column(0, "epoch", pa.repeat(pa.scalar(epoch, INSTANT), len(table))),
            mode="append",
            partition_by=["epoch"],
            commit_properties=CommitProperties(custom_metadata={"userMetadata": mark.to_json()}),
        )
        return int(table["count"].to_numpy().sum())

    def _states(self, day: datetime, minutes: Any, keys: Any) -> pa.Table:
        counts = self._draw.integers(1, 200, len(keys))
        start = int(day.timestamp() * 1_000_000)
        panes = pa.array(start + minutes * 60_000_000, pa.int64()).cast(INSTANT)
        return pa.table(
            {
                "day": pa.repeat(pa.scalar(day.date(), pa.date32()), len(keys)),
                "pane": panes,
                "_late": pa.array(np.zeros(len(keys), np.int64)),
                "url": self._keys.take(pa.array(keys)),
                "count": pa.array(counts.astype(np.int64)),
                "sum_bytes": pa.array(counts.astype(np.int64) * 4_321).cast(pa.decimal128(38, 0)),
            }
        )


def last_day(days: int) -> date:
    return (FIRST + timedelta(days=days - 1)).date()
