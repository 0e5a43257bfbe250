"""A deployment moves from phase to phase by rules, and is changed by one at a time."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from braid import Source, View, count, quantile, sum_, tumbling
from braid.define.fingerprint import fingerprint, state_fingerprint
from braid.deploy import store
from braid.deploy.store import changing, deployments, load
from braid.deploy.versions import (
    Deployment,
    HistoryEntry,
    Phase,
    deployed,
    presented,
    promoted,
    removed,
    replayed,
    retired,
    rolled_back,
)
from braid.errors import BraidError
from braid.runtime.settings import Settings
from tests.waiting import until

NOW = datetime(2024, 3, 8, 12, tzinfo=UTC)
DAY = date(2024, 3, 1)
SCHEMA = "id string, time timestamp, url string, status int, bytes bigint"
requests = Source(name="requests", kafka_topic="requests", schema=SCHEMA, event_time="time")
first = View(name="traffic", source=requests, keys="url", measures={"hits": count()}, where="status < 400")
second = replace(first, where="status < 500")
third = replace(first, where="status < 600")

one = deployed(Deployment("traffic"), first, NOW)
replaying = deployed(one, second, NOW)
candidate = replayed(replaying, 2, NOW)
two = promoted(candidate, 2, NOW)
three = promoted(replayed(deployed(two, third, NOW), 3, NOW), 3, NOW)
back = rolled_back(two, NOW)


def phases(dep: Deployment) -> tuple[Phase, ...]:
    return tuple(version.phase for version in dep.versions)


def numbers(dep: Deployment) -> list[int]:
    return [version.number for version in dep.running]


def test_the_first_version_is_served_at_once() -> None:
    assert phases(one) == ("active",)
    assert one.active is not None
    assert (one.active.number, one.active.view, one.active.created) == (1, first, NOW)
    assert one.candidate is None
    assert numbers(one) == [1]
    assert one.history == (HistoryEntry(NOW, "started", 1),)


def test_a_later_version_is_replayed_compared_and_promoted() -> None:
    assert phases(replaying) == ("active", "replaying")
    assert numbers(replaying) == [1], "a replay is not the stream's business"
    assert phases(candidate) == ("active", "candidate")
    assert numbers(candidate) == [1, 2]
    assert candidate.candidate == candidate.version(2)
    assert phases(two) == ("previous", "active")
    assert phases(three) == ("previous", "previous", "active")
    assert [change.what for change in two.history] == ["started", "deployed", "replayed", "promoted"]


def test_transitions_leave_the_old_value_alone() -> None:
    assert phases(candidate) == ("active", "candidate")
    promoted(candidate, 2, NOW)
    assert phases(candidate) == ("active", "candidate")


def test_a_replay_that_was_killed_is_resumed_and_not_begun_again() -> None:
    later = NOW + timedelta(hours=1)
    assert deployed(replaying, replace(second, where="STATUS < 500"), later) is replaying
    from_day = deployed(one, second, NOW, DAY)
    assert deployed(from_day, second, later, DAY) is from_day
    with pytest.raises(BraidError, match="version 2 is replaying"):
        deployed(from_day, second, later)


@pytest.mark.parametrize(("dep", "phase"), [(replaying, "replaying"), (candidate, "candidate")])
def test_a_view_has_one_candidate_at_a_time(dep: Deployment, phase: str) -> None:
    with pytest.raises(BraidError, match=rf"version 2 is {phase}.*braid kappa retire traffic 2"):
        deployed(dep, third, NOW)


def test_a_replay_that_has_ended_is_not_begun_again() -> None:
    with pytest.raises(BraidError, match=r"version 2 is candidate.*braid kappa promote traffic"):
        deployed(candidate, second, NOW)


def test_the_reasons_for_accepting_differences_are_kept() -> None:
    assert promoted(candidate, 2, NOW, "bots are counted now").history[-1] == HistoryEntry(
        NOW, "promoted", 2, "bots are counted now"
    )


def test_a_rollback_serves_what_was_served_before_and_can_be_undone() -> None:
    assert phases(back) == ("active", "candidate")
    assert numbers(back) == [1, 2]
    assert back.withdrawn == back.version(2)
    again = promoted(back, 2, NOW)
    assert phases(again) == ("previous", "active")
    assert again.withdrawn is None


def test_rollbacks_go_back_one_by_one_and_never_to_what_was_left() -> None:
    once = rolled_back(three, NOW)
    assert phases(once) == ("previous", "active", "candidate")
    twice = rolled_back(once, NOW)
    assert phases(twice) == ("active", "previous", "candidate")
    assert twice.withdrawn == twice.version(2)
    with pytest.raises(
        BraidError, match="version 1 is active, and nothing that was served before it is left"
    ):
        rolled_back(twice, NOW)
    assert phases(promoted(twice, 2, NOW)) == ("previous", "active", "candidate")


def test_a_rollback_follows_the_order_of_service_and_not_of_numbers() -> None:
    old_again = promoted(two, 1, NOW)
    assert phases(old_again) == ("active", "previous")
    assert phases(rolled_back(old_again, NOW)) == ("candidate", "active")


def test_a_rollback_passes_over_what_was_retired() -> None:
    assert phases(rolled_back(retired(three, 2, NOW), NOW)) == ("active", "retired", "candidate")
    with pytest.raises(BraidError, match="nothing that was served before it is left"):
        rolled_back(retired(two, 1, NOW), NOW)


def test_a_rollback_is_possible_while_a_replay_runs() -> None:
    running = deployed(two, third, NOW)
    after = rolled_back(running, NOW)
    assert phases(after) == ("active", "previous", "replaying")
    assert phases(promoted(after, 2, NOW)) == ("previous", "active", "replaying")


def test_a_new_definition_takes_the_place_of_one_that_was_rolled_back() -> None:
    new = deployed(back, third, NOW)
    assert phases(new) == ("active", "previous", "replaying")
    served = promoted(replayed(new, 3, NOW), 3, NOW)
    assert phases(served) == ("previous", "previous", "active")
    assert (new.withdrawn, served.withdrawn) == (new.version(2), None)


def test_any_version_but_the_active_one_can_be_retired() -> None:
    assert phases(retired(two, 1, NOW)) == ("retired", "active")
    given_up = retired(replaying, 2, NOW)
    assert (phases(given_up), given_up.candidate) == (("active", "retired"), None)
    assert deployed(given_up, second, NOW).versions[-1].number == 3, "a number is never used twice"
    assert retired(back, 2, NOW).withdrawn is None


def test_a_presentation_changes_in_place() -> None:
    p95 = replace(first, measures={"p": quantile("bytes", 0.95)})
    dep = deployed(Deployment("traffic"), p95, NOW)
    p50 = replace(p95, measures={"p": quantile("bytes", 0.5)}, mode="kappa")
    after = presented(dep, p50, NOW)
    assert after.active is not None
    assert (after.active.number, after.active.view) == (1, p50)
    assert after.active.fingerprint == fingerprint(p50) != fingerprint(p95)
    assert presented(after, p50, NOW) is after
    with pytest.raises(BraidError, match=r"version 1 is active.*needs other states.*braid apply"):
        presented(after, replace(p50, measures={"s": sum_("bytes")}), NOW)


def test_a_view_that_is_removed_can_come_back() -> None:
    gone = removed(replaying, NOW)
    assert phases(gone) == ("retired", "retired")
    assert (gone.active, gone.running) == (None, ())
    again = deployed(gone, second, NOW)
    assert phases(again) == ("retired", "retired", "active")
    with pytest.raises(BraidError, match="nothing that was served before"):
        rolled_back(again, NOW)


@pytest.mark.parametrize(
    ("refused", "says"),
    [
        (lambda: replayed(two, 2, NOW), r"version 2 is active.*braid kappa status traffic"),
        (lambda: promoted(two, 2, NOW), "version 2 is active, so it is served already"),
        (lambda: promoted(replaying, 2, NOW), r"version 2 is replaying.*braid kappa replay traffic"),
        (lambda: promoted(retired(two, 1, NOW), 1, NOW), r"version 1 is retired.*braid kappa replay traffic"),
        (lambda: promoted(removed(two, NOW), 2, NOW), r"version 2 is retired.*braid kappa replay traffic"),
        (lambda: retired(two, 2, NOW), r"version 2 is active.*braid kappa rollback traffic"),
        (lambda: retired(retired(two, 1, NOW), 1, NOW), "version 1 is retired, already"),
        (lambda: rolled_back(Deployment("traffic"), NOW), "'traffic' is not deployed: `braid apply`"),
        (lambda: presented(Deployment("traffic"), first, NOW), "'traffic' is not deployed: `braid apply`"),
        (lambda: removed(Deployment("traffic"), NOW), "'traffic' is not deployed.*braid plan"),
        (lambda: deployed(Deployment("other"), first, NOW), "'traffic' cannot be deployed as 'other'"),
        (lambda: two.version(7), r"'traffic' has no version 7.*1 \(previous\), 2 \(active\)"),
        (lambda: Deployment("traffic").version(1), "no version 1. Its versions: none"),
    ],
)
def test_what_is_impossible_is_refused_with_what_to_do(refused: Callable[[], object], says: str) -> None:
    with pytest.raises(BraidError, match=says):
        refused()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=str(tmp_path / "home"))


def save(settings: Settings, dep: Deployment) -> None:
    with changing(settings, dep.name) as draft:
        draft.value = dep


def document(settings: Settings) -> Path:
    return settings.local_home() / "views" / "traffic" / "deployment.json"


def test_what_is_saved_is_loaded(settings: Settings) -> None:
    assert load(settings, "traffic") == Deployment("traffic")
    dep = deployed(rolled_back(promoted(candidate, 2, NOW, "ü"), NOW), third, NOW, DAY)
    save(settings, dep)
    assert load(settings, "traffic") == dep


def test_a_deployment_is_read_in_milliseconds(settings: Settings) -> None:
    save(settings, three)
    best = min(_seconds(lambda: load(settings, "traffic")) for _ in range(20))
    assert best < 0.05


def _seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def test_all_deployments_are_found(settings: Settings) -> None:
    assert deployments(settings) == {}
    other = deployed(Deployment("other"), replace(first, name="other", window=tumbling("1 minute")), NOW)
    for dep in (two, other):
        save(settings, dep)
    (settings.local_home() / "views" / "no_document").mkdir()
    assert deployments(settings) == {"traffic": two, "other": other}


def test_the_fingerprint_is_the_one_that_the_tables_were_begun_with(settings: Settings) -> None:
    save(settings, one)
    written = json.loads(document(settings).read_text())
    assert written["versions"][0]["fingerprint"] == fingerprint(first)
    written["versions"][0] |= {"fingerprint": "older", "state_fingerprint": "older states"}
    document(settings).write_text(json.dumps(written))
    (version,) = load(settings, "traffic").versions
    assert (version.fingerprint, version.state_fingerprint) == ("older", "older states")
    assert state_fingerprint(version.view) == state_fingerprint(first)


def test_a_block_that_raises_saves_nothing(settings: Settings) -> None:
    save(settings, one)

    def fails() -> None:
        with changing(settings, "traffic") as draft:
            draft.value = two
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert load(settings, "traffic") == one


def test_a_block_that_changes_nothing_writes_nothing(settings: Settings) -> None:
    save(settings, one)
    before = document(settings).stat()
    with changing(settings, "traffic") as draft:
        draft.value = deployed(Deployment("traffic"), first, NOW)
    assert document(settings).stat().st_ino == before.st_ino


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"versions": [{}], "history": []}'])
def test_a_damaged_document_is_named(settings: Settings, text: str) -> None:
    save(settings, one)
    document(settings).write_text(text)
    with pytest.raises(BraidError, match=r"deployment\.json is damaged.*restore it"):
        load(settings, "traffic")


def test_a_definition_that_this_braid_cannot_read_is_named_with_its_place(settings: Settings) -> None:
    save(settings, one)
    document(settings).write_text(document(settings).read_text().replace('"lateness"', '"tardiness"'))
    with pytest.raises(BraidError, match=r"deployment\.json: .*'tardiness' of View"):
        load(settings, "traffic")


def add_changes(settings: Settings, n: int) -> None:
    for _ in range(n):
        with changing(settings, "traffic") as draft:
            changes = (*draft.value.history, HistoryEntry(NOW, "counted", 1))
            draft.value = replace(draft.value, history=changes)


WRITER = """
import sys
from dataclasses import replace
from datetime import UTC, datetime
from braid.deploy.store import changing
from braid.deploy.versions import HistoryEntry
from braid.runtime.settings import Settings

