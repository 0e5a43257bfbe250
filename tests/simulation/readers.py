"""Those who read: from the tables, pinned one after the other, and in memory, commit by commit."""

from typing import Any

from braid import cut as rules
from braid import writing
from braid.tables.tail_and_base import belongs
from tests.simulation.world import Mark, Steps, World, throughs


def read_tables(world: World) -> Steps:
    """A question: the tail is pinned, then the base."""
    version = world.versions.get(world.active)
    if version is None or version.tail is None:
        return
    tail = version.tail
    order = pin_order()
    pinned: dict[str, Any] = {}
    for name in order:
        table = tail if name == "tail" else version.base
        if version.tail is None:
            return
        pinned[name], pinned[f"{name} table"] = table.newest if table is not None else None, table
        yield
    # Looked at again: a version that was rebuilt between the two has another tail.
    if version.tail is None or not writing.is_same_table(tail.id, version.tail.id):
        return
    base, mark = pinned["base table"], tail.keeps[pinned["tail"]]
    if not belongs(mark, base.id if base is not None else None, pinned["base"]):
        return
    rows = [(file.part, file.rows) for file in tail.files[pinned["tail"]].values()]
    files = base.files[pinned["base"]].values() if base is not None else ()
    world.compare("a reader", tail, mark, rows, files)


def pin_order() -> tuple[str, str]:
    return ("tail", "base")


class Memory:
    """A view in memory: it takes the tail's commits one by one, and the base's newest version."""

    def __init__(self, world: World) -> None:
        self.world, self.number, self.served = world, -1, {}
        self.steps: Steps = self._run()

    def _run(self) -> Steps:
        while True:
            yield
            version = self.world.versions.get(self.world.active)
            if version is None or version.tail is None or version.base is None:
                self.number = -1
                continue
            if self.number != version.number or not writing.is_same_table(self.tail.id, version.tail.id):
                yield from self._open(version)
            else:
                yield from self._advance(version)
            if self.number == version.number and version.tail is not None and version.base is not None:
                self._compare()

    def _open(self, version) -> Steps:  # type: ignore[no-untyped-def]
        # Nothing is served of what is half opened.
        self.number = -1
        self.tail, self.at = version.tail, version.tail.newest
        files = self.tail.files[self.at].values()
        self.mark = self.tail.keeps[self.at]
        rows = [(file.part, day, digits) for file in files for day, digits in file.rows.items()]
        yield
        if not self._is_there(version):
            return
        self.number, self.base = version.number, version.base
        self._take_base(rows)

    def _is_there(self, version) -> bool:  # type: ignore[no-untyped-def]
        """Looked at again before the base is taken: it must belong to the tail that was read."""
        return (
            version.tail is not None
            and version.base is not None
            and writing.is_same_table(self.tail.id, version.tail.id)
            and belongs(self.mark, version.base.id, version.base.newest)
        )

    def _take_base(self, rows: list[tuple[int, int, int]]) -> None:
        self.base_files = self.base.files[-1]
        through = throughs(self.base_files)
        self.rows = [row for row in rows if rules.is_beyond(row[0], through.get(row[1]))]

    def _advance(self, version) -> Steps:  # type: ignore[no-untyped-def]
        while self.at < version.tail.newest:
            done = version.tail.commit_at(self.at + 1)
            if done is None:
                self.number = -1
                return
            self.at += 1
            if isinstance(done.said, Mark):
                self.mark = done.said
            if rules.brings_rows(
                isinstance(done.said, Mark), getattr(done.said, "fold", False), done.data_change
            ):
                self.rows += [(f.part, day, digits) for f in done.added for day, digits in f.rows.items()]
            yield
            if not self._is_there(version):
                self.number = -1
                return
        self.base = version.base
        self._take_base(self.rows)

    def _compare(self) -> None:
        tail: dict[int, dict[int, int]] = {}
        for epoch, day, digits in self.rows:
            days = tail.setdefault(epoch, {})
            days[day] = days.get(day, 0) + digits
        self.world.compare(
            "a reader in memory", self.tail, self.mark, list(tail.items()), self.base_files.values()
        )
