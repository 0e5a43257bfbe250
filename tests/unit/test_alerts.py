"""An alert fires once per key and window, ends, is corrected when its numbers are, and reaches its receivers."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from braid import Alert, all_time, message, session, tumbling, webhook
from braid.define.windows import Window
from braid.deploy.store import changing
from braid.deploy.versions import promoted, replayed
from braid.errors import DefinitionError
from braid.runtime.settings import Settings
from serving_layer.alerts import journal
from serving_layer.alerts.alarm import Alarm, AlertSink
from serving_layer.alerts.journal import newest_of_each, read_journal
from serving_layer.alerts.send import Sending, for_alertmanager
from tests.hook import Hook, a_hook
from tests.serving import MIDNIGHT, MINUTE, Event, Tables, view_of
from tests.sinks import Feeding, Listening

VIEW = view_of(tumbling("1 minute"), lateness="1 minute")
BUSY = Alert(name="busy", view=VIEW, when="hits >= 3")


@pytest.fixture
def settings(home: Path) -> Settings:
    return Settings(home=str(home))


def events(minute: int, count: int, epoch: int, host: str | None = "a", late: int = 0) -> list[Event]:
    return [Event(MIDNIGHT + minute * MINUTE, host, 1, MIDNIGHT + epoch * MINUTE, late) for _ in range(count)]


def begun(settings: Settings, window: Window | None = None) -> Tables:
    tables = Tables(settings, VIEW if window is None else replace(VIEW, window=window))
    tables.deploy()
    tables.append(events(0, 1, 0))
    return tables


def said(settings: Settings, alert: Alert = BUSY) -> list[tuple[Any, ...]]:
    return [
        (
            entry["change"],
            entry["reason"],
            entry["keys"]["host"],
            (entry["window_start"] - MIDNIGHT) // MINUTE,
        )
        for entry in read_journal(settings, alert.name)
    ]


def test_a_window_that_becomes_final_fires_once_and_is_over_when_the_next_does_not(
    settings: Settings,
) -> None:
    tables = begun(settings)
    listening = Listening(settings, BUSY)
    tables.append(events(1, 5, 1))
    listening.hear()
    assert said(settings) == []
    tables.append(events(3, 1, 2))
    listening.hear()
    assert said(settings) == [("fired", "", "a", 1)]
    tables.append(events(3, 1, 3))
    listening.hear()
    tables.append(events(5, 1, 4))
    listening.hear()
    assert said(settings) == [("fired", "", "a", 1), ("resolved", "over", "a", 1)]
    entry = read_journal(settings, "busy")[0]
    assert entry["numbers"] == {"hits": 5, "total": 5, "most": 1}
    assert (entry["version"], entry["status"], entry["quiet"]) == (1, "final", False)
    assert {"epoch", "complete", "tail_version", "base_version", "final_until"} <= entry.keys()


def test_after_a_kill_nothing_is_said_twice(settings: Settings) -> None:
    tables = begun(settings)
    Listening(settings, BUSY)
    tables.append(events(1, 5, 1))
    tables.append(events(3, 4, 2))
    Listening(settings, BUSY)
    assert said(settings) == [("fired", "", "a", 1)]
    tables.append(events(9, 1, 3))
    Listening(settings, BUSY)
    Listening(settings, BUSY)
    heard = said(settings)
    assert sorted(heard[1:]) == [
        ("fired", "", "a", 3),
        ("resolved", "over", "a", 1),
        ("resolved", "over", "a", 3),
    ]


def test_late_events_that_undo_an_alert_are_a_correction_and_so_are_those_that_make_one(
    settings: Settings,
) -> None:
    few = Alert(name="busy", view=VIEW, when="total < 4 and hits > 0")
    tables = begun(settings)
    tables.append(events(1, 5, 1) + events(2, 2, 1))
    listening = Listening(settings, few)
    tables.append(events(6, 9, 2))
    listening.hear()
    assert [each[:1] + each[2:] for each in said(settings) if each[0] == "fired"] == [
        ("fired", "a", 0),
        ("fired", "a", 2),
    ]
    tables.append(events(2, 5, 3, late=1))
    listening.hear()
    assert said(settings)[-1] == ("corrected", "fired too early", "a", 2)
    tables.append([replace(events(1, 1, 4, late=1)[0], n=-9)])
    listening.hear()
    assert said(settings)[-2:] == [("corrected", "missed", "a", 1), ("resolved", "over", "a", 1)]
    now = {
        (entry["window_start"] - MIDNIGHT) // MINUTE: entry
        for entry in newest_of_each(read_journal(settings))
    }
    assert (now[2]["state"], now[2]["corrected"]) == ("withdrawn", True)
    assert (now[1]["state"], now[1]["corrected"]) == ("resolved", True)


def test_a_restatement_that_changes_a_verdict_is_a_correction_too(settings: Settings) -> None:
    tables = begun(settings)
    listening = Listening(settings, BUSY)
    tables.append(events(1, 5, 1))
    tables.append(events(5, 1, 2))
    listening.hear()
    assert ("fired", "", "a", 1) in said(settings)
    # The batch layer found that three of them were no events at all.
    tables.events = [event for event in tables.events if event.time != MIDNIGHT + MINUTE] + events(1, 2, 1)
    tables.publish(tables.events[0].day, MIDNIGHT + 2 * MINUTE)
    listening.hear()
    assert said(settings)[-1] == ("corrected", "fired too early", "a", 1)


def test_for_three_windows_takes_three_in_a_row(settings: Settings) -> None:
    three = replace(BUSY, for_="3 windows")
    tables = begun(settings)
    listening = Listening(settings, three)
    for minute in (1, 2, 4, 5, 6, 7):
        tables.append(events(minute, 3, minute))
        listening.hear()
    tables.append(events(20, 1, 8))
    listening.hear()
    assert [each[3] for each in said(settings) if each[0] == "fired"] == [6, 7]
    tables.append(events(3, 3, 9, late=1))
    listening.hear()
    assert [each[3] for each in said(settings) if each[1] == "missed"] == [3, 4, 5]


def test_on_updates_does_not_wait_for_the_end_and_is_resolved_when_it_is_not_true_any_more(
    settings: Settings,
) -> None:
    quick = Alert(name="busy", view=VIEW, when="hits >= 3 and total > 0", on="updates")
    tables = begun(settings)
    listening = Listening(settings, quick)
    tables.append(events(1, 3, 1))
    listening.hear()
    assert said(settings) == [("fired", "", "a", 1)]
    tables.append(events(1, 1, 1))
    listening.hear()
    assert len(said(settings)) == 1
    tables.append([replace(events(1, 1, 1)[0], n=-99)])
    listening.hear()
    assert said(settings)[-1] == ("resolved", "no longer true", "a", 1)


def test_a_replay_of_the_same_events_says_the_same_and_nothing_new(settings: Settings) -> None:
    now = datetime(2024, 1, 1, tzinfo=UTC)
    tables = begun(settings)
    listening = Listening(settings, BUSY)
    for minute in (1, 2, 5, 9, 12):
        tables.append(events(minute, minute % 5, minute) + events(minute, 4, minute, host=None))
        listening.hear()
    before = said(settings)
    assert len(before) > 5
    second = Tables(settings, replace(VIEW, where="n > -100"), number=2)
    second.deploy()
    second.append(tables.events)
    with changing(settings, "hits") as draft:
        draft.value = promoted(replayed(draft.value, 2, now), 2, now)
    listening.hear()
    assert said(settings) == before
    # And judged from nothing, as if there had been no stream at all.
    fresh = replace(BUSY, name="again")
    Listening(settings, fresh)
    spots = {each[2:] for each in before if each[0] in ("fired", "corrected")}
    assert {each[2:] for each in said(settings, fresh) if each[0] == "fired"} == spots


def test_what_was_there_before_the_alert_is_kept_and_not_sent(settings: Settings) -> None:
    tables = begun(settings)
    tables.append(events(1, 5, 1))
    tables.append(events(9, 5, 2))
    listening = Listening(settings, BUSY)
    assert {entry["quiet"] for entry in read_journal(settings, "busy")} == {True}
    tables.append(events(19, 5, 3))
    listening.hear()
    assert not read_journal(settings, "busy")[-1]["quiet"]


@pytest.fixture
def hook() -> Iterator[type[Hook]]:
    with a_hook() as kind:
        yield kind


def test_receivers_get_every_word_in_order_and_one_that_is_away_loses_nothing(
    settings: Settings, hook: type[Hook]
) -> None:
    alert = replace(BUSY, send=(webhook("ops"), webhook("manager", format="alertmanager"), message("chat")))
    senders = [Sending(alert, receiver, settings) for receiver in alert.send]
    tables = begun(settings)
    assert all(sender.turn() for sender in senders)
    listening = Listening(settings, alert)
    tables.append(events(1, 5, 1))
    tables.append(events(3, 1, 2))
    listening.hear()
    hook.is_broken = True
    assert not any(sender.turn() for sender in senders)
    assert "answered 500" in (senders[0].status().error or "")
    tables.append(events(9, 1, 3))
    listening.hear()
    hook.is_broken = False
    # Another life: nothing is remembered but what is written down.
    senders = [Sending(alert, receiver, settings) for receiver in alert.send]
    assert all(sender.turn() for sender in senders)
    assert all(sender.turn() for sender in senders)
    by_path: dict[str, list[Any]] = {}
    for path, body in hook.got:
        by_path.setdefault(path.split("/")[1], []).append(body)
    ops = by_path["ops"]
    assert [each["change"] for each in ops] == ["fired", "resolved"]
    assert len({each["id"] for each in ops}) == 1
    assert len({each["event"] for each in ops}) == 2
    assert [("endsAt" in each[0], each[0]["labels"]["key_host"]) for each in by_path["manager"]] == [
        (False, "a"), (True, "a")
    ]  # fmt: skip
    assert len(by_path["chat"]) == 2
    assert {
        entry["labels"]["alertname"] for entry in map(for_alertmanager, read_journal(settings, "busy"))
    } == {"busy"}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"when": "errors > 1"}, "there is no column 'errors'"),
        ({"when": ""}, "write an SQL expression"),
        ({"on": "always"}, "on 'always' is not known"),
        ({"severity": "bad"}, "severity 'bad' is not known"),
        ({"for_": "3 minutes"}, "write how many windows"),
        ({"for_": "2 windows", "view": view_of(session(gap="1 minute"))}, "do not follow each other"),
        ({"view": view_of(all_time())}, "never final"),
        ({"view": "hits"}, "give it the View itself"),
        ({"send": "ops"}, "write a tuple of webhook"),
        ({"name": "Busy!"}, "cannot be the name of a alert"),
    ],
)
def test_what_cannot_work_is_refused_when_it_is_defined(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        replace(BUSY, **wrong)


def test_a_receiver_has_a_name_and_no_address() -> None:
    with pytest.raises(DefinitionError, match="give it a name"):
        webhook("https://127.0.0.1/secret")


def test_a_condition_that_is_no_sql_is_said(settings: Settings) -> None:
    begun(settings)
    alert = replace(BUSY, when="hits >")
    feeding = Feeding(settings, AlertSink(alert), Alarm(alert, settings))
    assert not feeding.delivering.turn()
    tables = Tables(settings, VIEW)
    tables.append(events(1, 5, 1))
    assert (
        "alert 'busy': when is 'hits >'" in (feeding.delivering.status().error or "")
        or feeding.look() is None
    )


def test_an_unknown_receiver_is_said(settings: Settings) -> None:
    alert = replace(BUSY, send=(webhook("nowhere"),))
    sender = Sending(alert, alert.send[0], settings)
    sender.turn()
    tables = begun(settings)
    listening = Listening(settings, alert)
    tables.append(events(1, 5, 1))
    tables.append(events(9, 5, 2))
    listening.hear()
    assert not sender.turn()
    assert "there is no url 'nowhere': set BRAID_URL_NOWHERE" in (sender.status().error or "")


def test_a_journal_that_is_put_together_says_the_same(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "COMPACT_EVERY", 3)
    tables = begun(settings)
    listening = Listening(settings, BUSY)
    for minute in range(1, 12):
        tables.append(events(minute, 3, minute))
        listening.hear()
    heard = said(settings)
    assert [each[3] for each in heard if each[0] == "fired"] == list(range(1, 10))
    assert len(DeltaTable(journal.place(settings)).file_uris()) < 5
    Listening(settings, BUSY)
    assert said(settings) == heard
