"""Takes a check of the product out and runs the test that is there for it, which must fail, for the right reason.

`python -m tests.taken_out` runs all, in one Spark session, and ends with an error if a test passes without its check or
fails otherwise than expected; `--write` renews the table in docs/simulation.md. Options of pytest may be given.
"""

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "simulation.md"
BEGIN, END = "<!-- taken out -->", "<!-- end of taken out -->"


def never(*_: Any, **__: Any) -> None:
    """In the place of what refuses or mends: nothing happens."""


def always(*_: Any, **__: Any) -> bool:
    return True


@dataclass(frozen=True)
class TakenOut:
    """A check, the test that is there for it, what is put in its place, and how the test fails then."""

    hole: str
    check: str
    test: str
    instead: tuple[tuple[str, Any], ...]
    fails: str
    without: str
    # Of a test that is run with several values, those whose id has this.
    only: str = ""

    @property
    def name(self) -> str:
        return self.test.split("::")[1]

    def row(self) -> str:
        return f"| {self.hole} | {self.check} | `{self.name}` | {self.without} |"


def _saves_unconditionally(spark: Any, writer: Any, seen: Any, said: Any) -> int:
    from braid.tables.delta_log import newest_version

    writer.option("userMetadata", said.to_json()).save(seen.location)
    return newest_version(seen.location) or 0


def _writes_unconditionally(rows: Any, where: str, seen: Any, said: Any) -> int:
    from braid.tables.conditional import commit_here, see

    return commit_here(rows, where, see(seen.location), said)


def _waits(observation: Any, patience: float) -> Any:
    return observation._jo.getAsJava()


def _clock_alone(last: Any, now: Any, length: Any, waited: Any = None) -> Any:
    from braid.tables.commits import epoch_of

    return max(last, epoch_of(now, length)) if last else epoch_of(now, length)


def _held(floor: Any, ahead: Any) -> Any:
    from pyspark.sql import functions as F

    return F.greatest(F.current_timestamp(), F.lit(floor))


COLLECTION: tuple[tuple[str, Any], ...] = (
    ("braid.cut.collectable", lambda through, complete: max(through.values(), default=None)),
    ("braid.cut.may_replace", always),
)
UNCONDITIONAL: tuple[tuple[str, Any], ...] = (
    ("batch_layer.publish.commit", _saves_unconditionally),
    ("batch_layer.publish.commit_here", _writes_unconditionally),
)
NO_WORD: tuple[tuple[str, Any], ...] = (("braid.writing.newest_word", lambda found, *_: found),)
READS_ALL: tuple[tuple[str, Any], ...] = (
    ("speed_layer.recovery._next_places", lambda spark, log: ({}, None)),
    ("braid.writing.is_lost", lambda word, rows, finished: not word and finished),
)
NOT_ALONE: tuple[tuple[str, Any], ...] = (
    ("braid.runtime.settings.Settings.is_fenced", property(lambda self: False)),
)
ANY_LOG: tuple[tuple[str, Any], ...] = (
    ("speed_layer.stream.tail.refuse_other_log", never),
    ("speed_layer.stream.follower.refuse_other_log", never),
)
ANY_TABLE: tuple[tuple[str, Any], ...] = (
    ("serving_layer.memory.follower.is_same_table", always),
    ("serving_layer.answer.reader.is_same_table", always),
)
RACES = "tests/integration/test_races.py::test_"
LOST = "tests/integration/test_lost_tables.py::test_"
TWO = "tests/integration/test_two_engines.py::test_"
MOVED = "tests/integration/test_moved.py::test_"
BASES = "tests/integration/test_lost_base.py::test_"
CLOCK = "tests/unit/test_appender.py::test_"
LIVE = "tests/unit/test_live.py::test_"
MEMORY = "tests/unit/test_serving_follow.py::test_"
READER = "tests/unit/test_reader.py::test_"

DIFFERS, SILENT = r"assert Counter\(", "DID NOT RAISE"

