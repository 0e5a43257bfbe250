"""Where a view's numbers go by themselves: topics, tables and folders, as values beside the view."""

import re
from dataclasses import dataclass
from typing import Any, Literal, get_args

from braid.define.durations import format_duration, parse_duration
from braid.define.names import set_field, suggest
from braid.define.windows import AllTime, Window
from braid.errors import DefinitionError

Emit = Literal["updates", "final", "revisions"]
FORMATS = ("parquet", "jsonl")

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}")
_TABLE = re.compile(r"[a-z_][a-z0-9_]{0,62}(\.[a-z_][a-z0-9_]{0,62})?")


@dataclass(frozen=True)
class KafkaSink:
    """A topic of the Kafka that the settings name."""

    topic: str
    emit: Emit = "updates"

    def __post_init__(self) -> None:
        _require_match(self.topic, _TOPIC, "kafka_topic: topic", "'page-traffic'")
        _require_emit(self.emit, "kafka_topic")

    @property
    def name(self) -> str:
        return f"kafka:{self.topic}"


@dataclass(frozen=True)
class PostgresSink:
    """A table of a PostgreSQL database, whose address is known by a name: BRAID_DSN_<NAME>."""

    dsn: str
    table: str
    emit: Emit = "updates"

    def __post_init__(self) -> None:
        if isinstance(self.dsn, str) and ("=" in self.dsn or "://" in self.dsn):
            raise DefinitionError(
                "postgres: dsn is an address, and it may hold a password: give it a name, such as 'warehouse', and "
                "set BRAID_DSN_WAREHOUSE to the address."
            )
        _require_match(self.dsn, _NAME, "postgres: dsn", "a name, such as 'warehouse'")
        _require_match(
            self.table, _TABLE, "postgres: table", "lower-case letters, digits and '_', as in 'page_traffic'"
        )
        _require_emit(self.emit, "postgres")

    @property
    def name(self) -> str:
        return f"postgres:{self.dsn}/{self.table}"


@dataclass(frozen=True)
class FilesSink:
    """A folder that gets a file whenever `every` has passed and something has changed."""

    path: str
    format: Literal["parquet", "jsonl"] = "parquet"
    emit: Emit = "updates"
    every: str = "1 minute"

    def __post_init__(self) -> None:
        if not isinstance(self.path, str) or not self.path.strip() or "://" in self.path:
            raise DefinitionError(
                f"files: path is {self.path!r}: write a folder, such as '/srv/exports/hits'."
            )
        if self.format not in FORMATS:
            raise DefinitionError(
                f"files: format {self.format!r} is not known. {suggest(str(self.format), FORMATS, 'formats')}"
            )
        _require_emit(self.emit, "files")
        try:
            set_field(self, "every", format_duration(parse_duration(self.every)))
        except DefinitionError as error:
            raise DefinitionError(f"files: every: {error}") from None

    @property
    def name(self) -> str:
        return f"files:{self.path}"


Sink = KafkaSink | PostgresSink | FilesSink


def kafka_topic(topic: str, emit: Emit = "updates") -> KafkaSink:
    """Records in a topic; the key is view, window and keys, for compacted topics."""
    return KafkaSink(topic, emit)


def postgres(dsn: str, table: str, emit: Emit = "updates") -> PostgresSink:
    """Rows of a table; `dsn` is a name, and BRAID_DSN_<NAME> the address."""
    return PostgresSink(dsn, table, emit)


def files(
    path: str,
    format: Literal["parquet", "jsonl"] = "parquet",
    emit: Emit = "updates",
    every: str = "1 minute",
) -> FilesSink:
    """Files in a folder, each with what changed since the one before it."""
    return FilesSink(path, format, emit, every)


def require_sinks(given: Any, what: str, window: Window) -> tuple[Sink, ...]:
    """The sinks of a view as a tuple; two that would write to one place, and one that never would, are refused."""
    sinks = (given,) if isinstance(given, Sink) else given
    if not isinstance(sinks, (tuple, list)) or not all(isinstance(sink, Sink) for sink in sinks):
        raise DefinitionError(
            f"{what} is {given!r}: write a tuple of kafka_topic(...), postgres(...) and files(...)."
        )
    names = [sink.name for sink in sinks]
    for name in names:
        if names.count(name) > 1:
            raise DefinitionError(
                f"{what}: {name!r} is there twice: two writers of one place overwrite each other."
            )
    for sink in sinks:
        if isinstance(window, AllTime) and sink.emit != "updates":
            raise DefinitionError(
                f"{what}: {sink.name!r} has emit={sink.emit!r}, and a window of all time is never final: use "
                "emit='updates', or another window."
            )
    return tuple(sinks)


def _require_match(value: object, pattern: re.Pattern[str], what: str, example: str) -> None:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise DefinitionError(f"{what} is {value!r}: write {example}.")


def _require_emit(emit: object, what: str) -> None:
    known = get_args(Emit)
    if emit not in known:
        raise DefinitionError(f"{what}: emit {emit!r} is not known. {suggest(str(emit), known, 'modes')}")
