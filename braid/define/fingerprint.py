"""Identifies what a view computes: the fingerprint changes exactly when its results can."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from braid.define.expressions import identifiers, normalize

if TYPE_CHECKING:
    from braid.define.lookup import Lookup
    from braid.define.view import View

# Raised when a change of Braid's own code changes the results of an unchanged definition.
_ALGORITHM = 1
_LENGTH = 12


def fingerprint(view: "View") -> str:
    """What the answers depend on: not the names of view and file, nor comments, order, or what is not used."""
    measures = {name: measure.spec() for name, measure in view.measures.items()}
    return digest(_events(view) | {"window": view.window.spec(), "measures": measures})


def state_fingerprint(view: "View") -> str:
    """What the stored tables depend on: views that differ only in presentation share it."""
    states = sorted({_canonical(measure.state_spec()) for measure in view.measures.values()})
    return digest(_events(view) | {"window": view.window.state_spec(), "measures": states})


def used_columns(view: "View") -> tuple[str, ...]:
    """The source's columns that the view reads, through whatever is derived from them."""
    needed = _needed(view)
    return tuple(
        name for name in view.source.columns if name.lower() in needed or name == view.source.event_time
    )


def used_derive(view: "View") -> dict[str, str]:
    """The derived columns that reach a key, a measure or the filter, in the order of definition."""
    needed = _needed(view)
    return {name: sql for name, sql in view.derive.items() if name.lower() in needed}


def used_lookups(view: "View") -> "tuple[Lookup, ...]":
    """The lookups of which a column is used: a left join on unique keys changes nothing else."""
    needed = _needed(view)
    return tuple(lookup for lookup in view.enrich if _lowered(lookup.added.values()) & needed)


def _needed(view: "View") -> set[str]:
    """Names of columns, in lower case as SQL compares them, from the results back to the source."""
    names = [*view.keys, *(column for measure in view.measures.values() for column in measure.columns)]
    # An array is needed whether its elements are used or not: it says how often an event counts.
    sqls = [*view.each.values(), *filter(None, [view.where])]
    needed = _lowered([*names, *(name for sql in sqls for name in identifiers(sql))])
    for name, sql in reversed(list(view.derive.items())):
        if name.lower() in needed:
            needed |= _lowered(identifiers(sql))
    for lookup in reversed(view.enrich):
        if _lowered(lookup.added.values()) & needed:
            needed |= _lowered(lookup.keys)
    return needed


def _events(view: "View") -> dict[str, Any]:
    """The part of the identity that says which events are measured, and as what."""
    source, needed = view.source, _needed(view)
    # Only where there is one: views that were deployed before there was such a field keep their fingerprints.
    each = {"each": {name: normalize(sql) for name, sql in view.each.items()}} if view.each else {}
    return each | {
        "algorithm": _ALGORITHM,
        "source": source.name,
        "event_time": source.event_time,
        "timezone": source.timezone,
        "types": {name: source.columns[name] for name in used_columns(view)},
        "where": normalize(view.where) if view.where else None,
        "derive": {name: normalize(sql) for name, sql in used_derive(view).items()},
        "enrich": sorted((_lookup(lookup, needed) for lookup in used_lookups(view)), key=_canonical),
        "keys": sorted(view.keys),
    }


def _lookup(lookup: "Lookup", needed: set[str]) -> dict[str, Any]:
    return {
        "table": fingerprint(lookup.view) if lookup.view else lookup.location,
        "kind": lookup.kind,
        "on": sorted(lookup.keys),
        "columns": {name: column for column, name in lookup.added.items() if name.lower() in needed},
    }


def _lowered(names: Iterable[str]) -> set[str]:
    return {name.lower() for name in names}


def _canonical(value: Mapping[str, Any]) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)


def digest(value: Mapping[str, Any]) -> str:
    """A short name for a value, the same for equal ones."""
    return hashlib.sha256(_canonical(value).encode()).hexdigest()[:_LENGTH]
