"""A schedule: what happens, one step after another. A seed gives one, always the same; a failing one is made short."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from braid import cut as rules
from braid.tables.commits import Commit
from tests.simulation import engine, ingest
from tests.simulation.batch import publish
from tests.simulation.engine import Engine
from tests.simulation.ingest import Ingest
from tests.simulation.readers import Memory, read_tables
from tests.simulation.store import Conflict, Failed, Saving
from tests.simulation.world import LENGTH, Mark, NotYet, Refused, Version, Violation, World, throughs

# How often each kind of step is taken: what a process does, what comes from outside, and what is lost or fails.
PROCESSES = {
    "ingest": 20,
    "follow 1": 16,
    "fold 1": 20,
    "memory": 8,
    "reader": 8,
    "batch a": 16,
    "batch b": 10,
    "follow 2": 4,
    "fold 2": 4,
    "twin follow": 5,
    "twin fold": 5,
    "twin ingest": 4,
}
OUTSIDE = {
    "event 0": 12,
    "event 1": 8,
    "event 2": 2,
    "tick": 6,
    "publish a 0 1": 3,
    "publish a 1 1": 2,
    "publish b 0 1": 3,
    "publish b 0 2": 2,
    "publish a 0 0": 1,
    "publish b 1 3": 2,
    "optimize log": 0.7,
    "optimize tail": 0.7,
}
ROUGH = {
    "stop ingest": 1,
    "stop 1": 1,
    "kill ingest": 1,
    "kill 1": 1.5,
    "kill 2": 0.4,
    "kill twin": 0.5,
    "fail before": 0.5,
    "fail after": 1,
    "maintain log": 0.7,
    "maintain tail": 0.7,
    "idle nights": 0.4,
    "jump forward": 0.5,
    "jump back": 0.8,
    "replay": 0.5,
    "promote": 0.8,
    "rollback": 0.4,
    "retire": 0.3,
}
LOSSES = {
    "lose checkpoint": 0.3,
    "lose ingest": 0.3,
    "recover view": 0.8,
    "recover source": 0.8,
    "lose tail": 0.6,
    "rebuild": 0.4,
    "lose log": 0.15,
    "old checkpoint": 0.3,
    "lose base": 0.3,
    "old base": 0.3,
    "old log": 0.3,
    "old both": 0.3,
}
# Where two engines may run at once, they come and go.
TWINS = {"twin follow": 16, "stop 1": 2, "kill twin": 2, "idle nights": 3}
# So many steps of a process in a row, mostly.
IN_A_ROW = (1, 1, 2, 3, 6)


@dataclass(frozen=True)
class Schedule:
    """The mode of the view, whether two engines may run at once, and the steps."""

    mode: str
    strict: bool
    steps: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.mode}{', two engines' if self.strict else ''}: {'; '.join(self.steps)}"


def of_seed(seed: int, length: int = 400) -> Schedule:
    """Each has its own habits, some steps often and some hardly: one with all alike comes to few far corners."""
    chance = random.Random(seed)
    mode, strict = chance.choice(("lambda", "lambda", "kappa")), chance.random() < 0.2
    kinds = PROCESSES | OUTSIDE
    if chance.random() < 0.6:
        kinds = kinds | ROUGH | (LOSSES if chance.random() < 0.5 else {})
    if strict:
        kinds = kinds | TWINS
    habits = [weight * chance.choice((0.1, 1, 1, 3)) for weight in kinds.values()]
    steps: list[str] = []
    for step in chance.choices(list(kinds), habits, k=length):
        steps += [step] * (chance.choice(IN_A_ROW) if step in PROCESSES else 1)
        if len(steps) >= length:
            break
    return Schedule(mode, strict, tuple(steps[:length]))


@dataclass
class Run:
    """One run of a schedule. A step that is not possible is left out."""

    schedule: Schedule
    world: World = field(init=False)

    def __post_init__(self) -> None:
        self.world = World(self.schedule.mode, self.schedule.strict)
        self.ingest: Ingest | None = None
        self.twin: Ingest | None = None
        self.engines: dict[str, Engine] = {}
        self.batches: dict[str, Any] = {}
        self.reader: Any = None
        self.memory = Memory(self.world)

    def violation(self) -> str | None:
        """What went wrong, and None for a schedule that shows nothing."""
        try:
            for step in self.schedule.steps:
                self.step(step)
            self.settle()
        except Violation as found:
            return str(found)
        return None

    def step(self, step: str) -> None:
        word, *rest = step.split(" ")
        getattr(self, f"do_{word}")(*rest)
        self.world.steps += 1
        self.world.check()

    # -- what comes from outside

    def do_event(self, day: str) -> None:
        self.world.arrive(int(day))

    def do_tick(self) -> None:
        self.world.clock += 1
        self.world.elapsed += 1

    def do_jump(self, way: str) -> None:
        self.world.clock += 20 if way == "forward" else -7

    def do_fail(self, when: str) -> None:
        self.world.fate = when

    def do_maintain(self, which: str) -> None:
        """VACUUM: two commits without a word of ours."""
        for table in self._tables(which):
            for _ in range(2):
                Saving(table, None).commit({}, self.world.elapsed)

    def do_idle(self, _: str) -> None:
        """Nights in which nothing comes, and the tables are maintained: Delta cleans their commits up."""
        for _ in range(6):
            self.world.elapsed += 3
            self.world.clock += 3
            self._keep_words()
            self.do_maintain("log")
            self.do_maintain("tail")

    def _keep_words(self) -> None:
        """Before others commit to a table whose writer does not run."""
        world = self.world
        if self.ingest is None or world.strict:
            ingest.keep_word(world)
        driven = {one.version.number for one in self.engines.values()}
        for version in world.versions.values():
            # Where no lock says whether it is driven, commits take turns.
            if version.tail is not None and (version.number not in driven or world.strict):
                engine.keep_word(version.tail)

    def do_optimize(self, which: str) -> None:
        for table in self._tables(which):
            parts: dict[int, Any] = {}
            for file in table.files[-1].values():
                parts[file.part] = merged(parts.get(file.part), file.rows)
            Saving(table, None, False, where=lambda _: True).commit(parts, self.world.elapsed)

    def _tables(self, which: str) -> list[Any]:
        world = self.world
        found = [world.log] if which == "log" else [v.tail for v in world.versions.values()]
        return [table for table in found if table is not None]

    def do_lose(self, what: str) -> None:
        """Something on the disk is gone, with the processes that used it: a partial restore."""
        world, version = self.world, self.world.versions[self.world.active]
        world.disturbed = True
        if what in ("ingest", "log"):
            self.ingest = self.twin = world.checkpoint = None
        if what == "log":
            # Streams go on, and meet what takes its place.
            self.batches.clear()
            world.log = world.replaces = None
            return
        if what in ("checkpoint", "tail"):
            self._end(version.number)
            version.checkpoint = None
        if what == "tail":
            self._stop_readers()
            version.tail = None
        if what == "base":
            self._without_base(version)

    def _without_base(self, version: Version) -> None:
        self._end(version.number)
        self._stop_readers()
        version.base = None

    def do_old(self, what: str) -> None:
        """Something is restored from a backup, and is older than what it belongs to: `both` are ingest's tables."""
        version = self.world.versions[self.world.active]
        if what in ("log", "both"):
            self._restore_log(with_checkpoint=what == "both")
        if what == "base" and version.base is not None and version.base.newest > 1:
            old = version.base.as_of(version.base.newest - 1)
            self.world.disturbed = True
            self._without_base(version)
            version.base = old
        checkpoint = self.world.checkpoint if what == "checkpoint" else None
        if checkpoint is not None and checkpoint.finished > 2:
            self.ingest = self.twin = None
            self.world.disturbed = True
            checkpoint.finished -= 2
            del checkpoint.plans[checkpoint.finished :]

    def _restore_log(self, with_checkpoint: bool) -> None:
        """As it was some commits ago; streams go on. What is read of it again gets other commits and epochs.

        Its commits stay: a stream that starts when they are cleaned up cannot tell any more. Left out are logs that
        lack what a base covers although its tail has not read it, and streams that are in the middle of something: of
        a start, of history, or of a commit.
        """
        world, log = self.world, self.world.log
        if any(one.holds is not None or not one.started for one in self.engines.values()):
            return
        if log is None or log.newest < 4 or log.commit_at(log.newest - 3) is None:
            return
        old = log.as_of(log.newest - 3)
        old.retention = 10**9
        said, behind = old.said_back(Commit), []
        if said is None:
            return
        for version in world.versions.values():
            tail, base = version.tail, version.base
            if tail is None or tail.properties["life"] != log.life:
                continue
            mark = engine.word(tail)
            if mark is None or not mark.position.is_between_commits:
                return
            if mark.position.version <= old.newest + 1:
                behind.append(tail)
                covered = throughs(base.files[-1]).values() if base is not None else ()
                if any(through > rules.last_closed(said.epoch, LENGTH) for through in covered):
                    return
        self.ingest = self.twin = None
        self.batches.clear()
        world.disturbed, world.log = True, old
        world.rows[old.life] = [row for row in world.rows.get(log.life, ()) if row[0] <= old.newest]
        for tail in behind:
            # What they have read is in both.
            tail.properties["life"] = old.life
        checkpoint = world.checkpoint
        if with_checkpoint and checkpoint is not None and checkpoint.query == said.query:
            checkpoint.finished = min(checkpoint.finished, said.batch + 1)
            del checkpoint.plans[checkpoint.finished :]

    def do_rebuild(self) -> None:
        """As the documents say: all that a version has is removed, and its stream begins anew."""
        version = self.world.versions[self.world.active]
        self._end(version.number)
        self.batches.clear()
        self.reader = None
        version.tail = version.base = version.checkpoint = version.replaces = None

    def _stop_readers(self) -> None:
        self.reader, self.memory = None, Memory(self.world)
        self.batches.clear()

    def _end(self, number: int) -> None:
        for name in [name for name, one in self.engines.items() if one.version.number == number]:
            del self.engines[name]

    # -- commands of people

    def do_recover(self, what: str) -> None:
        # Where no lock keeps them apart, a recovery meets an ingest that is at work.
        if what == "source" and (self.world.strict or self.ingest is None):
            ingest.recover(self.world)
        version = self.world.versions[self.world.active]
        if what == "view" and not any(one.version is version for one in self.engines.values()):
            engine.recover(self.world, version)

    def do_replay(self) -> None:
        number = max(self.world.versions) + 1
        if len(self.world.versions) == 1:
            self.world.versions[number] = Version(number, self.world.mode)

    def do_promote(self) -> None:
        """Whoever has read its history may be served."""
        world = self.world
        for number, version in world.versions.items():
            if number != world.active and version.tail is not None and version.base is not None:
                mark = version.tail.said_back(Mark)
                if mark is not None and not mark.position.starting:
                    world.previous, world.active = world.active, number
                    return

    def do_rollback(self) -> None:
        world = self.world
        if world.previous is not None:
            world.active, world.previous = world.previous, None

    def do_retire(self) -> None:
        world = self.world
        for number in [number for number in world.versions if number != world.active]:
            # Engines are named by the place of their version among all.
            self.engines.clear()
            del world.versions[number]
            world.previous = None

    # -- processes

    def do_ingest(self) -> None:
        if self.ingest is None:
            self.ingest = Ingest(self.world)
        self.ingest = self.ingest if self._alive(self.ingest.steps) else None

    def do_stop(self, what: str) -> None:
        if what != "ingest":
            if what in self.engines and self.engines[what].holds is None:
                self.engines.pop(what).rest()
        elif self.ingest is not None:
            self.ingest.stopping = True

    def do_kill(self, what: str) -> None:
        if what == "ingest":
            self.ingest = None
        elif what == "twin":
            self.twin = None
            self.engines.pop(what, None)
        else:
            self.engines.pop(what, None)

    def do_follow(self, number: str) -> None:
        self._engine(number, "follower", self._version(number))

    def do_fold(self, number: str) -> None:
        self._engine(number, "folder", self._version(number))

    def do_twin(self, thread: str) -> None:
        """A second engine of the version that is served, where nothing keeps it from being started."""
        if self.world.strict and thread == "ingest":
            self.twin = self.twin or Ingest(self.world)
            self.twin = self.twin if self._alive(self.twin.steps) else None
        elif self.world.strict:
            name = "follower" if thread == "follow" else "folder"
            self._engine("twin", name, self.world.versions[self.world.active])

    def _version(self, number: str) -> Version | None:
        """The first or the second of the versions that there are."""
        there = sorted(self.world.versions)
        return self.world.versions[there[int(number) - 1]] if int(number) <= len(there) else None

    def _engine(self, name: str, thread: str, version: Version | None) -> None:
        if version is None:
            return
        one = self.engines.get(name)
        if one is None or one.version is not version:
            twins = (other.version is version for other in self.engines.values())
            if thread == "folder" or (any(twins) and not self.world.strict):
                return
            one = self.engines[name] = Engine(self.world, version)
        if not self._alive(getattr(one, thread)):
            self.engines.pop(name, None)

    def do_publish(self, slot: str, day: str, back: str) -> None:
        if slot not in self.batches:
            self.batches[slot] = publish(self.world, int(day), int(back))

    def do_batch(self, slot: str) -> None:
        if slot in self.batches and not self._alive(self.batches[slot]):
            del self.batches[slot]

    def do_reader(self) -> None:
        if self.reader is None:
            self.reader = read_tables(self.world)
        self.reader = self.reader if self._alive(self.reader) else None

    def do_memory(self) -> None:
        if not self._alive(self.memory.steps):
            self.memory = Memory(self.world)

    def _alive(self, steps: Any) -> bool:
        try:
            next(steps)
        except (StopIteration, Failed, Conflict, NotYet):
            return False
        except Refused:
            self.world.disturbed = True
            return False
        return True

    def settle(self) -> None:
        """Nothing fails any more: all that came must be served, and its epoch must close."""
        world = self.world
        if world.disturbed or world.strict or not world.records:
            return
        world.fate = None
        for _ in range(4):
            for _ in range(12 + 2 * len(world.records)):
                for step in ("ingest", "follow 1", "fold 1", "follow 2", "fold 2", "memory", "reader"):
                    self.step(step)
            self.step("tick")
        if world.disturbed:
            return
        version = world.versions[world.active]
        mark = version.tail.said_back(Mark) if version.tail is not None else None
        if mark is None or mark.position.starting or world.log is None:
            raise Violation("nothing is served although nothing fails any more")
        rows = world.rows.get(world.log.life, [])
        if len(rows) < len(world.records) or mark.position.version <= rows[-1][0]:
            raise Violation("an event is not served although nothing fails any more")
        if mark.complete < max(row[1] for row in rows):
            raise Violation("the epoch of an event never closes")


def merged(known: Any, rows: Any) -> Any:
    if known is None:
        return rows
    if isinstance(rows, list):
        return known + rows
    return {day: known.get(day, 0) + rows.get(day, 0) for day in known.keys() | rows.keys()}


def shortest(schedule: Schedule, fails: Callable[[Schedule], bool]) -> Schedule:
    """The same failure with as few steps as dropping them can reach: of halves, of quarters, at last of single ones."""
    steps: tuple[str, ...] = schedule.steps
    size = len(steps) // 2
    while size:
        at, before = 0, len(steps)
        while at < len(steps):
            fewer = (*steps[:at], *steps[at + size :])
            if fails(replace(schedule, steps=fewer)):
                steps = fewer
            else:
                at += size
        # What could not go alone may go once others have gone.
        size = size if size == 1 and len(steps) < before else size // 2
    return replace(schedule, steps=steps)
