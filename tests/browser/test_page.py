"""The dashboard in a browser: it moves by itself, tells where numbers come from, and is for everybody."""

import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import Locator, Page, expect

from braid import Alert, tumbling
from braid.runtime.settings import Settings
from serving_layer.alerts.alarm import Alarm, AlertSink
from tests.browser.conftest import CUT, HOSTILE, NOON, Site
from tests.serving import MIDNIGHT, MINUTE, Event, view_of
from tests.sinks import Feeding
from tests.waiting import until

NEW_YORK = ZoneInfo("America/New_York")
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True}
Open = Callable[..., Page]


def served(page: Page) -> Locator:
    return page.locator("#served")


def windows(page: Page) -> Locator:
    return page.locator("#series-table tbody tr")


def as_a_table(page: Page) -> Locator:
    """The chart's table, opened."""
    page.get_by_text("The chart as a table").click()
    expect(windows(page).first).to_be_visible()
    return windows(page)


def test_a_number_moves_when_events_arrive_and_the_page_is_not_loaded_again(site: Site, opened: Open) -> None:
    page = opened("/?view=hits&range=all")
    expect(served(page)).to_have_text("191")
    page.evaluate("window.marked = true")
    site.hits.append([Event(NOON + 3 * MINUTE, "a", 1, CUT + 3 * MINUTE) for _ in range(9)])
    expect(served(page)).to_have_text("200")
    site.hits.publish(MIDNIGHT.date(), CUT + 2 * MINUTE)
    expect(page.locator("#share-note")).to_have_text(re.compile("^9 events"))
    expect(served(page)).to_have_text("200")
    assert page.evaluate("window.marked") is True


def test_a_window_is_followed_from_its_row_to_its_cut(site: Site, opened: Open) -> None:
    page = opened("/?view=hits&range=custom&from=2024-03-10T00:30&to=2024-03-10T01:30")
    row = as_a_table(page).filter(has_text="00:59")
    expect(row.locator("td")).to_have_text(["5", "3", "2", "revised"])
    row.get_by_role("button").click()
    followed = page.locator("#followed")
    expect(followed.locator("h3")).to_have_text("2024-03-10 00:59 – 01:00")
    base, tail = followed.locator("li[data-side=base]"), followed.locator("li[data-side=tail]")
    expect(base).to_contain_text("3 events from the base")
    expect(tail).to_contain_text("2 events from the tail")
    through = site.hits.through[MIDNIGHT.date()].astimezone(NEW_YORK)
    expect(base.locator("time")).to_have_attribute("datetime", through.isoformat())
    expect(base.locator("time")).to_have_text(f"{through:%Y-%m-%d %H:%M}")
    expect(row).to_have_class("chosen")
    page.get_by_role("button", name="Whole range").click()
    expect(followed).to_have_count(0)


def test_a_bar_is_followed_like_a_row(opened: Open) -> None:
    page = opened("/?view=hits&range=15m")
    bars = page.locator("#series-chart .bars .point path")
    expect(bars).not_to_have_count(0)
    # The tail is drawn above the base: its last bar is the newest window.
    bars.last.click(force=True)
    expect(page.locator("#followed h3")).to_have_text("2024-03-10 12:02 – 12:03")
    expect(page.locator("#followed li[data-side=tail]")).to_contain_text("3 events from the tail")
    expect(page).to_have_url(re.compile("window=2024-03-10T16"))


def test_a_link_shows_the_same_again(opened: Open) -> None:
    page = opened("/?view=hits&range=6h&measure=most")
    expect(page.locator("#view")).to_have_value("hits")
    expect(page.locator("#measure")).to_have_value("most")
    expect(page.get_by_role("radio", name="6 h")).to_be_checked()
    page.locator("#measure").select_option("total")
    expect(page.locator("#series-title")).to_have_text("hits: total")
    again = opened(page.url.removeprefix(page.evaluate("location.origin")))
    expect(again.locator("#series-title")).to_have_text("hits: total")
    page.go_back()
    expect(page.locator("#series-title")).to_have_text("hits: most")


