"""What would go wrong without each rule: a list of broken rules, each of which the simulator has to find."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from braid import cut, writing
from tests.simulation import batch, engine, ingest, readers
from tests.simulation.schedule import Run, Schedule, of_seed, shortest
from tests.simulation.store import Saving, Table
from tests.simulation.world import LENGTH

# A mutation that so many schedules do not show is not found.
BUDGET = 20_000


@dataclass(frozen=True)
class Mutation:
    """A rule, how it is broken, and what is put in the place of the product's functions or of an actor's step."""

    rule: str
    broken: str
    instead: tuple[tuple[Any, str, Any], ...]

    @contextmanager
    def applied(self) -> Iterator[None]:
        patches = [patch.object(owner, name, new) for owner, name, new in self.instead]
        try:
            for one in patches:
                one.start()
            yield
        finally:
            patch.stopall()

    def found(self, budget: int = BUDGET, start: int = 0) -> tuple[int, Schedule, str] | None:
        """How many schedules it takes, the shortest one that shows it, and what goes wrong; None within the budget."""
        with self.applied():
            for seed in range(start, start + budget):
                schedule = of_seed(seed)
                if Run(schedule).violation() is not None:
                    short = shortest(schedule, lambda one: Run(one).violation() is not None)
                    return seed - start + 1, short, Run(short).violation() or ""
        return None


def _decide(wrong: str) -> Callable[..., str]:
    right = writing.decide

    def decide(*args: Any) -> str:
        decision = right(*args)
        return "write" if decision == wrong else decision

    return decide


def _early(right: Callable[..., int | None]) -> Callable[..., int | None]:
    def cut_due(mode: str, *rest: Any) -> int | None:
        found = right(mode, *rest)
        return found + LENGTH if found is not None and mode == "kappa" else found

    return cut_due


def _newest_only(table: Table, kind: type) -> Any:
    said = table.commits[-1].said  # type: ignore[union-attr]
    return said if isinstance(said, kind) else None


def _unconditional(world: Any, base: Table, count: int, days: dict[int, Any]) -> Any:
    saving = Saving(base, "base", True, where=(lambda day: day in days) if days else None)
    yield
    while True:
        try:
            return world.save(saving, days)
        except engine.Conflict:
            saving = Saving(base, "base", True, where=(lambda day: day in days) if days else None)


def _collects(world: Any, tail: Table, upto: int) -> Any:
    """A batch that takes covered rows out of the tail itself."""
    version = next((v for v in world.versions.values() if v.tail is tail), None)
    if version is None or tail.kept is None:
        return
    through = engine.throughs(version.base.files[-1])
    left: dict[int, dict[int, int]] = {}
    for file in tail.files[-1].values():
        for day, digits in file.rows.items():
            if file.part <= upto and cut.is_beyond(file.part, through.get(day)):
                days = left.setdefault(file.part, {})
                days[day] = days.get(day, 0) + digits
    yield
    saving = Saving(tail, None, False, where=lambda epoch: epoch <= upto)
    yield
    saving.commit(left, world.elapsed)


def _newest_cut(world: Any, otherwise: int | None) -> int | None:
    newest = ingest.word(world)
    return newest.epoch - LENGTH if newest is not None else otherwise


def _other_id(known: str | None, present: str | None, *_: Any) -> str | None:
    return None if writing.is_same_table(known, present) else "table"


def _as_query(running: Any, mark: Any) -> dict[str, Any]:
    """What `strict` was: batches alone, numbered by their query."""
    return {} if mark.fold else {"app": mark.query, "number": mark.batch + 1}


MUTATIONS = (
    Mutation(
        "only a closed epoch is a cut", "an open epoch is taken", ((cut, "is_closed", lambda *_: True),)
    ),
    Mutation(
        "an idle source is moved on by an empty commit",
        "no heartbeats",
        ((writing, "beat_due", lambda *_: None),),
    ),
    Mutation("a stop closes the epoch", "ingest just ends", ((writing, "closing_epoch", lambda *_: None),)),
    Mutation(
        "epochs never decrease",
        "the clock alone decides",
        ((writing, "next_epoch", lambda last, present: present),),
    ),
    Mutation(
        "`through` of a day never decreases",
        "a publish does not look at the present one",
        ((cut, "effective", lambda asked, through, replayed: max(asked, replayed or asked)),),
    ),
    Mutation(
        "the same cut gives the same table",
        "a day is published with the newest cut, not with its own",
        ((batch, "stated_cut", lambda world, asked: lambda: _newest_cut(world, asked)),),
    ),
    Mutation(
        "a reader pins the tail first, then the base, and looks whether that has what left the tail",
        "the base first, and nobody looks",
        (
            (readers, "pin_order", lambda: ("base", "tail")),
            (readers, "belongs", lambda *_: True),
        ),
    ),
    Mutation(
        "folds and compaction are no news",
        "a fold's rows are taken for new",
        ((cut, "brings_rows", lambda ours, *_: ours),),
    ),
    Mutation(
        "folds and compaction are no news",
        "what changes no data is taken for new",
        ((cut, "brings_rows", lambda *_: True),),
    ),
    Mutation(
        "only the stream collects covered rows", "a publish collects them", ((batch, "collect", _collects),)
    ),
    Mutation(
        "covered rows count once while both tables have them",
        "all rows of the tail count",
        ((cut, "is_beyond", lambda *_: True),),
    ),
    Mutation(
        "a row at its day's cut is in the base",
        "it counts from the tail as well",
        ((cut, "is_beyond", lambda epoch, through: through is None or epoch >= through),),
    ),
    Mutation(
        "a replay fixes its cut before it reads",
        "every start takes a new one",
        (
            (
                engine,
                "fixed_cut",
                lambda one: _newest_cut(one.world, None),
            ),
        ),
    ),
    Mutation(
        "a replay's cut is folded when all of its history is read",
        "as soon as some of it is there",
        (
            (
                cut,
                "complete_after",
                lambda epoch, length, starting: 10**6 if starting else epoch and epoch - length,
            ),
        ),
    ),
    Mutation(
        "a cut is complete only when a later epoch was consumed",
        "the newest epoch counts as complete",
        ((cut, "complete_after", lambda epoch, length, starting: None if starting else epoch),),
    ),
    Mutation(
        "only complete epochs are rewritten",
        "open ones too, and nobody looks what came meanwhile",
        (
            (
                cut,
                "to_fold",
                lambda files, complete, most: sorted(epoch for epoch, number in files.items() if number > 1),
            ),
            (cut, "may_replace", lambda *_: True),
        ),
    ),
    Mutation(
        "only what is complete is folded into the base",
        "one epoch more",
        ((cut, "cut_due", _early(cut.cut_due)),),
    ),
    Mutation(
        "a publish is not behind the cut of a stream's history",
        "it looks at `through` alone",
        ((cut, "effective", lambda asked, through, replayed: max(asked, through or asked)),),
    ),
    Mutation(
        "a batch that is in the table is skipped",
        "it is written again",
        ((writing, "decide", _decide("skip")),),
    ),
    Mutation(
        "a checkpoint that is another's is refused",
        "it goes on",
        (
            (writing, "decide", _decide("stranger")),
            (writing, "may_go_on", lambda *_: True),
        ),
    ),
    Mutation(
        "a checkpoint that is older than its table is refused",
        "it goes on",
        ((writing, "decide", _decide("older")),),
    ),
    Mutation(
        "a commit that failed may have been made",
        "the writer goes on as if it was not",
        (
            (writing, "may_speak", lambda in_doubt: True),
            (engine, "dies_in_doubt", lambda: False),
        ),
    ),
    Mutation(
        "commits of others are looked past",
        "the newest commit alone is asked",
        (
            (Table, "said_back", _newest_only),
            (writing, "newest_word", lambda found, *_: found),
            (writing, "is_lost", lambda *_: False),
        ),
    ),
    Mutation(
        "collection ends where the tail is complete, and replaces what it has read",
        "neither",
        (
            (cut, "collectable", lambda through, complete: max(through.values(), default=None)),
            (cut, "may_replace", lambda *_: True),
        ),
    ),
    Mutation(
        "every wait has an end",
        "a batch without a match is waited for",
        ((engine, "waits_without_end", lambda commits: not any(map(engine.rows_of, commits))),),
    ),
    Mutation(
        "a tail is not begun beside a base that another one made",
        "it is",
        ((writing, "may_begin", lambda *_: True),),
    ),
    Mutation(
        "a base that lacks what left its tail is refused",
        "it is read and written all the same",
        ((writing, "has_what_left", lambda *_: True),),
    ),
    Mutation(
        "a base is written as it was read",
        "a writer does not look whether it has changed",
        (
            (engine, "commit_to_base", _unconditional),
            (batch, "commit_to_base", _unconditional),
        ),
    ),
    Mutation(
        "where a writer stands outlives its commits",
        "only commits say it",
        (
            (writing, "newest_word", lambda found, *_: found),
            (writing, "is_lost", lambda word, rows, done: not word and done),
        ),
    ),
    Mutation(
        "what is kept of a writer is not older than its commits",
        "nobody asks in which turn it was said",
        ((writing, "is_current", lambda *_: True),),
    ),
    Mutation(
        "two engines do not write at once",
        "only batches are numbered, by their query",
        (
            (engine, "writing_turn", _as_query),
            (writing, "was_made", lambda *_: True),
        ),
    ),
    Mutation(
        "a commit that the store has skipped is noticed",
        "silence is taken for success",
        ((writing, "was_made", lambda *_: True),),
    ),
    Mutation(
        "a table that was replaced is noticed",
        "its name is enough",
        ((writing, "is_same_table", lambda *_: True),),
    ),
    Mutation(
        "a log that was restored is noticed by its end and its commits",
        "its id is enough",
        ((writing, "differs_from_read", _other_id),),
    ),
    Mutation(
        "a log has all that its checkpoint has finished",
        "nobody looks",
        (
            (writing, "is_older_table", lambda *_: False),
            (writing, "may_go_on", lambda query, last, replaces, _: last in (query, replaces)),
        ),
    ),
    Mutation(
        "a recovery begins where the log ends",
        "where it ended when that was planned",
        ((writing, "may_take_over", lambda *_: True),),
    ),
    Mutation(
        "a clock that jumped forward and back stops no epoch",
        "the clock alone moves an idle source on",
        ((writing, "beat_due", lambda last, present, *_: present if present > last else None),),
    ),
)
