"""The stream of one version: a query over history, then a follower of the log, and beside it a thread that folds."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from braid import cut as rules
from braid import writing
from braid.tables.commits import Commit, Position
from braid.tables.tail_and_base import belongs
from braid.writing import Batch
from tests.simulation import ingest
from tests.simulation.store import Conflict, Done, Failed, Saving, Table
from tests.simulation.world import (
    LENGTH,
    TAIL_RETENTION,
    Checkpoint,
    Mark,
    NotYet,
    Refused,
    Steps,
    Version,
    World,
    throughs,
)

FOLD_EVERY, MOST_EPOCHS, MOST_COMMITS, UNKNOWN = 3, 5, 3, -1
BASE, TAIL = "braid-base", "braid-tail"


def create(world: World, version: Version, cut: int | None) -> Steps:
    """The base first, then the tail, which fixes the replay's cut."""
    covered = throughs(version.base.files[-1]).values() if version.base is not None else ()
    if not writing.may_begin(covered, None if version.tail is None else cut):
        raise Refused("there is a base that another tail was folded into")
    if version.base is None:
        version.base = Table(world.name("base"), TAIL_RETENTION)
        yield
    if (log := world.log) is None:
        raise Refused("the log is gone")
    if version.tail is None:
        version.tail = Table(world.name("tail"), TAIL_RETENTION, replay_cut=cut, log=log.id, life=log.life)


def refuse_another_log(world: World, tail: Table, last: Mark | None) -> None:
    """A tail says which log it has read, and its last commit there, or for which it was made."""
    log = world.log
    if log is None:
        return
    position, read = (last.position, last.read) if last is not None else (Position(0), "")
    known = (last.log if last is not None else "") or tail.properties["log"]
    is_known = position.is_between_commits and position.version > 0
    before = log.commit_at(position.version - 1) if is_known else None
    mark = before.mark if before is not None else None
    if writing.differs_from_read(known, log.id, position.version, log.newest, read, mark):
        raise Refused("the log is another one")


