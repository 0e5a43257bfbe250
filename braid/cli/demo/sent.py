"""What the demo checks its numbers with: the record that its generator keeps of all that it sent."""

from collections.abc import Iterable
from typing import Any

from braid.errors import CheckFailed
from braid.examples.stage.checks import TruthCheck, equal
from braid.produce.truth import WATERMARK_US

VIEW = "page_traffic"
PageDays = dict[tuple[str, str], tuple[int, int | None]]


def page_days(truths: Iterable[dict[str, Any]]) -> PageDays:
    """The same, as the generator's own records say."""
    found: PageDays = {}
    for row in (row for truth in truths for row in truth[VIEW]):
        hits, size = found.get((row["day"], row["url"]), (0, None))
        sizes = [each for each in (size, row["bytes"]) if each is not None]
        found[row["day"], row["url"]] = hits + row["hits"], sum(sizes) if sizes else None
    return found


def pages_check(name: str, found: PageDays, expected: PageDays) -> TruthCheck:
    equal = sum(found.get(key) == numbers for key, numbers in expected.items())
    return TruthCheck(
        name,
        found == expected,
        f"{equal:,} of {len(found):,} page-days equal",
        f"{len(expected):,} page-days",
    )


def lateness_checks(found: dict[str, Any], sent: dict[str, Any]) -> list[TruthCheck]:
    """The report's curve and what it says of a watermark, beside the generator's own record."""
    curve = found["completeness"]["all"]
    points = {
        str(point["after_seconds"]): round(point["share"] * curve["events"]) for point in curve["points"]
    }
    return [
        equal("events there, so many seconds after their windows", points, sent["within_seconds"]),
        equal("events that a watermark would drop", found["what_if"]["watermark"]["lost"], sent["dropped"]),
    ]


def true_arrivals(first: dict[str, Any], later: dict[str, Any]) -> dict[str, Any]:
    """What the generator's records say together: all of the second came after all of the first was there."""
    one, two = first["page_traffic_arrivals"], later["page_traffic_arrivals"]
    apart = two["first_arrival_us"] > one["last_arrival_us"]
    closed = two["last_window_end_us"] <= one["newest_event_us"] - WATERMARK_US
    if not (apart and closed):
        raise CheckFailed(
            "the late events of the demo are not later than the others: its record says nothing."
        )
    within = {
        after: one["within_seconds"][after] + two["within_seconds"][after] for after in one["within_seconds"]
    }
    return {
        "within_seconds": within,
        "dropped": one["dropped_by_a_watermark_of_10_minutes"] + two["events"],
    }