def test_sessions_are_counted_where_they_begin(opened: Open) -> None:
    page = opened("/?view=stays&range=all")
    expect(served(page)).to_have_text("191")
    expect(page.locator("#series-note")).to_contain_text("sessions by their start")


def test_a_key_of_the_top_10_narrows_the_chart_to_it(opened: Open) -> None:
    page = opened("/?view=hits&range=all")
    leaders = page.locator("#leaders tbody tr")
    expect(leaders).to_have_count(3)
    leaders.filter(has_text="b").get_by_role("button", name="b", exact=True).click()
    expect(served(page)).to_have_text("62")
    page.get_by_role("button", name="Remove the filter host=b").click()
    expect(served(page)).to_have_text("191")


def test_the_switch_of_the_theme_is_remembered(opened: Open) -> None:
    page = opened("/", color_scheme="light")
    background = "() => getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(background)
    page.get_by_role("button", name="Dark").click()
    assert page.evaluate(background) != light
    page.reload()
    expect(page.get_by_role("button", name="Dark")).to_have_attribute("aria-pressed", "true")
    assert page.evaluate(background) != light


def test_the_system_chooses_the_theme_until_somebody_does(opened: Open) -> None:
    lightness = "() => Number(getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0])"
    assert opened("/", color_scheme="light").evaluate(lightness) > 200
    assert opened("/", color_scheme="dark").evaluate(lightness) < 60