class Engine:
    """One run of it: `follower` and `folder` are its threads, which share a lock."""

    def __init__(self, world: World, version: Version) -> None:
        self.world, self.version = world, version
        self.last: Mark | None = None
        self.holds: str | None = None
        self.in_doubt = self.started = False
        self.follower: Steps = self._follow()
        self.folder: Steps = self._fold()

    @property
    def log(self) -> Table:
        """Whatever stands in its place."""
        if self.world.log is None:
            raise Refused("the log is gone")
        return self.world.log

    # -- the start

    def _start(self) -> Steps:
        world, version = self.world, self.version
        if world.log is None:
            raise NotYet("there is no log yet")
        if version.tail is not None and not has_its_base(version):
            raise Refused("the base lacks what left the tail")
        if version.tail is None or version.base is None:
            newest = ingest.word(world)
            cut = rules.last_closed(newest.epoch, LENGTH) if newest else None
            yield from create(world, version, cut)
        assert version.tail is not None
        assert version.base is not None
        self.tail, self.base, self.log_id = version.tail, version.base, self.log.id
        found = self.tail.said_back(Mark)
        self.last = word(self.tail)
        self.replay_cut = fixed_cut(self)
        self._refuse()
        self.fence = self.tail.counts[-1].get(TAIL, 0)
        self.tail_version = self.tail.newest
        self.files = Counter(file.part for file in self.tail.files[-1].values())
        self.base_version = self.last.collected if self.last else UNKNOWN
        covered = throughs(self.base.files[-1]).values()
        self.base_through = max(covered, default=None)
        self.covers = self.collected = None
        if self.last is not None and found is None:
            again = replace(self.last, token=world.name("token"), turn=None)
            yield from self._say(Saving(self.tail, again, **self._turn(again)), {}, again)
        self.tail.note = None
        self.started = True

    def rest(self) -> None:
        """A stop between two batches: what was said last is kept."""
        if self.started and writing.may_speak(self.in_doubt) and self.last is not None:
            self.tail.note = replace(self.last, turn=self.fence)

    def _refuse(self) -> None:
        version, last, checkpoint = self.version, self.last, self.version.checkpoint
        refuse_another_log(self.world, self.tail, last)
        if last is None:
            self._refuse_base_of_another_tail(self.base, self.replay_cut)
        query = checkpoint.query if checkpoint else None
        finished = checkpoint is not None and checkpoint.finished > 0
        if writing.is_lost(last is not None, bool(self.tail.files[-1]), finished):
            raise Refused("the tail is gone, or does not say who wrote it")
        if last is not None and not writing.may_go_on(query, last.query, version.replaces, finished):
            raise Refused("the checkpoint is lost")
        if checkpoint is None:
            version.checkpoint = Checkpoint(self.world.name("query"))

    def _refuse_base_of_another_tail(self, base: Table | None, cut: int | None) -> None:
        if base is not None and not writing.may_begin(throughs(base.files[-1]).values(), cut):
            raise Refused("there is a base that another tail was folded into")

    # -- reading

    def _follow(self) -> Steps:
        yield from self._start()
        while self.last is None or not self.last.position.is_between_commits:
            yield from self._batch_of_history()
        while True:
            yield
            if self.holds is not None:
                continue
            if not writing.may_speak(self.in_doubt):
                raise Refused("the newest commit is in doubt")
            self.holds = "follower"
            yield from self._next_commits()
            self.holds = None

    def _batch_of_history(self) -> Steps:
        checkpoint = self.version.checkpoint
        assert checkpoint is not None
        yield
        if self.holds is not None:
            return
        self.holds = "follower"
        if checkpoint.snapshot is None:
            checkpoint.snapshot = self.log.newest
        if checkpoint.snapshot > self.log.newest:
            raise Refused("the log has no such version")
        # An optimised log gives its files in any order.
        files = sorted(self.log.files[checkpoint.snapshot].values(), key=lambda file: file.number * 7 % 5)
        number = checkpoint.finished
        if number == len(checkpoint.plans):
            index = (checkpoint.plans[-1].index if checkpoint.plans else 0) + 2
            done = index >= len(files)
            plan = Position(checkpoint.snapshot + 1) if done else Position(checkpoint.snapshot, index, True)
            checkpoint.plans.append(plan)
            yield
        position, before = checkpoint.plans[number], checkpoint.plans[number - 1].index if number else 0
        last = self.last
        there = Batch(last.query, last.batch, last.position) if last is not None else None
        decision = writing.decide(there, Batch(checkpoint.query, number, position), self.version.replaces)
        if decision in ("stranger", "older"):
            raise Refused(decision)
        if decision == "write":
            refuse_another_log(self.world, self.tail, self.last)
            chosen = files[before : position.index if position.starting else len(files)]
            rows = [(epoch, file.part, digit) for file in chosen for epoch, digit in file.rows]
            yield from self._append(checkpoint.query, number, position, rows)
        yield
        checkpoint.finished = number + 1
        self.holds = None

    def _next_commits(self) -> Steps:
        assert self.last is not None
        position, found = self.last.position.version, []
        while len(found) < MOST_COMMITS and position + len(found) <= self.log.newest:
            commit = self.log.commit_at(position + len(found))
            if commit is None:
                raise Refused("a commit of the log is gone")
            found.append(commit)
        refuse_another_log(self.world, self.tail, self.last)
        while found and waits_without_end(found):
            yield
        if found:
            rows = [row for commit in found for row in rows_of(commit)]
            position = Position(found[-1].version + 1)
            yield from self._append(self.last.query, self.last.batch + 1, position, rows)

    def _append(self, query: str, number: int, position: Position, rows: list[tuple[int, int, int]]) -> Steps:
        epoch = None if position.starting else self._epoch_before(position.version)
        mark = Mark(
            query, number, position, epoch=epoch,
            complete=rules.complete_after(epoch, LENGTH, position.starting), replay_cut=self.replay_cut,
            replaying=position.starting, collected=self.last.collected if self.last else UNKNOWN, log=self.log_id,
            base=self.last.base if self.last else "", needs=self.last.needed if self.last else UNKNOWN,
            read=self._mark_before(position), token=self.world.name("token"),
        )  # fmt: skip
        by_epoch: dict[int, dict[int, int]] = {}
        for came, day, digit in rows:
            under = by_epoch.setdefault(rules.stored_under(came, self.replay_cut), {})
            under[day] = under.get(day, 0) + digit
        yield from self._say(Saving(self.tail, mark, **self._turn(mark)), by_epoch, mark)

    def _epoch_before(self, version: int) -> int | None:
        while version > 0:
            version -= 1
            found = self.log.commit_at(version)
            if found is None:
                break
            if isinstance(found.said, Commit):
                return found.said.epoch
        return self.last.epoch if self.last else None

    def _mark_before(self, position: Position) -> str:
        found = self.log.commit_at(position.version - 1) if position.is_between_commits else None
        return found.mark if found is not None else ""

    # -- writing

    def _turn(self, mark: Mark) -> dict[str, Any]:
        """Where two engines may run at once, each commit is made only if no other came since the last one of ours."""
        return writing_turn(self, mark) if self.world.strict else {}

    def _say(self, saving: Saving, rows: dict[int, Any], mark: Mark) -> Steps:
        self.in_doubt = True
        yield
        try:
            self.world.save(saving, rows, keep=mark)
        except Failed:
            if dies_in_doubt():
                raise
            return
        newest = self.tail.said_back(Mark)
        if self.world.strict and not writing.was_made(mark.token, newest.token if newest else None):
            raise Refused("another engine writes this tail")
        self.in_doubt = False
        self.last, self.fence = mark, saving.number

    # -- folding

    def _fold(self) -> Steps:
        while True:
            yield
            last = self.last
            if not self.started or last is None or last.complete is None or self.holds is not None:
                continue
            if not writing.may_speak(self.in_doubt):
                continue
            self._catch_up()
            first = min(self.files, default=None)
            cut = rules.cut_due(
                self.version.mode, self.replay_cut, self.base_through, first, last.complete, FOLD_EVERY
            )
            epochs = rules.to_fold(self.files, last.complete, MOST_EPOCHS)
            collects = rules.is_to_collect(self.files, self.covers, self.collected, last.complete)
            due = rules.fold_due(cut, self.base.newest != self.base_version, collects, epochs)
            if due == "advance":
                yield from self._advance(cut)
            elif due == "collect":
                yield from self._collect(last.complete)
            elif due == "rewrite":
                yield from self._rewrite(epochs, self.tail_version, {})

    def _catch_up(self) -> None:
        for done in self.tail.since(self.tail_version):
            self.files.subtract(file.part for file in done.removed)
            self.files.update(file.part for file in done.added)
            self.tail_version = done.version
        self.files = +self.files

    def _advance(self, cut: int) -> Steps:
        tail_version = self.tail_version
        while True:
            before, count = self.base.newest, self.base.counts[-1].get(BASE, 0)
            through, days = throughs(self.base.files[-1]), {}
            there = {file.part: file.rows[1] for file in self.base.files[-1].values()}
            for file in self.tail.files[tail_version].values():
                for day, digits in file.rows.items():
                    if file.part <= cut and rules.is_beyond(file.part, through.get(day)):
                        days[day] = days.get(day, there.get(day, 0)) + digits
            yield
            made = yield from commit_to_base(
                self.world, self.base, count, {day: (cut, digits) for day, digits in days.items()}
            )
            if made is not None:
                break
        knows_all = rules.knows_base(before, self.base_version, self.collected, self.covers)
        self.base_version = made if knows_all else UNKNOWN
        self.base_through = self.covers = self.collected = cut
        yield
        gone = [epoch for epoch in self.files if epoch <= cut]
        collected = made if knows_all else None
        needs = made if gone else UNKNOWN
        yield from self._replace(tail_version, gone, {}, needs, collected, lambda epoch: epoch <= cut)

    def _collect(self, complete: int) -> Steps:
        tail_version, self.base_version = self.tail_version, self.base.newest
        through = throughs(self.base.files[self.base_version])
        self.covers, self.collected = (
            max(through.values(), default=None),
            rules.collectable(through, complete),
        )
        if self.collected is None:
            return
        if self.collected == self.covers:
            assert self.last is not None
            self.last = replace(self.last, collected=self.base_version)
        upto = self.collected
        yield
        rows = [
            (day, file.part)
            for file in self.tail.files[tail_version].values()
            for day in file.rows
            if file.part <= upto
        ]
        if epochs := rules.covered_epochs(rows, through):
            yield from self._rewrite(sorted(epochs), tail_version, through)

    def _rewrite(self, epochs: list[int], tail_version: int, through: dict[int, int]) -> Steps:
        left: dict[int, dict[int, int]] = {}
        for file in self.tail.files[tail_version].values():
            for day, digits in file.rows.items():
                if file.part in epochs and rules.is_beyond(file.part, through.get(day)):
                    days = left.setdefault(file.part, {})
                    days[day] = days.get(day, 0) + digits
        yield
        needs = self.base_version if through else UNKNOWN
        yield from self._replace(tail_version, epochs, left, needs, None, lambda epoch: epoch in epochs)

    def _replace(
        self,
        tail_version: int,
        epochs: Iterable[int],
        rows: dict[int, Any],
        needs: int,
        collected: int | None,
        where: Any,
    ) -> Steps:
        while self.holds is not None:
            yield
        self.holds = "folder"
        touched = [
            file.part for done in self.tail.since(tail_version) for file in (*done.added, *done.removed)
        ]
        if not rules.may_replace(epochs, touched):
            self.base_version = UNKNOWN
        elif writing.may_speak(self.in_doubt) and self.last is not None:
            mark = replace(self.last.folded(self.base.id, needs, collected), token=self.world.name("token"))
            yield from self._say(Saving(self.tail, mark, False, where=where, **self._turn(mark)), rows, mark)
        self._catch_up()
        self.holds = None