ALL = (
    TakenOut(
        "1 collection", "it ends where the tail is complete, and replaces only what it has read",
        f"{RACES}a_stream_that_lags_behind_a_publish_loses_nothing_when_it_collects",
        COLLECTION, DIFFERS, "rows that came meanwhile are gone from the served numbers",
        # The driver's fold names each file that it takes out: what came meanwhile is in none of them.
        only="Spark",
    ),
    TakenOut(
        "3 lost tail", "a tail is not begun beside a base that another one made",
        f"{LOST}a_tail_that_is_lost_beside_a_full_base_is_not_begun_anew",
        (("braid.writing.may_begin", always),), SILENT, "it is begun anew, beside the full base",
    ),
    TakenOut(
        "3 lost tail", "a plan looks whether there is a tail",
        f"{LOST}a_batch_plan_does_not_call_a_view_up_to_date_whose_tail_is_lost",
        (("batch_layer.plan.newest_version", lambda table: 0), ("batch_layer.plan.is_base_lost", lambda _: False)),
        "up to date", "`up to date`",
    ),
    TakenOut(
        "4 fold and publish", "a fold commits to the base only as it has read it",
        f"{RACES}a_fold_does_not_take_a_publish_back_that_is_made_meanwhile",
        (("speed_layer.stream.fold.commit", _saves_unconditionally),), "assert", "`through` goes back",
    ),
    TakenOut(
        "4 two publishes", "a publish commits to the base only as it has read it",
        f"{RACES}of_two_publishes_of_a_day_the_later_cut_stays",
        UNCONDITIONAL, "assert", "`through` goes back",
    ),
    TakenOut(
        "5 at rest", "what a source's writer said last is kept beside the table",
        f"{LOST}a_source_at_rest_goes_on_after_its_commits_were_cleaned_up",
        NO_WORD, "assert None ==", "nobody knows how far it was read",
    ),
    TakenOut(
        "5 at rest", "the same of a stream",
        f"{LOST}a_stream_at_rest_goes_on_after_its_commits_were_cleaned_up",
        NO_WORD, "no commit that says how far it goes", "the stream is refused",
    ),
    TakenOut(
        "5 at rest", "maintenance keeps the word of a writer that was killed",
        f"{LOST}a_killed_stream_is_kept_by_maintenance_and_refused_without_it",
        (("speed_layer.recovery.keep", never),), "no commit that says how far it goes",
        "the stream is refused",
    ),
    TakenOut(
        "5 recovery", "a recovery is computed from the places of the rows",
        f"{LOST}a_source_that_does_not_say_how_far_it_was_read_is_recovered_from_its_rows",
        READS_ALL, r"assert \[", "all of the topic is read a second time",
    ),
    TakenOut(
        "5 recovery", "a plan that the log has gone on since is not followed",
        "tests/integration/test_ingest_recovery.py::test_a_recovery_that_was_planned_before_the_last_batch_is_refused",
        (("braid.writing.may_take_over", always),), SILENT, "what came in between is read a second time",
    ),
    TakenOut(
        "5 recovery", "a log is not older than its checkpoint",
        "tests/integration/test_ingest_recovery.py::"
        "test_a_log_from_an_old_backup_is_refused_beside_its_checkpoint_and_reads_again_what_it_lacks",
        (("speed_layer.ingest.appender.is_older_table", lambda *_: False),), SILENT, "what was read in between is lost",
    ),
    TakenOut(
        "6 two engines", "each commit takes the next turn, and one whose turn is taken is noticed",
        f"{TWO}the_batch_of_the_second_is_noticed_and_neither_counted_nor_waited_for",
        NOT_ALONE, SILENT, "both append the same events",
    ),
    TakenOut(
        "6 two engines", "one that appends without Spark looks who came first",
        f"{TWO}the_batch_of_the_second_is_noticed_and_neither_counted_nor_waited_for",
        (("speed_layer.jobs.batch_writer.may_follow", always),), SILENT, "both append the same events",
        only="the driver",
    ),
    TakenOut(
        "6 two engines", "the same of a fold",
        f"{TWO}a_fold_of_the_second_does_not_say_an_old_batch_again", NOT_ALONE, SILENT, "an old batch is the newest",
    ),
    TakenOut(
        "6 two engines", "the same of a heartbeat",
        f"{TWO}a_heartbeat_of_the_second_does_not_say_an_old_batch_again",
        NOT_ALONE, SILENT, "an old batch is the newest",
    ),
    TakenOut(
        "6 two engines", "the same of two that fold into one base",
        f"{TWO}of_two_that_fold_at_once_no_interval_between_their_cuts_is_lost",
        NOT_ALONE, SILENT, "the second goes on from where it was",
    ),
    TakenOut(
        "6 two engines", "the second one ends",
        f"{TWO}the_second_of_two_whole_engines_ends_with_what_a_person_must_know",
        NOT_ALONE, "did not come true in time", "both go on",
    ),
    TakenOut(
        "7 another log", "a stream that starts knows the log that it has read",
        f"{LOST}a_log_that_another_one_was_put_in_the_place_of_is_refused",
        ANY_LOG, SILENT, "it reads on in the other one",
    ),
    TakenOut(
        "7 another log", "so does a run of the batch layer",
        f"{LOST}a_day_is_not_published_from_a_log_that_is_not_the_one_of_its_tail",
        (("batch_layer.publish.refuse_other_log", never),), SILENT, "a day loses what the other log has later",
    ),
    TakenOut(
        "7 another log", "tables say for which log they were made",
        f"{LOST}a_view_that_was_published_before_its_stream_began_knows_its_log",
        (("braid.tables.tail_and_base.LOG", "nowhere"),), SILENT, "events of both logs are added up",
    ),
    TakenOut(
        "7 another log", "a stream that runs knows it too",
        f"{LIVE}a_log_that_another_one_takes_the_place_of_under_a_running_stream_is_not_read",
        ANY_LOG, "did not come true in time", "it reads on in the other one, or waits for a commit that was",
    ),
    TakenOut(
        "7 another table", "tables that are rebuilt while a view in memory is opened are noticed",
        f"{MEMORY}a_view_that_is_rebuilt_while_it_is_opened_is_not_mixed_with_what_it_replaced",
        ANY_TABLE, "assert 60 == 30", "60 events for 30", only="files stay",
    ),
    TakenOut(
        "7 another table", "the same for a reader of tables",
        f"{READER}tables_that_are_rebuilt_between_the_two_are_not_mixed_with_the_old_ones",
        ANY_TABLE, "assert", "numbers of both tables are added up",
    ),
    TakenOut(
        "8 a clock that jumps", "an idle source is moved on by the time that was waited",
        f"{CLOCK}an_idle_source_closes_its_epoch_after_a_clock_that_jumped_forward_and_back",
        (("speed_layer.ingest.appender.beat_due", lambda last, present, *_: present if present > last else None),),
        "assert False", "no epoch closes until the clock is there",
    ),
    TakenOut(
        "8 a clock that jumps", "so is a busy one",
        f"{CLOCK}a_busy_source_closes_its_epochs_after_a_clock_that_jumped_forward_and_back",
        (("speed_layer.ingest.appender.next_epoch", _clock_alone),), "assert 0 == 2",
        "no epoch closes until the clock is there",
    ),
    TakenOut(
        "8 a clock that jumps", "deduplication's time goes on from the one that was seen",
        f"{CLOCK}ids_are_forgotten_after_a_clock_that_jumped_forward_and_back",
        (("speed_layer.ingest.dedup.present", _held),), "did not come true in time", "no id is forgotten",
    ),
    TakenOut(
        "10 never published", "days of a tail in memory leave it for its tables",
        f"{MEMORY}a_view_that_nobody_publishes_takes_a_level_memory",
        (("serving_layer.memory.follower.Follower._within_share", lambda self, now: now),), "assert",
        "memory grows with every day",
    ),
    TakenOut(
        "a lost base", "a base has the version that rows have left the tail for",
        f"{BASES}a_base_that_is_older_than_its_tail_is_refused",
        (("braid.writing.has_what_left", always),), SILENT, "numbers without what was folded",
    ),
    TakenOut(
        "a lost base", "a base is the table that rows have left the tail for",
        f"{BASES}a_base_of_another_view_is_refused",
        (("braid.writing.is_same_table", always),), SILENT, "numbers of another view",
    ),
    TakenOut(
        "a moved folder", "it is refused until a person says that it is the same",
        f"{MOVED}a_folder_that_was_moved_is_refused_and_gone_on_with_when_a_person_says_so",
        (("speed_layer.ingest.folders.refuse_moved", never),), "did not match",
        "Spark meets files that are not in its folder, and names no way out",
    ),
    TakenOut(
        "a moved home", "what was read of the inbox is known in its new place",
        f"{MOVED}a_home_that_was_moved_does_not_read_its_inbox_again",
        (("speed_layer.ingest.folders.move_inbox", never),), "assert", "the inbox is read a second time",
    ),
    # Last: what waits for ever goes on to do so.
    TakenOut(
        "2 without a match", "a count is not waited for without an end",
        f"{LOST}a_catch_up_without_a_match_ends",
        (("speed_layer.stream.counts.reported", _waits),), "waits for a count that never comes", "the stream hangs",
        only="Spark",
    ),
)  # fmt: skip


