"""Days of a view between their recompute and their publish: states that are kept, and all that is known of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime

from pyspark.sql import DataFrame

from batch_layer.days import Accuracy, Publish
from batch_layer.gates.profile import OutputProfile, no_states
from batch_layer.tasks import DayResult, ViewDays


@dataclass(frozen=True)
class MadeDays:
    """Days of a view that are computed and not published yet."""

    days: ViewDays
    states: DataFrame
    events: Mapping[date, int]
    copies: Mapping[date, int]
    profiles: Mapping[date, OutputProfile]
    accuracy: Mapping[date, Accuracy]
    lookups: Mapping[str, str]

    def profile(self, day: date) -> OutputProfile:
        return self.profiles.get(day) or no_states(self.days.view)

    def result(self, day: date, through: datetime) -> DayResult:
        name = self.days.view.name
        if through != self.days.cuts[day]:
            return DayResult(name, day, "up to date", through, "another run has published a later cut")
        rows = self.profile(day).rows
        return DayResult(name, day, "published", through, "", self.events.get(day, 0), rows, self.copies[day])

    def publish(self, day: date, at: datetime) -> Publish:
        profile = self.profile(day)
        return Publish(
            self.days.cuts[day], at, self.events.get(day, 0), profile.rows, self.copies[day], profile.totals,
            self.accuracy.get(day), self.lookups,
        )  # fmt: skip
