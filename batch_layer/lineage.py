"""What lineage says of a batch run: for each view a job from its source's log to its base, with days, rows and cut."""

from collections.abc import Iterator, Sequence

from batch_layer.plan import SourcePlan
from batch_layer.tasks import Asked, DayResult, view_days
from braid.lineage.datasets import base_of, log_of
from braid.lineage.events import LineageJob, Told
from braid.runtime.settings import Settings


def jobs(settings: Settings, plans: Sequence[SourcePlan], asked: Asked) -> Iterator[LineageJob]:
    """One for each view of which there is something to compute."""
    for plan in plans:
        for days in view_days(settings, [day for day in plan.days if asked.wants(day)]):
            log, base = log_of(plan.source, settings), base_of(days.version, settings)
            yield LineageJob(_name(days.view.name), "BATCH", (log,), (base,))


def told_of(results: Sequence[DayResult]) -> dict[str, Told]:
    """Job -> what is known of the days that are done."""
    views = dict.fromkeys(one.view for one in results if one.outcome != "up to date")
    return {_name(view): _told([one for one in results if one.view == view]) for view in views}


def _told(results: Sequence[DayResult]) -> Told:
    done = [one for one in results if one.outcome == "published"]
    events = sum(one.events for one in done)
    cut = {
        "cut": max(one.cut for one in results).isoformat(),
        "firstDay": min(one.day for one in results).isoformat(),
        "lastDay": max(one.day for one in results).isoformat(),
        "daysPublished": len(done),
        "daysHeld": sum(one.outcome == "held" for one in results),
    }
    return Told(events, sum(one.rows for one in done), {"braid_cut": cut})


def _name(view: str) -> str:
    return f"batch.{view}"
