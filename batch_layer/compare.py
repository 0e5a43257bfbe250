"""What is served of published days against the truth at the same cut: the proof of a publish."""

from collections.abc import Sequence
from datetime import datetime
from itertools import groupby

from pyspark.sql import SparkSession

from batch_layer.plan import ALL, Days, plan
from braid.compare import with_truth
from braid.define.view import View
from braid.deploy import store as deployment
from braid.parity import Parity
from braid.runtime.settings import Settings


def compare(
    spark: SparkSession,
    settings: Settings,
    views: Sequence[View],
    days: Days = ALL,
    cut: datetime | None = None,
) -> list[Parity]:
    """For each view and cut that its published days have, whether what is served up to it is what the log gives."""
    found = []
    for source in plan(settings, views, days, cut):
        published = [day for day in source.days if day.through is not None]
        published.sort(key=lambda day: (day.view, day.through or day.cut))
        for (name, through), group in groupby(published, key=lambda day: (day.view, day.through or day.cut)):
            active = deployment.load(settings, name).active
            assert active is not None
            found.append(with_truth(spark, settings, active, through, [day.day for day in group]))
    return found
