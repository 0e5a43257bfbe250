"""Expectations against a day's profile, as numbers with bounds: what Great Expectations is asked to judge."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from batch_layer.gates.profile import InputProfile, OutputProfile
from batch_layer.gates.values import InputDay, OutputDay
from braid.define.durations import parse_duration
from braid.define.expectations import (
    FEWEST_DAYS,
    AddsUp,
    Arrived,
    Drift,
    InputExpectation,
    KeysPresent,
    NotNegative,
    OutputExpectation,
    Quarantined,
    Volume,
)
from braid.define.source import Source
from braid.define.windows import DAY
from braid.states.calendar import pane_start

_HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class Gauge:
    """A number with the bounds that it is to lie within; without a value there is nothing to judge."""

    name: str
    value: float | None
    wanted: str
    at_least: float | None = None
    at_most: float | None = None
    shown: str | None = None
    """What people read in the place of the value."""

    @property
    def observed(self) -> float | str | None:
        return self.value if self.shown is None else self.shown


def input_gauges(day: InputDay, profile: InputProfile) -> tuple[Gauge, ...]:
    return tuple(_of_input(one, day, profile) for one in day.source.expect)


def output_gauges(day: OutputDay, profile: OutputProfile) -> tuple[Gauge, ...]:
    return tuple(_of_output(one, day, profile) for one in day.view.expect)


def _of_input(one: InputExpectation, day: InputDay, profile: InputProfile) -> Gauge:
    if isinstance(one, Volume):
        return _volume(one, day, profile.events)
    if isinstance(one, Arrived):
        return _arrived(one, day, profile.newest)
    if isinstance(one, Quarantined):
        share = _share(day.rejected, day.rejected + profile.events)
        return Gauge(one.name, share, f"at most {one.at_most:g}", at_most=one.at_most)
    share = _share(profile.satisfied[one.name], profile.events)
    return Gauge(one.name, share, f"at least {one.at_least:g}", at_least=one.at_least)


def _of_output(one: OutputExpectation, day: OutputDay, profile: OutputProfile) -> Gauge:
    if isinstance(one, NotNegative):
        return Gauge(one.name, profile.lowest, "at least 0", at_least=0)
    if isinstance(one, AddsUp):
        return Gauge(one.name, profile.events - day.events, "exactly 0", at_least=0, at_most=0)
    if isinstance(one, KeysPresent):
        share = _share(profile.with_keys, profile.events)
        return Gauge(one.name, share, f"at least {one.at_least:g}", at_least=one.at_least)
    return _drift(one, (day.published or {}).get(one.measure), profile.totals.get(one.measure))


def _volume(one: Volume, day: InputDay, events: int) -> Gauge:
    known = [count for count in day.trailing[-one.days :] if count > 0]
    within = f"between {one.at_least:g} and {one.at_most:g} times the mean of the days before"
    if len(known) < FEWEST_DAYS:
        return Gauge(one.name, None, f"{within}, once {FEWEST_DAYS} of the last {one.days} had events")
    mean = sum(known) / len(known)
    wanted = f"{within} ({mean:,.0f} events, {len(known)} days)"
    return Gauge(one.name, events / mean, wanted, one.at_least, one.at_most)


def _arrived(one: Arrived, day: InputDay, newest: datetime | None) -> Gauge:
    """Silence at the day's end; of a day without events, the whole day was silent."""
    start, end = _day_bounds(day.day, day.source)
    deadline = end - parse_duration(one.by)
    wanted = f"not before {_shown(deadline, day.source)}"
    silent = (end - (newest or start)) / _HOUR
    shown = "unknown, as there are no events" if newest is None else _shown(newest, day.source)
    return Gauge(one.name, silent, wanted, at_most=parse_duration(one.by) / _HOUR, shown=shown)


def _drift(one: Drift, before: float | None, now: float | None) -> Gauge:
    wanted = f"at most {one.at_most:g} times the published total"
    if not before:
        # What was never published, or had nothing, has not drifted: the day's first events are no error.
        return Gauge(one.name, None, wanted)
    if now is None:
        return Gauge(one.name, one.at_most + 1, wanted, at_most=one.at_most, shown="not a number")
    return Gauge(one.name, abs(now - before) / abs(before), wanted, at_most=one.at_most)


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole > 0 else None


def _day_bounds(day: date, source: Source) -> tuple[datetime, datetime]:
    """Its first instant and that of the next day; noon is on every day, and midnight is not."""
    noons = (datetime.combine(one, time(12), source.zone) for one in (day, day + DAY))
    first, second = (pane_start(noon.astimezone(UTC), DAY, source.zone) for noon in noons)
    return first, second


def _shown(moment: datetime, source: Source) -> str:
    return moment.astimezone(source.zone).isoformat(timespec="seconds")
