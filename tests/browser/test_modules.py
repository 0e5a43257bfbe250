"""The page's pure functions, asked in the browser that runs them."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page

HOUR = 3_600_000
Ask = Callable[..., Any]


@pytest.fixture
def ask(opened: Callable[..., Page]) -> Ask:
    """Calls a function of a module with these values."""
    page = opened()
    call = "([module, name, values]) => import(`/assets/${module}.js`).then((its) => its[name](...values))"
    return lambda module, name, *values: page.evaluate(call, [module, name, values])


def test_a_share_is_all_or_nothing_only_when_it_is(ask: Ask) -> None:
    shares = [0, 0.000001, 0.0042, 0.5, 0.9987, 0.999999, 1]
    assert [ask("format", "percent", share) for share in shares] == [
        "0 %", "< 0.01 %", "0.42 %", "50.0 %", "99.87 %", "> 99.99 %", "100 %",
    ]  # fmt: skip


def test_numbers_are_exact_in_what_they_show(ask: Ask) -> None:
    values = [1234567, 0.125, "12.50", "NaN", None]
    assert [ask("format", "number", value) for value in values] == ["1,234,567", "0.13", "12.5", "NaN", "–"]


def test_a_grain_is_made_of_panes_and_gives_bars_that_can_be_told_apart(ask: Ask) -> None:
    minutes = {0.25: 60, 1: 60, 6: 180, 24: 900, 168: 7200}
    assert {hours: ask("choice", "grainFor", hours * 3600, 60) for hours in minutes} == minutes
    for hours, pane in ((24, 960), (24, 45), (2160, 86_400), (40_000, 86_400), (1, 3600)):
        grain = ask("choice", "grainFor", hours * 3600, pane)
        assert grain % pane == 0
        assert not (86_400 % grain and grain % 86_400)
        assert 20 <= hours * 3600 / grain <= 120 or grain == pane


def test_a_night_without_two_o_clock_has_no_tick_there(ask: Ask) -> None:
    midnight = 1710046800000  # 2024-03-10 00:00 in New York, where the clock goes from 2 to 3
    ticks = ask("clock", "ticks", midnight, midnight + 5 * HOUR, "America/New_York", 8)
    assert [tick["label"].partition("<")[0] for tick in ticks] == [
        "00:00",
        "01:00",
        "03:00",
        "04:00",
        "05:00",
        "06:00",
    ]
    assert [(tick["at"] - midnight) / HOUR for tick in ticks] == [0, 1, 2, 3, 4, 5]


def test_an_address_says_what_is_chosen_and_nothing_else(ask: Ask) -> None:
    choice = ask("choice", "readChoice", "?view=hits&where=host=a%26b&where=n+is+null&token=secret&range=1h")
    assert choice["where"] == ["host=a&b", "n is null"]
    assert ask("choice", "readChoice", ask("choice", "writeChoice", choice)) == choice
    assert "secret" not in ask("choice", "writeChoice", choice)


def test_sessions_of_a_quantile_are_not_added_up(ask: Ask) -> None:
    view = {"window": {"kind": "session"}, "timezone": "UTC"}
    bounds = {"window_start": "2024-03-10T00:00:10Z", "window_end": "2024-03-10T00:30:00Z"}
    rows = [
        bounds | {"n": n, "_events": 2, "_in_tail": 1, "_status": status}
        for n, status in ((3, "final"), (4, "provisional"))
    ]
    period = {"grain": 60}
    (joined,) = ask("windows", "windowsOf", view, {"name": "n", "kind": "sum_"}, rows, period)
    assert (joined["value"], joined["events"], joined["inTail"], joined["status"]) == (7, 4, 2, "provisional")
    apart = ask("windows", "windowsOf", view, {"name": "n", "kind": "quantile"}, rows, period)
    assert [window["value"] for window in apart] == [3, 4]
