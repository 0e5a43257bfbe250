"""A derived source: one whose events Braid makes from the events of other sources."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

from braid.define.durations import format_duration, parse_duration
from braid.define.names import set_field
from braid.define.source import Source
from braid.errors import DefinitionError

# What every derived event has beside its columns.
ID, TIME = "id", "time"


@dataclass(frozen=True, kw_only=True)
class Derived(Source):
    """A source to everybody who reads it. Where it comes from and what it looks like follow from its inputs."""

    schema: str = field(init=False, compare=False)
    event_time: str = field(init=False, compare=False, default=TIME)
    event_id: str | None = field(init=False, compare=False, default=ID)
    timezone: str = field(init=False, compare=False)
    not_before: str = field(init=False, compare=False)
    max_ahead: str = field(init=False, compare=False)
    kafka_topic: str | None = field(init=False, compare=False, default=None)
    files: str | None = field(init=False, compare=False, default=None)
    format: Literal["json", "csv"] = field(init=False, compare=False, default="json")
    time_format: str | None = field(init=False, compare=False, default=None)
    delimiter: str = field(init=False, compare=False, default=",")
    keep_unknown: bool = field(init=False, compare=False, default=False)
    # How long the stream waits for late inputs. Policy: what comes later is added by batch, and no event differs.
    lateness: str = field(default="10 minutes", compare=False)

    def __post_init__(self) -> None:
        set_field(self, "lateness", format_duration(self._length("lateness", at_least=timedelta(0))))
        super().__post_init__()

    @property
    def sides(self) -> Mapping[str, Source]:
        """Each input by what it is here, such as `left`."""
        raise NotImplementedError

    @property
    def inputs(self) -> tuple[Source, ...]:
        """The sources whose logs it is computed from."""
        return tuple(self.sides.values())

    @property
    def identity(self) -> str:
        """Changes exactly when other events would be made of the same inputs."""
        raise NotImplementedError

    @property
    def patience(self) -> timedelta:
        """How far behind the newest input an input may be, for the stream to take it."""
        return parse_duration(self.lateness)

    def _check_origin(self) -> None:
        """It has none of its own."""

    def _take_limits(self, source: Source) -> None:
        """The zone and the believed times are those of the input that gives a derived event its time."""
        for name in ("timezone", "not_before", "max_ahead"):
            set_field(self, name, getattr(source, name))

    def _require_source(self, what: str, value: object) -> None:
        if not isinstance(value, Source):
            raise DefinitionError(
                f"source {self.name!r}: {what} is {value!r}: give it the Source itself, such as {what}=requests."
            )


def with_inputs(sources: Iterable[Source]) -> list[Source]:
    """The sources and all that they are derived from, each once and after its own inputs."""
    found: dict[str, Source] = {}

    def add(source: Source) -> None:
        for needed in source.inputs if isinstance(source, Derived) else ():
            add(needed)
        found.setdefault(source.name, source)

    for source in sources:
        add(source)
    return list(found.values())