# -- the plugin


@pytest.fixture(autouse=True)
def taken_out(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    for target, new in request.param.instead:
        monkeypatch.setattr(target, new)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    mine = [one for one in ALL if one.test == metafunc.definition.nodeid]
    metafunc.parametrize("taken_out", mine, indirect=True, ids=lambda one: one.check)


def pytest_collection_modifyitems(config: pytest.Config, items: list[Any]) -> None:
    def mine(item: Any) -> TakenOut | None:
        spec = getattr(item, "callspec", None)
        found = spec.params.get("taken_out") if spec is not None else None
        return found if isinstance(found, TakenOut) and found.only in item.name else None

    kept = sorted(
        (item for item in items if mine(item)), key=lambda item: ALL.index(item.callspec.params["taken_out"])
    )
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: Any, call: pytest.CallInfo[None]) -> Iterator[None]:
    """A test that fails as expected is what was wanted."""
    report: Any = yield
    if call.when == "call":
        one: TakenOut = item.callspec.params["taken_out"]
        found = str(call.excinfo.value) if call.excinfo is not None else ""
        if call.excinfo is None:
            report.outcome, report.longrepr = "failed", f"{one.name} passes without its check: {one.check}"
        elif re.search(one.fails, found):
            print(f"{one.hole}, {one.check}: {found.splitlines()[0][:200]}")
            report.outcome, report.longrepr = "passed", None
    return report


def table(rows: Callable[[TakenOut], str] = TakenOut.row) -> str:
    head = ("| hole | what is taken out | test | without it |", "|---|---|---|---|")
    return "\n".join((*head, *map(rows, ALL)))


def main(arguments: list[str]) -> int:
    if arguments == ["--write"]:
        before, rest = PAGE.read_text().split(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{table()}\n{END}{rest.split(END)[1]}")
        return 0
    tests = list(dict.fromkeys(one.test for one in ALL))
    return int(pytest.main(["-p", "tests.taken_out", "-q", *arguments, *tests]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
