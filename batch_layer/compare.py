"""What is served of published days against the truth at the same cuts: the proof of a publish."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from pyspark.sql import SparkSession

from batch_layer.plan import ALL, Days, plan
from batch_layer.tasks import view_days
from braid.define.view import View
from braid.parity import Parity, with_truth
from braid.runtime.settings import Settings


def compare(
    spark: SparkSession,
    settings: Settings,
    views: Sequence[View],
    days: Days = ALL,
    cut: datetime | None = None,
) -> list[Parity]:
    """For each view, whether what is served of its published days is what the log gives, of each up to its cut."""
    found = []
    for source in plan(settings, views, days, cut):
        published = {(day.view, day.day): day.through for day in source.days if day.through is not None}
        for of_view in view_days(settings, [day for day in source.days if (day.view, day.day) in published]):
            covered = {day: published[of_view.view.name, day] for day in of_view.cuts}
            for part in replace(of_view, cuts=covered).by_lookups():
                found.append(with_truth(spark, settings, part.version, part.latest, part.cuts))
    return found
