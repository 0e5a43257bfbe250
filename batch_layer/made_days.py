"""Days of a view between their recompute and their publish: states that are kept, and all that is known of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime

import pyarrow as pa
from pyspark.sql import DataFrame

from batch_layer.days import Accuracy, DayRecord, Gate, Publish
from batch_layer.gates.profile import OutputProfile, no_states
from batch_layer.tasks import DayResult, ViewDays


@dataclass(frozen=True)
class Done:
    """What became of a day, and what there is to record of it."""

    result: DayResult
    record: DayRecord | None


@dataclass(frozen=True)
class MadeDays:
    """Days of a view that are computed and not published yet."""

    days: ViewDays
    states: DataFrame | pa.Table
    events: Mapping[date, int]
    copies: Mapping[date, int]
    profiles: Mapping[date, OutputProfile]
    accuracy: Mapping[date, Accuracy]
    lookups: Mapping[str, str]

    def profile(self, day: date) -> OutputProfile:
        return self.profiles.get(day) or no_states(self.days.view)

    def done(self, day: date, through: datetime, gate: Gate, at: datetime) -> Done:
        """A day whose publish left it with a cut: with another one, if somebody else was later."""
        name = self.days.view.name
        if through != self.days.cuts[day]:
            why = "another run has published a later cut"
            return Done(DayResult(name, day, "up to date", through, why), None)
        rows, events = self.profile(day).rows, self.events.get(day, 0)
        result = DayResult(name, day, "published", through, "", events, rows, self.copies[day])
        return Done(result, DayRecord(day, self.publish(day, at), gate))

    def publish(self, day: date, at: datetime) -> Publish:
        profile = self.profile(day)
        return Publish(
            self.days.cuts[day], at, self.events.get(day, 0), profile.rows, self.copies[day], profile.totals,
            self.accuracy.get(day), self.lookups,
        )  # fmt: skip
