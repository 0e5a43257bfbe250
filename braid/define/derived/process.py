"""A process: a function of one's own makes events of the events of a key, in event-time order, with a state."""

import ast
import inspect
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from braid.define.derived.base import ID, TIME, Derived
from braid.define.expectations import INPUT_DEFAULT, InputExpectation
from braid.define.fingerprint import digest
from braid.define.names import FrozenMap, set_field, suggest
from braid.define.schema import is_atomic, parse_schema, quote
from braid.define.source import Source
from braid.define.view import not_comparable
from braid.errors import DefinitionError

TIMER = "timer"
Row = dict[str, Any]
# (state or None, events, the moment of a timer or None) -> (state or None, columns of new events).
Step = Callable[[Row | None, list[Row], Any], tuple[Row | None, list[Row]]]


def Process(  # a value, and called like the others
    *,
    name: str,
    source: Source,
    keys: str | tuple[str, ...],
    step: Step,
    state: str,
    schema: str,
    lateness: str = "10 minutes",
    rules: Mapping[str, str] = FrozenMap(),
    dedup_horizon: str = "1 hour",
    expect: tuple[InputExpectation, ...] = INPUT_DEFAULT,
) -> "ProcessedSource":
    """A source of what `step` makes of the events of each key: `step(state, events, timer) -> (state, events)`.

    It is called once for each time at which a key has events, in order, when they are `lateness` old; a `timer` column
    of its state has it called again then. `schema` is what an event has beside `id` and `time`.
    """
    return ProcessedSource(
        name=name, source=source, keys=keys, step=step, state=state, made=schema,  # type: ignore[arg-type]
        lateness=lateness, rules=rules, dedup_horizon=dedup_horizon, expect=expect,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ProcessedSource(Derived):
    """What `Process` makes. One that was read from a document has no `step`, but knows its `code`."""

    source: Source
    keys: tuple[str, ...]
    state: str
    made: str
    code: str = ""
    step: Step | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        self._require_source("source", self.source)
        self._check_keys()
        if self.step is not None:
            set_field(self, "code", _code(self.step, f"source {self.name!r}: step"))
        elif not self.code:
            raise self._error("step is None: write a function (state, events, timer) -> (state, events).")
        if self.state_types.get(TIMER, "timestamp") != "timestamp":
            raise self._error(
                f"state: {TIMER!r} is {self.state_types[TIMER]}: it says when step is called again, so "
                "declare it as timestamp, or give it another name."
            )
        types = self._types("schema", self.made)
        if taken := {name.lower() for name in types} & {ID, TIME}:
            raise self._error(f"schema: {sorted(taken)[0]!r} is what every event has by itself: leave it out.")
        every = {ID: "string", TIME: "timestamp"} | types
        set_field(self, "schema", ", ".join(f"{quote(name)} {kind}" for name, kind in every.items()))
        self._take_limits(self.source)
        super().__post_init__()

    @property
    def sides(self) -> Mapping[str, Source]:
        return {"source": self.source}

    @property
    def state_types(self) -> dict[str, str]:
        return self._types("state", self.state)

    @property
    def identity(self) -> str:
        return digest(
            {
                "kind": "process",
                "inputs": [[self.source.name, self.source.event_time, self.source.event_id]],
                "keys": list(self.keys),
                "code": self.code,
                "state": self.state_types,
                "given": dict(self.source.columns),
                "schema": dict(self.columns),
            }
        )

    def _types(self, what: str, text: object) -> dict[str, str]:
        if not isinstance(text, str):
            raise self._error(f"{what} is {text!r}: write columns with types, such as 'n bigint, since timestamp'.")
        types = {column.name: column.type for column in parse_schema(text)} if text.strip() else {}
        for name, kind in types.items():
            if kind == "binary" or not is_atomic(kind.removeprefix("array<").removesuffix(">")):
                raise self._error(f"{what}: {name!r} is {kind}: use plain types, and lists of them.")
        return types

    def _check_keys(self) -> None:
        keys: Any = (self.keys,) if isinstance(self.keys, str) else self.keys
        if not isinstance(keys, (tuple, list)) or not keys:
            raise self._error(f"keys is {keys!r}: write the columns whose values have a state, such as ('device',).")
        for key in keys:
            if key not in self.source.columns:
                known = suggest(key, self.source.columns, "columns")
                raise self._error(f"keys: source {self.source.name!r} has no column {key!r}. {known}")
            if problem := not_comparable(key, self.source.columns[key]):
                raise self._error(f"keys: {problem.split(':')[0]}: choose another column.")
        set_field(self, "keys", tuple(keys))


def _code(step: object, what: str) -> str:
    """The function as it is written, without comments and layout: another one may draw other events."""
    if not inspect.isfunction(step):
        raise DefinitionError(f"{what} is {step!r}: write a function (state, events, timer) -> (state, events).")
    if len(inspect.signature(step).parameters) != 3:
        raise DefinitionError(f"{what} has to take three values: state, events and timer.")
    try:
        return digest({"code": ast.unparse(ast.parse(textwrap.dedent(inspect.getsource(step))))})
    except (OSError, SyntaxError):
        raise DefinitionError(f"{what}: its text is not to be found: write it with `def`, in a file.") from None