@pytest.mark.parametrize("view", ["hits", "stays"])
def test_nothing_is_wider_than_a_phone(opened: Open, view: str) -> None:
    page = opened(f"/?view={view}&range=all", **PHONE)
    expect(served(page)).to_have_text("191")
    expect(page.locator("#series-chart .main-svg").first).to_be_visible()
    expect(page.locator("#days tbody tr")).to_have_count(1)
    as_a_table(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_view_is_changed_by_keyboard_alone(opened: Open) -> None:
    page = opened("/?range=all")
    expect(page.locator("#series-title")).to_have_text("hits: hits")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the numbers")).to_be_focused()
    for _ in range(10):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "view":
            break
    expect(page.locator("#view")).to_be_focused()
    page.keyboard.type("stays")
    expect(page.locator("#series-title")).to_have_text("stays: hits")
    expect(page.locator("#view")).to_be_focused()


def test_a_row_keeps_the_focus_while_numbers_move(site: Site, opened: Open) -> None:
    page = opened("/?view=hits&range=all")
    button = as_a_table(page).first.get_by_role("button")
    button.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#followed")).to_be_visible()
    site.hits.append([Event(NOON + timedelta(hours=2), "a", 1, CUT + 3 * MINUTE)])
    expect(served(page)).to_have_text("192")
    expect(page.locator("tr.chosen button")).to_be_focused()


def test_a_hostile_key_is_text(opened: Open) -> None:
    page = opened("/?view=hits&range=all")
    expect(page.locator("#leaders").get_by_text(HOSTILE)).to_be_visible()
    expect(page.locator("#ledger").get_by_text(HOSTILE)).to_be_visible()
    expect(page.locator("main img")).to_have_count(0)
    page.get_by_role("button", name=HOSTILE).first.click()
    expect(served(page)).to_have_text("60")
    expect(page).to_have_title("hits · Braid")


def test_what_the_layers_know_is_on_the_page(opened: Open) -> None:
    page = opened("/?view=hits")
    expect(page.locator("#connection")).to_have_text("live")
    expect(page.locator("#days tbody tr")).to_contain_text(["stale"])
    expect(page.locator("#days tbody time")).to_have_attribute("datetime", CUT.isoformat())
    expect(page.locator("#streams tbody tr")).to_have_count(2)
    expect(page.locator("#streams .spark").first).to_be_visible()
    expect(page.locator("#ledger .verdict")).to_contain_text("it balances")
    expect(page.locator("#accuracy-chart .main-svg").first).to_be_visible()
    expect(page.locator("#completeness-chart .main-svg").first).to_be_visible()
    expect(page.get_by_role("link", name="Gates")).to_be_visible()


def test_alerts_are_listed_and_marked_in_the_chart(opened: Open, home: Path) -> None:
    settings = Settings(home=str(home))
    page = opened("/?view=hits")
    expect(page.locator("#alerts .empty")).to_contain_text("No alert has fired for hits")
    alert = Alert(name="busy", view=view_of(tumbling("1 minute")), when="hits >= 1", severity="critical")
    Feeding(settings, AlertSink(alert), Alarm(alert, settings)).turn()
    expect(page.locator("#alerts tbody")).to_contain_text("busy")
    expect(page.locator("#alerts tbody").get_by_text(f"host {HOSTILE}").first).to_be_visible()
    expect(page).to_have_title("hits · Braid")
    expect(page.locator("#series-chart .shapelayer path").first).to_be_attached()


def test_a_view_that_is_not_deployed_says_what_to_do(opened: Open) -> None:
    page = opened("/?view=page_traffic")
    expect(page.locator("#notice")).to_contain_text("braid stream page_traffic")
    expect(page.locator("#series")).to_be_hidden()


def test_a_problem_is_shown_in_its_panel_until_it_works_again(opened: Open) -> None:
    page = opened("/?view=hits&range=all", excused="Failed to load resource")
    expect(served(page)).to_have_text("191")
    problem = {
        "title": "Unavailable",
        "status": 503,
        "detail": "no answer within 10 s: ask for a `shorter` range.",
    }
    page.route("**/top?*", lambda route: route.fulfill(status=503, json=problem))
    page.get_by_role("radio", name="7 days").check(force=True)
    alert = page.locator("#leaders").get_by_role("alert")
    expect(alert).to_have_text("no answer within 10 s: ask for a shorter range.")
    expect(served(page)).to_have_text("191")
    page.unroute("**/top?*")
    expect(alert).to_be_hidden()


def test_a_lost_connection_is_said_and_taken_up_again(opened: Open) -> None:
    page = opened("/views", excused="Failed to load resource")
    page.route("**/live", lambda route: route.fulfill(status=503))
    page.goto(page.url.replace("/views", "/?view=hits&range=all"))
    expect(page.locator("#connection")).to_have_text("reconnecting")
    page.unroute("**/live")
    expect(page.locator("#connection")).to_have_text("live")


def test_a_page_that_nobody_sees_asks_nothing_and_catches_up_when_it_is_seen(
    site: Site, opened: Open
) -> None:
    page = opened("/?view=hits&range=all")
    expect(served(page)).to_have_text("191")
    hide = """(hidden) => {
        Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
    }"""
    page.evaluate(hide, True)
    expect(page.locator("#connection")).to_have_text("paused")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    site.hits.append([Event(NOON + 3 * MINUTE, "a", 1, CUT + 3 * MINUTE)])
    total = f"{site.address}/views/hits?group=&grain=1+day"
    until(lambda: page.request.get(total).json()["rows"][0]["hits"] == 192, 30)
    assert asked == []
    page.evaluate(hide, False)
    expect(served(page)).to_have_text("192")
    expect(page.locator("#connection")).to_have_text("live")


def test_charts_have_words_for_those_who_do_not_see_them(opened: Open) -> None:
    page = opened("/?view=hits&range=all")
    expect(page.locator("#series-chart")).to_have_attribute(
        "aria-label", re.compile(r"^Chart of hits in hits from 2024-03-10 00:00 .*191 events")
    )
    expect(page.locator("#spoken")).to_have_text(re.compile("^191 events served"))
