"""Compares what the stream of a derived source has drawn with what batch draws, and says what was too late for it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from batch_layer.derived import kept, on_the_way, rows_upto, truth
from braid.define.derived.base import ID
from braid.define.derived.join import SIDES, JoinedSource
from braid.define.durations import format_duration, parse_duration
from braid.define.schema import quote
from braid.errors import BraidError
from braid.log import contents as logs
from braid.log.derived import DerivedPlaces, refuse_other_definition
from braid.log.table import INBOX_PARTITION, Log
from braid.runtime.settings import Settings
from braid.tables.delta_log import newest_version

WATERMARKS = ("0 seconds", "1 minute", "5 minutes", "10 minutes", "30 minutes", "1 hour", "6 hours", "1 day")


@dataclass(frozen=True)
class TooLate:
    """Events that the stream missed because one side of the pair came too late, and by how many seconds at most."""

    side: str
    source: str
    events: int
    seconds: float


@dataclass(frozen=True)
class WatermarkLoss:
    """How many events a stream that waits so long would have missed."""

    lateness: str
    events: int


@dataclass(frozen=True)
class DerivedReport:
    """The events that there are, up to the commits of the inputs' logs that were read, by who has drawn them.

    `waiting` are on their way to ingest, `missing` nobody has drawn yet, `extra` are in the log and should not be.
    `unexplained` are those that the stream did not draw although neither side was late, as far as epochs tell.
    """

    source: str
    lateness: str
    read: dict[str, int]
    events: int
    streamed: int
    corrected: int
    waiting: int
    missing: int
    extra: int
    late: tuple[TooLate, ...]
    unexplained: int
    curve: tuple[WatermarkLoss, ...]

    @property
    def holds(self) -> bool:
        return self.extra == 0

    def as_dict(self) -> dict[str, Any]:
        return {"holds": self.holds} | asdict(self)


def compare(spark: SparkSession, join: JoinedSource, settings: Settings) -> DerivedReport:
    """At the commits that the stream has read: all that it has drawn of them is in the log or on its way."""
    log = Log(join, settings)
    derivation = DerivedPlaces(log).derivation()
    if derivation is None or not logs.exists(spark, log):
        raise BraidError(f"source {join.name!r} has drawn nothing yet: run `braid ingest {join.name}`.")
    refuse_other_definition(join, derivation)
    with kept(on_the_way(spark, log)) as waiting:
        there = logs.read(spark, log).groupBy(ID).agg(F.max("_partition").alias("_by"))
        with kept(there) as held:
            pairs = _with_lateness(spark, join, settings, derivation.versions)
            found = pairs.join(held, on=ID, how="left").join(
                waiting.withColumn("_waits", F.lit(True)), on=ID, how="left"
            )
            row = found.agg(*_counts(join)).first()
            assert row is not None
            newest = {source.name: newest_version(Log(source, settings).table) or 0 for source in join.inputs}
            # The stream goes on meanwhile: what it has drawn since is no more than the newest commits allow.
            extra = held.join(truth(spark, join, settings, newest), on=ID, how="left_anti").count()
    late = tuple(
        TooLate(which, source.name, row[f"{which}_late"], row[f"{which}_seconds"] or 0.0)
        for which, source in zip(SIDES, join.inputs, strict=True)
    )
    return DerivedReport(
        source=join.name, lateness=format_duration(join.patience), read=dict(derivation.versions),
        events=row["events"], streamed=row["streamed"], corrected=row["corrected"], waiting=row["waiting"],
        missing=row["missing"], extra=extra, late=late, unexplained=row["unexplained"],
        curve=tuple(WatermarkLoss(text, row[f"curve_{n}"]) for n, text in enumerate(WATERMARKS)),
    )  # fmt: skip


def _with_lateness(
    spark: SparkSession, join: JoinedSource, settings: Settings, versions: Mapping[str, int]
) -> DataFrame:
    """The pairs with how late each side was: how far its time was behind what both logs had shown in earlier epochs.

    The stream's own watermark is the same, batch by batch; which rows it read together is in no log.
    """
    pairs, seen = truth(spark, join, settings, versions), _seen(spark, join, settings, versions)
    for which in SIDES:
        known = F.broadcast(seen).withColumnsRenamed({"_epoch": f"_{which}_epoch", "_seen": f"_{which}_seen"})
        late = (F.col(f"_{which}_seen") - F.unix_micros(f"_{which}_time")) / 1_000_000
        pairs = pairs.join(known, on=f"_{which}_epoch", how="left").withColumn(f"_{which}_late", late)
    return pairs


def _seen(
    spark: SparkSession, join: JoinedSource, settings: Settings, versions: Mapping[str, int]
) -> DataFrame:
    """Epoch -> the newest time that both logs had shown before it, in microseconds: the older one of the two."""
    shown = []
    for which, source in zip(SIDES, join.inputs, strict=True):
        newest = F.unix_micros(F.max(F.col(quote(source.event_time)))).alias(which)
        shown.append(rows_upto(spark, source, settings, versions).groupBy("_epoch").agg(newest))
    before = Window.orderBy("_epoch").rowsBetween(Window.unboundedPreceding, -1)
    both = shown[0].join(shown[1], on="_epoch", how="full")
    left, right = (F.max(which).over(before) for which in SIDES)
    # Where one log had nothing yet there is no watermark, and nothing is late.
    seen = F.when(left.isNotNull() & right.isNotNull(), F.least(left, right))
    return both.select("_epoch", seen.alias("_seen"))


def _counts(join: JoinedSource) -> list[Column]:
    streamed = F.coalesce(F.col("_by") != INBOX_PARTITION, F.lit(False))
    corrected = F.coalesce(F.col("_by") == INBOX_PARTITION, F.lit(False))
    waiting = F.col("_by").isNull() & F.col("_waits").isNotNull()
    missing = F.col("_by").isNull() & F.col("_waits").isNull()
    not_drawn = corrected | missing
    patience = F.lit(join.patience / timedelta(seconds=1))
    # An event at the watermark itself is too late for Spark. Where there was none yet, its lateness is null.
    left, right = F.col("_left_late"), F.col("_right_late")
    most_late = F.greatest(left, right)
    is_late = F.coalesce(most_late >= patience, F.lit(False))
    late = {"left": is_late & left.eqNullSafe(most_late), "right": is_late & ~left.eqNullSafe(most_late)}
    counted = {
        "events": F.lit(True), "streamed": streamed, "corrected": corrected, "waiting": waiting, "missing": missing,
        "unexplained": not_drawn & ~late["left"] & ~late["right"],
        **{f"{which}_late": not_drawn & late[which] for which in SIDES},
        **{
            f"curve_{n}": F.coalesce(most_late >= F.lit(parse_duration(text) / timedelta(seconds=1)), F.lit(False))
            for n, text in enumerate(WATERMARKS)
        },
    }  # fmt: skip
    most = [
        F.max(F.when(not_drawn & late[which], F.col(f"_{which}_late")))
        .cast("double")
        .alias(f"{which}_seconds")
        for which in SIDES
    ]
    return [F.count_if(condition).alias(name) for name, condition in counted.items()] + most
