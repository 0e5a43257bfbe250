"""A run of the batch layer: a cut is taken, a day is computed from the log up to it, and put into the base."""

from collections.abc import Callable

from braid import cut as rules
from tests.simulation import ingest
from tests.simulation.engine import BASE, commit_to_base, create, has_its_base, refuse_another_log, word
from tests.simulation.store import Table
from tests.simulation.world import LENGTH, NotYet, Refused, Steps, World, throughs


def publish(world: World, day: int, back: int) -> Steps:
    """One day; the cut lies `back` epochs before the newest, so that 0 asks for one that is not closed."""
    log, version = world.log, world.versions.get(world.active)
    newest = ingest.word(world) if log is not None else None
    if log is None or newest is None or version is None:
        raise NotYet("nothing was ingested yet")
    cut = newest.epoch - back
    if not rules.is_closed(cut, rules.last_closed(newest.epoch, LENGTH)):
        raise NotYet("the cut is not closed")
    tables = version.tail, version.base
    present = throughs(version.base.files[-1]).get(day) if version.base else None
    cut = rules.effective(cut, present, version.tail.properties["replay_cut"] if version.tail else None)
    yield
    if version.tail is not None:
        refuse_another_log(world, version.tail, word(version.tail))
    if not has_its_base(version):
        raise Refused("the base lacks what left the tail")
    if version.tail is None:
        yield from create(world, version, cut)
    tail, base = version.tail, version.base
    if tail is None or base is None or (tables[0] is not None and tables != (tail, base)):
        raise Refused("the tables are gone")
    said = stated_cut(world, cut)
    digits = sum(digit for epoch, d, digit in rows(log) if d == day and epoch <= cut)
    while True:
        yield
        there, count = throughs(base.files[-1]).get(day), base.counts[-1].get(BASE, 0)
        if rules.effective(cut, there, tail.properties["replay_cut"]) != cut:
            return
        yield
        if (yield from commit_to_base(world, base, count, {day: (said(), digits)})) is not None:
            yield from collect(world, tail, cut)
            return


def stated_cut(world: World, cut: int) -> Callable[[], int]:
    """The cut that a day is published with: the one that it was computed up to."""
    return lambda: cut


def collect(world: World, tail: Table, cut: int) -> Steps:
    """What a run does about the rows of the tail that its day covers now: nothing, its stream collects them."""
    return
    yield


def rows(log: object) -> list[tuple[int, int, int]]:
    files = log.files[-1].values()  # type: ignore[attr-defined]
    return [(epoch, file.part, digit) for file in files for epoch, digit in file.rows]
