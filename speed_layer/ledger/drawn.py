"""What the events of a derived source were drawn from: positions of its inputs' logs, without a gap or an overlap."""

from dataclasses import asdict, dataclass
from typing import Any

from braid.define.derived.base import Derived
from braid.log.database import made_by_batch
from braid.log.derived import Derivation, DerivedPlaces
from braid.log.table import Log
from braid.tables import delta_rs
from braid.tables.commits import Position
from speed_layer.jobs.checkpoint import Checkpoint


@dataclass(frozen=True)
class Violation:
    """Something that must not be, with the range of places where it is."""

    kind: str
    partition: int
    first: int
    last: int
    says: str


def drawn_from(log: Log) -> tuple[dict[str, Any] | None, list[Violation]]:
    """Nothing for a source that comes from outside.

    Each micro-batch begins where the one before it ended, as its checkpoint has planned it; what is said of the newest
    must be what was planned, or something between was left out or read twice.
    """
    if not isinstance(log.source, Derived):
        return None, []
    places = DerivedPlaces(log)
    last = places.derivation()
    if last is None:
        return {"events": 0, "late": 0, "uncounted": 0, "added": 0, "inputs": {}}, []
    told = {
        "events": last.events, "late": last.late, "uncounted": last.uncounted + (not last.settled),
        "added": made_by_batch(log),
        "inputs": {name: asdict(at) for name, at in last.ends.items()},
    }  # fmt: skip
    return told, _broken(log, places, last)


def _broken(log: Log, places: DerivedPlaces, last: Derivation) -> list[Violation]:
    checkpoint = Checkpoint(places.checkpoint, "")
    planned = checkpoint.last_batch()
    if planned is None or checkpoint.query_id() != last.query:
        # It was lost: the next start goes on behind what is said here.
        return []
    violations = []
    if not last.batch <= planned <= last.batch + 1:
        says = f"batch {planned} is planned, and {last.batch} is the last that was drawn"
        violations.append(Violation("gap in what was read", -1, last.batch, planned, says))
    assert isinstance(log.source, Derived)
    ids = {source.name: delta_rs.table_id(Log(source, log.settings).table) for source in log.source.inputs}
    for end in checkpoint.plan(last.batch).ends if planned >= last.batch else ():
        name = next((name for name, table in ids.items() if end and table == end["reservoirId"]), None)
        at = Position(end["reservoirVersion"], end["index"], end["isStartingVersion"]) if end else None
        if name is not None and at != last.ends[name]:
            says = f"of {name}: batch {last.batch} was to end at {at}, and {last.ends[name]} is said"
            violations.append(Violation("gap in what was read", -1, last.batch, last.batch, says))
    return violations
