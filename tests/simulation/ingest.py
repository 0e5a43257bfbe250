"""The process that appends records to the log, and the command that lets it go on when its checkpoint is lost."""

from dataclasses import replace

from braid import writing
from braid.tables.commits import Commit
from braid.writing import Batch
from tests.simulation.store import Failed, Saving, Table
from tests.simulation.world import LENGTH, LOG_RETENTION, Checkpoint, Refused, Steps, Takeover, World

LOG = "braid-log"


class Ingest:
    """One run of it. It may be killed wherever it yields."""

    def __init__(self, world: World) -> None:
        self.world, self.stopping, self.last = world, False, None
        self.steps: Steps = self._run()

    def _run(self) -> Steps:
        world = self.world
        if world.log is None:
            world.log = Table(world.name("log"), LOG_RETENTION)
        self.log = world.log
        self.last, self.at, self.fence = word(world), world.elapsed, turns(self.log)
        self._refuse_lost_checkpoint()
        if world.checkpoint is None:
            start = world.replaces.end if world.replaces else 0
            world.checkpoint = Checkpoint(world.name("query"), start)
        checkpoint = world.checkpoint
        self.query = checkpoint.query
        if self.last is not None and self.log.said_back(Commit) is None:
            # What was kept while nobody wrote is in a commit again, before it is kept no more.
            yield from self._say(replace(self.last, turn=None), range(0))
        self.log.note = None
        while not self.stopping:
            yield
            number = checkpoint.finished
            if number == len(checkpoint.plans):
                end = checkpoint.plans[-1] if checkpoint.plans else checkpoint.start
                if len(world.records) == end:
                    yield from self._beat()
                    continue
                checkpoint.plans.append(min(len(world.records), end + 3))
                yield
            yield from self._batch(checkpoint, number)
            if checkpoint.finished > number:
                raise Refused("another query has finished this batch")
            checkpoint.finished = number + 1
        if (last := self.last) is not None:
            epoch = writing.closing_epoch(last.epoch, last.beat, LENGTH)
            if epoch is not None:
                yield from self._write(epoch, last.batch, range(0), beat=True)
            if not world.strict:
                world.all_is_closed(self.last.epoch)
            self.log.note = replace(self.last, turn=self.fence)

    def _batch(self, checkpoint: Checkpoint, number: int) -> Steps:
        before = checkpoint.plans[number - 1] if number else checkpoint.start
        end, last, world = checkpoint.plans[number], self.last, self.world
        there = Batch(last.query, last.batch, last.end["0"]) if last is not None else None
        replaces = world.replaces.query if world.replaces else None
        decision = writing.decide(there, Batch(checkpoint.query, number, end), replaces)
        if decision in ("stranger", "older"):
            raise Refused(decision)
        if decision == "write":
            if last is not None and last.query == checkpoint.query:
                ends = dict(enumerate(checkpoint.plans[:number]))
                if writing.is_older_table(last.batch, number, ends):
                    raise Refused("the log is older than its checkpoint")
            epoch = writing.next_epoch(last.epoch if last is not None else None, world.clock)
            yield from self._write(epoch, number, range(before, end))

    def _beat(self) -> Steps:
        if (last := self.last) is not None:
            waited = self.world.elapsed - self.at
            epoch = writing.beat_due(last.epoch, self.world.clock, last.beat, waited, LENGTH)
            if epoch is not None:
                yield from self._write(epoch, last.batch, range(0), beat=True)

    def _write(self, epoch: int, number: int, offsets: range, beat: bool = False) -> Steps:
        world = self.world
        end = self.last.end["0"] if beat and self.last is not None else offsets.stop
        yield from self._say(Commit(self.query, number, epoch, world.clock, beat, end={"0": end}), offsets)

    def _say(self, said: Commit, offsets: range) -> Steps:
        """Where two may run at once, each commit is made only if no other came since the last one of ours."""
        world = self.world
        said = replace(said, token=world.name("token"))
        turn = {"app": LOG, "number": writing.next_turn(self.fence)} if world.strict else {}
        saving = Saving(self.log, said, **turn)
        yield
        rows: dict[int, list[tuple[int, int]]] = {}
        for offset in offsets:
            day, digit = world.records[offset]
            rows.setdefault(day, []).append((said.epoch, digit))
        before = self.log.newest
        try:
            world.save(saving, rows, keep=said)
        finally:
            if self.log.newest > before:
                world.note_log(self.log, self.log.newest, said.epoch, offsets)
        newest = self.log.said_back(Commit)
        if world.strict and not writing.was_made(said.token, newest.token if newest else None):
            raise Refused("another process writes this log")
        self.last, self.at, self.fence = said, world.elapsed, saving.number

    def _refuse_lost_checkpoint(self) -> None:
        world, checkpoint = self.world, self.world.checkpoint
        query = checkpoint.query if checkpoint else None
        finished = checkpoint is not None and checkpoint.finished > 0
        if writing.is_lost(self.last is not None, bool(self.log.files[-1]), finished):
            raise Refused("the log is gone, or does not say who wrote it")
        taken = world.replaces
        if self.last is None:
            return
        if not writing.may_go_on(query, self.last.query, taken.query if taken else None, finished):
            raise Refused("the checkpoint is lost")
        if query != self.last.query and taken and not writing.may_take_over(taken.batch, self.last.batch):
            raise Refused("the log has gone on since its recovery was planned")


def word(world: World) -> Commit | None:
    """What ingest said last."""
    assert world.log is not None
    return writing.newest_word(world.log.said_back(Commit), world.log.note, turns(world.log))


def turns(log: Table) -> int:
    return log.counts[-1].get(LOG, 0)


def keep_word(world: World) -> None:
    """Before others commit to a log: what its writer said last is cleaned up one day."""
    if world.log is not None and (last := word(world)) is not None:
        world.log.note = replace(last, turn=turns(world.log))


def recover(world: World) -> None:
    """`braid recover SOURCE --yes`: a new checkpoint that begins where the log ends."""
    if world.log is None:
        return
    last = word(world)
    if last is not None:
        world.replaces = Takeover(last.query, last.end["0"], last.batch)
    world.checkpoint = None


__all__ = ["Failed", "Ingest", "recover"]
