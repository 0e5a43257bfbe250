"""A report in one sentence: what to say when somebody asks how right the live number is."""

from serving_layer.accuracy.explain.causes import HARMLESS
from serving_layer.accuracy.report.values import Comparison, Report
from serving_layer.accuracy.report.words import percent

SOON = 10
# Less than this is not called near.
MOSTLY = 0.9


def headline(report: Report) -> str:
    """How right, how soon, and why not more."""
    found = streamed(report)
    return f"{_rightness(found)} {_soon(report)}"


def streamed(report: Report) -> Comparison:
    """What the stream alone says, where that is known: what is published was recomputed."""
    return report.comparisons[-1]


def _rightness(found: Comparison) -> str:
    days = f"{len(found.days)} day{'' if len(found.days) == 1 else 's'}"
    if found.unexplained:
        groups = f"{found.unexplained:,} group{'' if found.unexplained == 1 else 's'}"
        return f"{groups} of {days} cannot be explained by the log: look at the counterexample."
    if found.equal == found.groups:
        return f"Our live number equals a batch recompute in all {found.groups:,} groups of {days}."
    off = found.lost + found.twice
    reasons = " and ".join(cause.name for cause in found.causes if cause.name not in HARMLESS)
    return (
        f"Our live number differs from a batch recompute by {off:,} of {found.events:,} events "
        f"({percent(off / found.events if found.events else 1.0)}), and every one of them is explained: {reasons}."
    )


def _soon(report: Report) -> str:
    curve = report.completeness.all
    if not curve.events:
        return "There are no events yet to say how soon."
    there = curve.at(SOON)
    clock = " by the clock of the events themselves," if report.completeness.clock == "event time" else ""
    when = f"Ten seconds after a window's end{clock} it"
    if there == 1:
        return f"{when} is complete."
    if there < MOSTLY:
        return f"{when} has {percent(there)} of its events: the others come late."
    return f"{when} is within {percent(1 - there)}; what is missing are late events."