settings = Settings(home=sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
for n in range(25):
    with changing(settings, "traffic") as draft:
        changes = (*draft.value.history, HistoryEntry(datetime.now(UTC), "counted", n))
        draft.value = replace(draft.value, history=changes)
"""


def test_no_change_is_lost_between_processes(settings: Settings) -> None:
    command = [sys.executable, "-c", WRITER, settings.home]
    with ExitStack() as stack:
        writers = [
            stack.enter_context(
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )
            for _ in range(3)
        ]
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.close()
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    assert len(load(settings, "traffic").history) == 75


def test_a_reader_does_not_wait_for_a_writer(settings: Settings) -> None:
    save(settings, one)
    with changing(settings, "traffic") as draft:
        draft.value = two
        assert load(settings, "traffic") == one
    assert load(settings, "traffic") == two


def test_a_writer_waits_for_another(settings: Settings) -> None:
    save(settings, one)
    thread = threading.Thread(target=add_changes, args=(settings, 1))
    with changing(settings, "traffic") as draft:
        thread.start()
        until(lambda: "alone(" in _line_of(thread))
        draft.value = two
    thread.join()
    assert load(settings, "traffic").history == (*two.history, HistoryEntry(NOW, "counted", 1))


def _line_of(thread: threading.Thread) -> str:
    """The source line of the store at which a thread is."""
    frame = sys._current_frames().get(thread.ident or 0)
    while frame is not None and frame.f_code.co_filename != store.__file__:
        frame = frame.f_back
    return Path(store.__file__).read_text().splitlines()[frame.f_lineno - 1] if frame else ""


def test_a_lock_that_is_never_given_back_is_an_error(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "PATIENCE", 0.1)
    with (
        changing(settings, "traffic"),
        pytest.raises(BraidError, match=r"changing view 'traffic' for 0\.1 seconds.*deployment-traffic"),
        changing(settings, "traffic"),
    ):
        pass


def test_views_are_changed_independently(settings: Settings) -> None:
    with changing(settings, "traffic") as traffic, changing(settings, "other") as other:
        traffic.value, other.value = one, deployed(Deployment("other"), replace(first, name="other"), NOW)
    assert set(deployments(settings)) == {"traffic", "other"}


def test_a_shared_home_refuses_what_another_has_changed_meanwhile(tmp_path: Path) -> None:
    shared = Settings(home=f"file://{tmp_path}")
    save(shared, one)

    def overtaken() -> None:
        with changing(shared, "traffic") as draft:
            add_changes(shared, 1)
            draft.value = two

    with pytest.raises(BraidError, match="'traffic' was changed by somebody else"):
        overtaken()
    assert load(shared, "traffic").history[-1].what == "counted"
