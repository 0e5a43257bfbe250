"""Laws of alerts: told step by step, what fires is what fires when all numbers are looked at at once."""

from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from braid import Source, View, count, tumbling
from serving_layer.alerts.judge import (
    MISSED,
    OVER,
    Spot,
    Standing,
    after,
    before,
    fires_at,
    over,
    stands,
    touched_by,
    verdict,
)
from tests.serving import MIDNIGHT, SOURCE

MINUTE = timedelta(minutes=1)
MINUTES = 10
VIEW = View(
    name="hits", source=SOURCE, keys=("host",), window=tumbling("1 minute"), measures={"hits": count()}
)
SPOTS = st.tuples(st.sampled_from(["a", "b"]), st.integers(0, MINUTES - 1))


def spot_of(named: tuple[str, int]) -> Spot:
    return Spot(named[0], MIDNIGHT + named[1] * MINUTE)


def twin(true: set[tuple[str, int]], windows: int) -> set[tuple[str, int]]:
    """By its definition: true here, and in as many windows before as it takes."""
    return {(key, at) for key, at in true if all((key, at - back) in true for back in range(windows))}


@given(st.lists(st.sets(SPOTS), min_size=1, max_size=8), st.integers(1, 4), st.integers(0, MINUTES))
def test_what_fires_step_by_step_is_what_fires_at_once(
    steps: list[set[tuple[str, int]]], windows: int, final: int
) -> None:
    until = MIDNIGHT + final * MINUTE
    standing: dict[Spot, Standing] = {}
    held: set[tuple[str, int]] = set()
    for true in steps:
        changed, held = held ^ true, true
        now = {spot_of(each) for each in true}
        for spot in set(touched_by(map(spot_of, changed), windows, VIEW)):
            assert spot.start is not None
            was_final = spot.start + MINUTE <= until
            was_fired = spot in standing and standing[spot].fires
            event = verdict(
                spot, fires_at(spot, now.__contains__, windows, VIEW), standing.get(spot), was_final
            )
            if event is not None:
                assert event.fires != was_fired
                assert (event.change == "corrected") == was_final
                assert (event.reason == MISSED) == (was_final and event.fires)
                standing[spot] = stands(event)
        fired = {spot for spot, known in standing.items() if known.fires}
        assert fired == {spot_of(each) for each in twin(true, windows)}


@given(st.sets(SPOTS), st.integers(0, MINUTES + 3))
def test_what_is_over_is_what_fires_in_a_row_that_a_final_window_has_ended(
    fired: set[tuple[str, int]], final: int
) -> None:
    until = MIDNIGHT + final * MINUTE
    standing = {spot_of(each): Standing(True, True) for each in fired}
    ends: dict[Spot, datetime] = {spot: spot.start + MINUTE for spot in standing if spot.start}
    found = over(VIEW, standing, ends, until)
    assert {event.spot for event in found} == {
        spot_of((key, at)) for key, at in fired if end_of_row(fired, key, at) + 1 <= final
    }
    assert all(event.reason == OVER and event.fires for event in found)
    for event in found:
        standing[event.spot] = stands(event)
    assert over(VIEW, standing, ends, until) == []


def end_of_row(fired: set[tuple[str, int]], key: str, at: int) -> int:
    """The first window after this one that does not fire."""
    return at if (key, at) not in fired else end_of_row(fired, key, at + 1)


@given(
    st.sampled_from(["1 minute", "15 minutes", "1 hour", "6 hours", "1 day"]),
    st.datetimes(datetime(2023, 1, 1), datetime(2025, 1, 1)),
    st.sampled_from(["UTC", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe"]),
)
def test_windows_follow_each_other_also_when_the_clock_changes(
    every: str, moment: datetime, zone: str
) -> None:
    source = Source(name="r", kafka_topic="r", schema="time timestamp", event_time="time", timezone=zone)
    view = View(name="v", source=source, window=tumbling(every), measures={"hits": count()})
    start = before(view, moment.replace(tzinfo=MIDNIGHT.tzinfo))
    assert before(view, after(view, start)) == start
