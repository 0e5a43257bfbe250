"""Keeps a tail short: closed epochs become one file each, covered rows go, and a cut moves rows into the base.

Only the stream folds, and commits what it folded between its micro-batches, under their lock: two writers of one tail
would conflict. What is folded is closed, so that it is made ready beside the micro-batches, without the lock.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from typing import Any

from pyspark.sql import functions as F

from braid import cut as rules
from braid.merge.spark import base_states, beyond
from braid.runtime.logging import Logger
from braid.states.spark import merge
from braid.states.spark_calendar import timestamp
from braid.tables.commits import BaseCommit, TailCommit, described
from braid.tables.conditional import Seen, again_while_overtaken, commit
from braid.tables.delta_log import Transaction, epoch_of_path, epoch_of_value, newest_version, transactions
from braid.tables.delta_rs import table_id
from braid.tables.spark_tables import pinned, throughs
from braid.tables.view_tables import LATE, base_columns, tail_columns
from braid.writing import may_speak
from speed_layer.stream.tail import TailWriter
from speed_layer.stream.totals import NOTHING, Totals, totals, totals_by_day, unchanged

logger = Logger("stream")

# A fold stalls the stream: few epochs, often.
MOST_EPOCHS = 5
# No version of a base: it is looked at anew.
UNKNOWN = -1


@dataclass
class Folding:
    """What the tail and the base look like, as far as folding is concerned."""

    writer: TailWriter
    files: Counter[datetime] = field(default_factory=Counter)
    # Epochs that one batch or one fold wrote: they have one row per pane and keys.
    whole: set[datetime] = field(default_factory=set)
    tail_version: int = -1
    base_version: int = UNKNOWN
    base_through: datetime | None = None
    # What that version of the base covers, and up to which epoch the tail was rid of it.
    covers: datetime | None = None
    collected: datetime | None = None

    def begin(self) -> None:
        """Looks the tables up, once per start of the query; from then on their commits tell what changed."""
        spark, tables = self.writer.spark, self.writer.tables
        self.tail_version = newest_version(tables.tail) or 0
        paths = pinned(spark, tables.tail, self.tail_version).inputFiles() if self.tail_version else []
        self.files = Counter(epoch_of_path(path) for path in paths)
        self.base_version = self.writer.last.collected if self.writer.last else UNKNOWN
        has_days = bool(newest_version(tables.base))
        newest = next(described(tables.base, BaseCommit.from_json), None) if has_days else None
        self.base_through = newest[1].through if newest else None

    def tend(self) -> bool:
        """One round of what is due, and whether anything was. Cheap when nothing is."""
        writer = self.writer
        with writer.lock:
            if writer.last is None or not may_speak(writer.in_doubt) or writer.last.complete is None:
                return False
            complete = writer.last.complete
            self._catch_up()
        cut, epochs = self._cut_due(complete), rules.to_fold(self.files, complete, MOST_EPOCHS)
        base_changed = newest_version(writer.tables.base) != self.base_version
        collects = rules.is_to_collect(self.files, self.covers, self.collected, complete)
        due = rules.fold_due(cut, base_changed, collects, epochs)
        if due == "advance" and cut is not None:
            self._advance(cut)
        elif due == "collect":
            self._collect(complete)
        elif due == "rewrite":
            self._rewrite(epochs, self.tail_version)
        return due is not None

    def tidy(self) -> None:
        """Rounds until nothing is due."""
        while self.tend():
            pass

    def _cut_due(self, complete: datetime) -> datetime | None:
        writer, first = self.writer, min(self.files, default=None)
        every = writer.log.settings.fold_every
        return rules.cut_due(writer.view.mode, writer.replay_cut, self.base_through, first, complete, every)

    def _catch_up(self) -> None:
        for done in self._commits_since(self.tail_version):
            self.files.subtract(epoch_of_value(values["epoch"]) for values in done.removed if values)
            added = [epoch_of_value(values["epoch"]) for values in done.added]
            merged = {
                epoch for epoch in added if self.files[epoch] <= 0 and TailCommit.from_json(done.metadata)
            }
            self.whole = self.whole - set(added) | merged
            self.files.update(added)
            self.tail_version = done.version
        self.files = +self.files
        self.whole &= self.files.keys()

    def _commits_since(self, version: int) -> Iterator[Transaction]:
        return transactions(self.writer.tables.tail, version + 1)

    def _advance(self, cut: datetime) -> None:
        """base := merge(base, tail up to the cut). Each row goes in once: its day's `through` is then the cut."""
        view, tables = self.writer.view, self.writer.tables
        with self.writer.lock:
            self._catch_up()
            tail_version = self.tail_version
        before, made, days = again_while_overtaken(
            tables.base, lambda seen: (seen.version, *self._fold_into(seen, tail_version, cut))
        )
        # What others published before this, and is not collected yet, is looked at next.
        knows_all = rules.knows_base(before, self.base_version, self.collected, self.covers)
        self.base_version = made if knows_all else UNKNOWN
        self.base_through = self.covers = self.collected = cut
        logger.info("folded into the base", view=view.name, cut=cut.isoformat(), days=days)
        self._forget(cut, tail_version, made, made if knows_all else None)

    def _fold_into(self, seen: Seen, tail_version: int, cut: datetime) -> tuple[int, int]:
        """The version of the base that this makes, and how many days it advances."""
        spark, view, tables = self.writer.spark, self.writer.view, self.writer.tables
        base = pinned(spark, tables.base, seen.version)
        # The first version only created the table: there is no day to ask for, and asking takes half a second.
        through = throughs(base) if seen.version else {}
        open_rows = beyond(pinned(spark, tables.tail, tail_version), through).where(
            F.col("epoch") <= F.lit(cut)
        )
        by_day = totals_by_day(open_rows)
        days, before = sorted(by_day), sum(by_day.values(), NOTHING)
        shared = [name for name in base_columns(view) if name != "through"]
        parts = open_rows.select(*shared)
        if seen.version:
            there = base_states(view, base).where(F.col("day").isin(days)).select(*shared)
            parts, before = there.unionByName(parts), before + totals(there)
        copied = not seen.version and self._is_whole(cut, before)
        states = parts if copied else merge(view, parts, totals=(LATE,))
        folded = (
            states.withColumn("through", F.lit(cut)).select(*base_columns(view)).repartition(F.col("day"))
        )
        with nullcontext(folded) if copied else unchanged(self._name("base"), before, folded) as checked:
            writer = checked.write.format("delta").mode("overwrite" if days else "append")
            if days:
                writer = writer.option("replaceWhere", among("day", [f"date'{day}'" for day in days]))
            return commit(spark, writer, seen, BaseCommit(cut, "stream")), len(days)

    def _is_whole(self, cut: datetime, found: "Totals") -> bool:
        """Whether what is up to a cut has one row per pane and keys already, and every event that its batch counted.

        History that was read in one batch does: it is copied. What there is any doubt about is merged and checked.
        """
        merged = {epoch for epoch in self.files if epoch <= cut} == {cut} and cut in self.whole
        return merged and found == Totals(self.writer.counts.history)

    def _forget(self, cut: datetime, tail_version: int, made: int, collected: int | None) -> None:
        """Takes whole epochs out of the tail: what is up to a cut that was just folded is covered, on every day."""
        writer = self.writer.nothing().write.format("delta").mode("overwrite").option("dataChange", "false")
        gone = [epoch for epoch in self.files if epoch <= cut]
        writer = writer.option("replaceWhere", f"epoch <= {timestamp(cut)}")
        self._say(writer, tail_version, gone, made if gone else UNKNOWN, collected)

    def _collect(self, complete: datetime) -> None:
        """Takes the rows out of the tail that the base covers: a reader has not used them since it was published."""
        spark, tables, tail_version = self.writer.spark, self.writer.tables, self.tail_version
        # Named before it is read: what is published in between is collected next time.
        self.base_version = newest_version(tables.base) or 0
        # The first version only created the table: there is nothing to ask for, and asking takes a second.
        through = throughs(pinned(spark, tables.base, self.base_version)) if self.base_version else {}
        self.covers, self.collected = (
            max(through.values(), default=None),
            rules.collectable(through, complete),
        )
        if self.collected is None:
            return
        if self.collected == self.covers:
            with self.writer.lock:
                assert self.writer.last is not None
                self.writer.last = replace(self.writer.last, collected=self.base_version)
        tail = pinned(spark, tables.tail, tail_version).where(F.col("epoch") <= F.lit(self.collected))
        rows = tail.groupBy("day", F.unix_micros("epoch").alias("micros")).count().collect()
        epochs = rules.covered_epochs(((row.day, as_utc(row.micros)) for row in rows), through)
        if epochs:
            self._rewrite(sorted(epochs), tail_version, through)

    def _rewrite(
        self, epochs: list[datetime], tail_version: int, through: dict[date, datetime] | None = None
    ) -> None:
        """One file for each of these closed epochs, without what is covered."""
        view, tables = self.writer.view, self.writer.tables
        tail = pinned(self.writer.spark, tables.tail, tail_version).where(F.col("epoch").isin(epochs))
        left = beyond(tail, through or {})
        folded = merge(view, left, by=("epoch", "day"), totals=(LATE,)).select(*tail_columns(view))
        with unchanged(self._name("tail"), totals(left), folded) as checked:
            writer = checked.repartition(F.col("epoch")).write.format("delta").mode("overwrite")
            where = among("epoch", map(timestamp, epochs))
            writer = writer.option("replaceWhere", where).option("dataChange", "false")
            self._say(writer, tail_version, epochs, self.base_version if through else UNKNOWN)
        logger.debug("folded", view=view.name, epochs=len(epochs), files=self.files.total())

    def _say(
        self,
        writer: Any,
        tail_version: int,
        epochs: Iterable[datetime],
        needs: int,
        collected: int | None = None,
    ) -> None:
        """Replaces epochs as they were in a version, and says the newest commit again; nothing while that is in doubt.

        Nothing either if a commit since then has touched one of them: what it brought would be gone. What leaves the
        tail is in the base from its version `needs` on.
        """
        with self.writer.lock:
            touched = [
                epoch_of_value(values["epoch"])
                for done in self._commits_since(tail_version)
                for values in (*done.added, *done.removed)
                if values
            ]
            if not rules.may_replace(epochs, touched):
                self.base_version = UNKNOWN
            elif (last := self.writer.settled()) is not None:
                base = table_id(self.writer.tables.base) if needs > last.needed else None
                self.writer.say(writer, last.folded(base or "", needs, collected))
            self._catch_up()

    def _name(self, table: str) -> str:
        return f"{table} of view {self.writer.view.name!r}"


def among(column: str, literals: Iterable[str]) -> str:
    return f"{column} in ({', '.join(literals)})"


def as_utc(micros: int) -> datetime:
    return datetime.fromtimestamp(micros // 1_000_000, UTC).replace(microsecond=micros % 1_000_000)
