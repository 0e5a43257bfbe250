"""A view: the definition of numbers over a source, as a value that every layer computes from."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import Any, Literal

from braid.define.durations import format_duration, parse_duration
from braid.define.expectations import OUTPUT_DEFAULT, OutputExpectation, require_output
from braid.define.expressions import identifiers, require_expression, require_known, require_per_event
from braid.define.lookup import Lookup
from braid.define.names import FrozenMap, require_identifier, require_mapping, set_field, suggest
from braid.define.schema import FLOATS, is_atomic
from braid.define.sinks import Sink, require_sinks
from braid.define.source import Source
from braid.define.windows import Window, all_time
from braid.errors import DefinitionError
from braid.measures import Measure, count, refuse

MODES = ("lambda", "kappa")
# The tables and the answers of every view have columns with these names.
RESERVED = ("day", "pane", "epoch", "through", "window_start", "window_end", "first", "last")

_EVENTS = count().state_name


@dataclass(frozen=True, kw_only=True)
class View:
    """Events of `source`, enriched, derived, repeated, filtered, grouped by `keys` and `window`, and measured."""

    name: str
    source: Source
    measures: Mapping[str, Measure]
    keys: tuple[str, ...] = ()
    window: Window = field(default_factory=all_time)
    where: str | None = None
    derive: Mapping[str, str] = field(default_factory=FrozenMap)
    enrich: tuple[Lookup, ...] = ()
    # Name -> SQL of an array: the event is measured once for each element, which has that name.
    each: Mapping[str, str] = field(default_factory=FrozenMap)
    mode: Literal["lambda", "kappa"] = "lambda"
    lateness: str = "10 minutes"
    # Policy, and no part of what the view is: not compared, not stored with what is deployed.
    expect: tuple[OutputExpectation, ...] = field(default=OUTPUT_DEFAULT, compare=False)
    # Measure -> the largest relative error that `braid compare` allows.
    accuracy: Mapping[str, float] = field(default_factory=FrozenMap, compare=False)
    # Where the numbers go by themselves: it changes none of them.
    sinks: tuple[Sink, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        require_identifier(self.name, "view")
        self._normalise()
        self._check_parts()
        self._check_enrich()
        self._check_derive()
        self._check_each()
        if self.where is not None:
            what = self._what("where")
            require_known(require_expression(self.where, what), self.columns, what)
            require_per_event(self.where, what)
        self._check_keys()
        self._check_measures()
        set_field(self, "expect", require_output(self.expect, self.keys, self.measures, self._what("expect")))
        self._check_accuracy()
        set_field(self, "sinks", require_sinks(self.sinks, self._what("sinks"), self.window))

    @property
    def patience(self) -> timedelta:
        """How long after a window's end the view waits before it calls the window final."""
        return parse_duration(self.lateness)

    @cached_property
    def columns(self) -> Mapping[str, str | None]:
        """Every column that an event has here -> its type; None where only Spark knows it (`braid check`)."""
        found: dict[str, str | None] = dict(self.source.columns)
        for lookup in self.enrich:
            found |= dict.fromkeys(lookup.added.values())
        return FrozenMap(found | dict.fromkeys((*self.derive, *self.each)))

    def _normalise(self) -> None:
        """One way to hold what can be written in several."""
        keys: Any = self.keys
        keys = (keys,) if isinstance(keys, str) else keys
        if not isinstance(keys, (tuple, list)) or not all(isinstance(key, str) for key in keys):
            raise self._error(f"keys is {self.keys!r}: write a tuple of columns, such as ('url',).")
        set_field(self, "keys", tuple(keys))
        lookups: Any = self.enrich
        lookups = (lookups,) if isinstance(lookups, Lookup) else lookups
        if not isinstance(lookups, (tuple, list)) or not all(
            isinstance(lookup, Lookup) for lookup in lookups
        ):
            raise self._error(f"enrich is {self.enrich!r}: write a Lookup(...), or a tuple of them.")
        set_field(self, "enrich", tuple(lookups))
        try:
            set_field(self, "lateness", format_duration(parse_duration(self.lateness)))
        except DefinitionError as error:
            raise self._error(f"lateness: {error}") from None
        for name, example in (
            ("measures", "{'hits': count()}"), ("derive", "{'path': 'lower(url)'}"), ("each", "{'tag': 'tags'}"),
        ):  # fmt: skip
            set_field(self, name, FrozenMap(require_mapping(getattr(self, name), self._what(name), example)))

    def _check_parts(self) -> None:
        if not isinstance(self.source, Source):
            raise self._error(
                f"source is {self.source!r}: give it the Source itself, such as source=requests."
            )
        if not isinstance(self.window, Window):
            raise self._error(
                f"window is {self.window!r}: write tumbling('1 minute'), sliding('5 minutes', every='1 minute'), "
                "session(gap='30 minutes') or all_time()."
            )
        if self.mode not in MODES:
            raise self._error(f"mode {self.mode!r} is not known. {suggest(str(self.mode), MODES, 'modes')}")

    def _check_enrich(self) -> None:
        known = dict.fromkeys(self.source.columns, "the source has")
        for lookup in self.enrich:
            for key in lookup.keys:
                self._require_column(key, known, f"{lookup.label}: on")
                self._require_comparable(key, f"{lookup.label}: on")
            for name in lookup.added.values():
                fix = "rename it with columns={'column': 'new_name'}"
                self._require_new(name, known, f"{lookup.label}: column", fix)
                known[name] = f"{lookup.label} adds"

    def _check_derive(self) -> None:
        known = dict.fromkeys(self.source.columns, "the source has")
        for lookup in self.enrich:
            known |= dict.fromkeys(lookup.added.values(), f"{lookup.label} adds")
        later = list(self.derive)
        for name, sql in self.derive.items():
            what = self._what(f"derive {name!r}")
            self._require_new(name, known, "derived column", "choose another name")
            require_expression(sql, what)
            for early in identifiers(sql):
                if early in self.each and "->" not in sql:
                    raise DefinitionError(
                        f"{what} is {sql!r}: {early!r} is not there yet: what is derived comes before each; compute "
                        f"it there, as in each={{{early!r}: 'transform({self.each[early]}, x -> ...)'}}."
                    )
                if early in later:
                    raise DefinitionError(
                        f"{what} is {sql!r}: {early!r} is not there yet: columns are derived in order; move it before."
                    )
            require_known(sql, known, what)
            require_per_event(sql, what)
            known[name] = "is derived as"
            later.remove(name)

    def _check_each(self) -> None:
        if len(self.each) > 1:
            raise self._error(
                f"each has {len(self.each)} arrays, {', '.join(map(repr, self.each))}: an event is repeated for the "
                "elements of one. Combine them, as in each={'pair': 'arrays_zip(a, b)'}."
            )
        looked_up = (name for lookup in self.enrich for name in lookup.added.values())
        known = dict.fromkeys((*self.source.columns, *looked_up, *self.derive), "the event has")
        for name, sql in self.each.items():
            what = self._what(f"each {name!r}")
            self._require_new(name, known, "each", "choose another name")
            require_known(require_expression(sql, what), known, what)
            require_per_event(sql, what)

    def _check_keys(self) -> None:
        for key in self.keys:
            self._require_column(key, self.columns, "key")
            self._require_free(
                key, "key", f"derive a column with another name, derive={{'my_{key}': ...}}, and use it"
            )
            self._require_comparable(key, "key")
            if key.lower() == _EVENTS:
                raise self._error(
                    f"key {key!r} is the name of a column that every view's tables have: derive a column with "
                    f"another name, derive={{'my_{key}': ...}}, and use it."
                )
            if self.keys.count(key) > 1:
                raise self._error(f"key {key!r} is there twice in {self.keys!r}: remove one.")

    def _check_measures(self) -> None:
        if not self.measures:
            raise self._error("measures is empty: name at least one, such as measures={'hits': count()}.")
        taken = dict.fromkeys(self.keys, "a key is called")
        for name, measure in self.measures.items():
            self._require_new(name, taken, "measure", "rename the measure")
            taken[name] = "another measure is called"
            self._check_measure(name, measure)

    def _check_accuracy(self) -> None:
        allowed: Mapping[str, Any] = require_mapping(self.accuracy, self._what("accuracy"), "{'hits': 0}")
        for name, most in allowed.items():
            if name not in self.measures:
                raise self._error(
                    f"accuracy: {name!r} is not a measure. {suggest(name, self.measures, 'measures')}"
                )
            if isinstance(most, bool) or not isinstance(most, int | float) or not most >= 0:
                raise self._error(
                    f"accuracy: {name!r} is {most!r}: give the largest relative error that is allowed, 0 for none or "
                    "0.01 for 1 %."
                )
        set_field(self, "accuracy", FrozenMap({name: float(most) for name, most in allowed.items()}))

    def _check_measure(self, name: str, measure: Any) -> None:
        try:
            if not isinstance(measure, Measure):
                refuse(measure)
            measure.validate({column: known for column, known in self.columns.items() if known is not None})
        except DefinitionError as error:
            raise self._error(f"measure {name!r}: {error}") from None
        for column in measure.columns:
            self._require_column(column, self.columns, f"measure {name!r}: column")
        if measure.state_name.lower() in (key.lower() for key in self.keys):
            raise self._error(
                f"measure {name!r} is stored in a column {measure.state_name!r}, and a key has that name: derive a "
                f"column with another name and use that as the key: derive={{'my_{measure.state_name}': ...}}."
            )

    def _require_column(self, name: str, known: Iterable[str], what: str) -> None:
        names = list(known)
        if name not in names:
            raise self._error(f"{what} {name!r} is not a column. {suggest(name, names, 'columns')}")

    def _require_comparable(self, name: str, what: str) -> None:
        if problem := not_comparable(name, self.columns.get(name)):
            raise self._error(f"{what} {problem}")

    def _require_new(self, name: str, taken: Mapping[str, str], what: str, fix: str) -> None:
        """A name that this view introduces: well-formed, not reserved, and not there already."""
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise self._error(
                f"{what} {name!r} is not a good name: use letters, digits and '_', as in 'p95'."
            )
        self._require_free(name, what, fix)
        for other, reason in taken.items():
            if other.lower() == name.lower():
                raise self._error(f"{what} {name!r} collides with what {reason} {other!r}: {fix}.")

    def _require_free(self, name: str, what: str, fix: str) -> None:
        if name.startswith("_") or name.lower() in RESERVED:
            raise self._error(
                f"{what} {name!r} is reserved ({', '.join(RESERVED)}, and what starts with '_'): {fix}."
            )

    def _what(self, part: str) -> str:
        return f"view {self.name!r}: {part}"

    def _error(self, text: str) -> DefinitionError:
        return DefinitionError(self._what(text))


def not_comparable(name: str, type_name: str | None) -> str | None:
    """Why a column cannot be a key, with the fix; None when it can, or when its type is not known here."""
    if type_name is None:
        return None
    if type_name in FLOATS:
        # Batch, stream and serving would have to agree on NaN, -0.0 and the last bit of a computed number.
        return (
            f"{name!r} is of type {type_name}, and two floating-point numbers are seldom equal: derive a column "
            f"that can be compared, such as 'cast({name} as decimal(18,2))', and use that."
        )
    if type_name == "binary":
        return (
            f"{name!r} is of type binary, which an answer cannot show: derive a column such as 'hex({name})'."
        )
    if not is_atomic(type_name):
        return (
            f"{name!r} is of type {type_name}, and a key is one value: derive a column from it, such as "
            f"'to_json({name})' or one of its fields."
        )
    return None
