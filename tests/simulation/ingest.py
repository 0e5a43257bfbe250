"""The process that appends records to the log, and the command that lets it go on when its checkpoint is lost."""

from braid import writing
from braid.tables.commits import Commit
from braid.writing import Batch
from tests.simulation.store import Failed, Saving, Table
from tests.simulation.world import LENGTH, LOG_RETENTION, Checkpoint, Refused, Steps, World


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
        self.last, self.at = word(world), world.elapsed
        self._refuse_lost_checkpoint()
        if world.checkpoint is None:
            start = world.replaces[1] if world.replaces else 0
            world.checkpoint = Checkpoint(world.name("query"), start)
        checkpoint = world.checkpoint
        if self.last is not None and self.log.said_back(Commit) is None:
            # What was kept while nobody wrote is in a commit again, before it is kept no more.
            saving = Saving(self.log, self.last)
            yield
            world.save(saving, {}, keep=self.last)
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
            checkpoint.finished = number + 1
        if (last := self.last) is not None:
            epoch = writing.closing_epoch(last.epoch, last.beat, LENGTH)
            if epoch is not None:
                yield from self._write(epoch, last.batch, range(0), beat=True)
            world.all_is_closed(self.last.epoch)
            self.log.note = self.last

    def _batch(self, checkpoint: Checkpoint, number: int) -> Steps:
        before = checkpoint.plans[number - 1] if number else checkpoint.start
        end, last, world = checkpoint.plans[number], self.last, self.world
        there = Batch(last.query, last.batch, last.end["0"]) if last is not None else None
        replaces = world.replaces[0] if world.replaces else None
        decision = writing.decide(there, Batch(checkpoint.query, number, end), replaces)
        if decision in ("stranger", "older"):
            raise Refused(decision)
        if decision == "write":
            epoch = writing.next_epoch(last.epoch if last is not None else None, world.clock)
            yield from self._write(epoch, number, range(before, end))

    def _beat(self) -> Steps:
        if (last := self.last) is not None:
            waited = self.world.elapsed - self.at
            epoch = writing.beat_due(last.epoch, self.world.clock, last.beat, waited, LENGTH)
            if epoch is not None:
                yield from self._write(epoch, last.batch, range(0), beat=True)

    def _write(self, epoch: int, number: int, offsets: range, beat: bool = False) -> Steps:
        world, checkpoint = self.world, self.world.checkpoint
        assert checkpoint is not None
        end = self.last.end["0"] if beat and self.last is not None else offsets.stop
        said = Commit(checkpoint.query, number, epoch, world.clock, beat, end={"0": end})
        saving = Saving(self.log, said)
        yield
        rows: dict[int, list[tuple[int, int]]] = {}
        for offset in offsets:
            day, digit = world.records[offset]
            rows.setdefault(day, []).append((epoch, digit))
        before = self.log.newest
        try:
            world.save(saving, rows, keep=said)
        finally:
            if self.log.newest > before:
                world.note_log(self.log.newest, epoch, offsets)
        self.last, self.at = said, world.elapsed

    def _refuse_lost_checkpoint(self) -> None:
        world, checkpoint = self.world, self.world.checkpoint
        query = checkpoint.query if checkpoint else None
        finished = checkpoint is not None and checkpoint.finished > 0
        if writing.is_lost(self.last is not None, bool(self.log.files[-1]), finished):
            raise Refused("the log is gone, or does not say who wrote it")
        if self.last is not None and self.last.query not in (
            query,
            world.replaces[0] if world.replaces else None,
        ):
            raise Refused("the checkpoint is lost")


def word(world: World) -> Commit | None:
    """What ingest said last."""
    assert world.log is not None
    return writing.newest_word(world.log.said_back(Commit), world.log.note, 0)


def recover(world: World) -> None:
    """`braid recover SOURCE --yes`: a new checkpoint that begins where the log ends."""
    if world.log is None:
        return
    last = word(world)
    if last is not None:
        world.replaces = (last.query, last.end["0"])
    world.checkpoint = None


__all__ = ["Failed", "Ingest", "recover"]
