"""What tests of accuracy share: views with every kind of number, and a report as it could have been made."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

from braid import Source, View, approx_distinct, count, mean, quantile, session, sum_, tumbling
from serving_layer.accuracy.lateness.curves import (
    AFTER,
    Completeness,
    Curve,
    CurvePoint,
    Lateness,
    LatenessBar,
    Losses,
    WhatIf,
)
from serving_layer.accuracy.report.values import (
    BEYOND,
    UNEXPLAINED,
    Cause,
    Comparison,
    DayErrors,
    Errors,
    LogCounts,
    Report,
)

requests = Source(
    name="requests", kafka_topic="requests",
    schema="id string, time timestamp, host string, url string, bytes bigint, seconds double",
    event_time="time", event_id="id",
)  # fmt: skip
traffic = View(
    name="traffic", source=requests, keys=("url",), window=tumbling("1 hour"), mode="kappa",
    measures={
        "hits": count(), "bytes": sum_("bytes"), "hosts": approx_distinct("host"), "p90": quantile("bytes", 0.9),
        "seconds": mean("seconds"),
    },
)  # fmt: skip
visits = View(
    name="visits", source=requests, keys=("host",), window=session(gap="30 minutes"), where="bytes > 0", mode="kappa",
    measures={"requests": count(), "p50": quantile("bytes", 0.5)},
)  # fmt: skip

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAYS = [date(2026, 2, 27), date(2026, 2, 28)]


def comparison(side: str = "served", wrong: int = 0, cause: str = BEYOND, **changes: Any) -> Comparison:
    days = tuple(
        DayErrors(day, NOON, 100, 100 - wrong * (day == DAYS[0]), {"events": 0.02 * bool(wrong), "hits": 0.0})
        for day in DAYS
    )
    made: dict[str, Any] = {
        "side": side, "groups": 200, "equal": 200 - wrong, "different": wrong, "missing": 0, "extra": 0,
        "events": 10_000, "lost": 0, "twice": wrong, "days": days,
        "numbers": (Errors("events", "exact", 200, 200 - wrong, wrong, 0, 0, 1.0 * wrong, 0.0, 0.02, 0.0, 0.0),),
        "causes": (Cause(cause, wrong, wrong),) if wrong else (),
        "unexplained": wrong if cause == UNEXPLAINED else 0,
    }  # fmt: skip
    return Comparison(**made | changes)


def curve(name: str, *shares: float) -> Curve:
    return Curve(
        name,
        5_000,
        tuple(CurvePoint(after, share, share**2) for after, share in zip(AFTER, shares, strict=True)),
    )


def made(*comparisons: Comparison, **changes: Any) -> Report:
    shares = (0.6, 0.9, 0.998, 0.999, 0.9995, 1.0, 1.0)
    days = tuple(curve(str(day), *shares) for day in DAYS)
    bars = (LatenessBar(0, 10, 9), LatenessBar(None, 1, 2))
    lost = Losses("classic Lambda", "two clocks", 10_000, 130, 2, 200, 12, 0.5)
    parts: dict[str, Any] = {
        "view": "page_traffic", "version": 3, "at": NOON + timedelta(hours=1), "cut": NOON,
        "comparisons": comparisons or (comparison(),),
        "completeness": Completeness("arrival", curve("all", *shares), days, (curve("/<index>", *shares),)),
        "lateness": Lateness(0.4, 3.0, 720.0, 90_000.0, 0.0, 700.0, 90_000.0, 31, bars),
        "what_if": WhatIf(lost, replace(lost, name="a watermark of 10 minutes"), "A watermark of 12 minutes would do."),
        "braid": Losses("Braid", "one cut", 10_000, 0, 0, 200, 0, 0.0),
        "log": LogCounts(10_000, 300, {"unparsable": 300}, 500, 0),
    }  # fmt: skip
    return Report(**parts | changes)