def fixed_cut(engine: Engine) -> int | None:
    """The replay's cut: what was fixed when the tail was created."""
    return engine.tail.properties["replay_cut"]


def waits_without_end(commits: list[Done]) -> bool:
    """Whether the counts of a batch never come."""
    return False


def writing_turn(engine: Engine, mark: Mark) -> dict[str, Any]:
    return {"app": TAIL, "number": writing.next_turn(engine.fence)}


def dies_in_doubt() -> bool:
    return True


def commit_to_base(world: World, base: Table, count: int, days: dict[int, Any]) -> Any:
    """Conditional on what was read: None when another writer came first."""
    where = (lambda day: day in days) if days else None
    saving = Saving(base, "base", True, BASE, writing.next_turn(count), where)
    yield
    try:
        return world.save(saving, days)
    except Conflict:
        return None


def rows_of(commit: Done) -> list[tuple[int, int, int]]:
    """(epoch, day, digit) of the rows that were not in the log before."""
    if not commit.data_change:
        return []
    return [(epoch, file.part, digit) for file in commit.added for epoch, digit in file.rows]


def has_its_base(version: Version) -> bool:
    """Whether the base has what left the tail."""
    base, mark = version.base, word(version.tail) if version.tail is not None else None
    return belongs(mark, base.id if base else None, base.newest if base else None)


def word(tail: Table) -> Mark | None:
    """What a stream said last."""
    return writing.newest_word(tail.said_back(Mark), tail.note, tail.counts[-1].get(TAIL, 0))


def keep_word(tail: Table) -> None:
    """Before others commit to a tail: its own commits are cleaned up one day."""
    if (last := word(tail)) is not None:
        tail.note = replace(last, turn=tail.counts[-1].get(TAIL, 0))


def recover(world: World, version: Version) -> None:
    """`braid recover VIEW --yes`: a new checkpoint that begins where the tail ends."""
    if version.tail is None:
        return
    last = word(version.tail)
    if last is not None and last.position.is_between_commits:
        version.replaces = last.query
        version.checkpoint = None


__all__ = ["Engine", "Failed", "create", "recover"]
