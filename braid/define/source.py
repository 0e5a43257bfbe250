"""A source: a stream of events with a schema and an event time, as a value."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Literal
from zoneinfo import ZoneInfo, available_timezones

from braid.define.durations import format_duration, parse_duration
from braid.define.expectations import INPUT_DEFAULT, InputExpectation, require_input
from braid.define.expressions import require_expression, require_known
from braid.define.names import (
    FrozenMap,
    near_zone,
    require_identifier,
    require_mapping,
    require_text,
    set_field,
    suggest,
)
from braid.define.schema import FORMATS, format_problem, is_atomic, parse_schema
from braid.errors import DefinitionError

EPOCH_FORMATS = ("epoch_seconds", "epoch_millis")
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
# Delta refuses the first ones in a column's name; a dot or a backtick would have to be quoted by every reader.
_BAD_IN_COLUMN = " ,;{}()\n\t=.`"
# Python's time zone database has these; Java's, which Spark uses, does not.
_NOT_IN_JAVA = ("posix/", "right/", "posixrules", "localtime", "Factory")
_PATTERN_LETTERS = frozenset("GyDMLdQqEFahKkHmsSVzOXxZ")


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where events come from and what they must look like; checked when it is defined."""

    name: str
    schema: str
    event_time: str
    kafka_topic: str | None = None
    files: str | None = None
    format: Literal["json", "csv", "text", "parquet", "avro"] = "json"
    event_id: str | None = None
    timezone: str = "UTC"
    rules: Mapping[str, str] = field(default_factory=FrozenMap)
    keep_unknown: bool = False
    dedup_horizon: str = "1 hour"
    time_format: str | None = None
    not_before: str = "1970-01-01"
    max_ahead: str = "1 day"
    delimiter: str = ","
    # Of lines of text: a regular expression whose groups are the columns.
    pattern: str | None = None
    # The name of the schema registry that knows the schemas of Avro records.
    registry: str | None = None
    # Policy, and no part of what the source is: not compared, not stored with what is deployed.
    expect: tuple[InputExpectation, ...] = field(default=INPUT_DEFAULT, compare=False)
    # The column that says when an event came, for who asks how late events are: likewise.
    arrival: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        require_identifier(self.name, "source")
        set_field(
            self,
            "rules",
            FrozenMap(require_mapping(self.rules, f"source {self.name!r}: rules", _RULE_EXAMPLE)),
        )
        set_field(
            self,
            "dedup_horizon",
            format_duration(self._length("dedup_horizon", at_least=timedelta(seconds=1))),
        )
        set_field(self, "max_ahead", format_duration(self._length("max_ahead", at_least=timedelta(0))))
        self._check_origin()
        self._check_columns()
        if problem := format_problem(self):
            raise self._error(problem)
        self._check_zone()
        self._check_times()
        self._check_rules()
        set_field(self, "expect", require_input(self.expect, self.columns, f"source {self.name!r}: expect"))

    @cached_property
    def columns(self) -> Mapping[str, str]:
        """Name -> Spark type of the columns that events carry, in the order of the schema."""
        return FrozenMap((column.name, column.type) for column in parse_schema(self.schema))

    @property
    def zone(self) -> ZoneInfo:
        """The zone in which this source's days begin and end."""
        return ZoneInfo(self.timezone)

    @property
    def horizon(self) -> timedelta:
        """How long an event id is remembered, in arrival time."""
        return parse_duration(self.dedup_horizon)

    @property
    def ahead(self) -> timedelta:
        """How far an event's clock may be ahead of its arrival."""
        return parse_duration(self.max_ahead)

    @property
    def earliest(self) -> datetime:
        """The first event time that is believed, with its zone."""
        moment = datetime.fromisoformat(self.not_before)
        return moment if moment.tzinfo else moment.replace(tzinfo=self.zone)

    def _check_origin(self) -> None:
        if (self.kafka_topic is None) == (self.files is None):
            raise self._error(
                f"kafka_topic is {self.kafka_topic!r} and files is {self.files!r}: set exactly one of them, "
                f"such as kafka_topic={self.name!r} or files='drop/*.jsonl'."
            )
        if self.kafka_topic is not None:
            topic = str(self.kafka_topic)
            if not _TOPIC.fullmatch(topic) or topic in (".", ".."):
                raise self._error(
                    f"kafka_topic {self.kafka_topic!r} is not a name that Kafka allows: use 1 to 249 letters, "
                    "digits, '.', '_' and '-'."
                )
        else:
            require_text(self.files, f"source {self.name!r}: files", "drop/*.jsonl")
        if self.format not in FORMATS:
            raise self._error(
                f"format {self.format!r} is not known. {suggest(str(self.format), FORMATS, 'formats')}"
            )
        if not isinstance(self.delimiter, str) or len(self.delimiter) != 1:
            raise self._error(
                f"delimiter {self.delimiter!r} is not one character: use ',', ';', '|' or '\\t'."
            )

    def _check_columns(self) -> None:
        require_text(self.schema, f"source {self.name!r}: schema", "id string, time timestamp")
        seen: set[str] = set()
        try:
            parsed = parse_schema(self.schema)
        except DefinitionError as error:
            raise self._error(str(error)) from None
        for column in parsed:
            self._check_column(column.name, column.type)
            if column.name.lower() in seen:
                raise self._error(
                    f"column {column.name!r} is in the schema twice (case does not count): rename or remove one."
                )
            seen.add(column.name.lower())
        self._require_column("event_time", self.event_time)
        if self.columns[self.event_time] != "timestamp":
            raise self._error(
                f"event_time {self.event_time!r} is of type {self.columns[self.event_time]}: declare it as "
                f"'{self.event_time} timestamp' in the schema, and say with time_format how it is written."
            )
        if self.arrival is not None:
            self._require_column("arrival", self.arrival)
            if self.columns[self.arrival] != "timestamp":
                raise self._error(
                    f"arrival {self.arrival!r} is of type {self.columns[self.arrival]}: declare it as "
                    f"'{self.arrival} timestamp' in the schema."
                )
        if self.event_id is not None:
            self._require_column("event_id", self.event_id)
            if not is_atomic(self.columns[self.event_id]):
                raise self._error(
                    f"event_id {self.event_id!r} is of type {self.columns[self.event_id]}: choose a column with "
                    "one value, such as a string or a bigint."
                )

    def _check_column(self, name: str, type_name: str) -> None:
        if name.startswith("_") or name.lower() == "day":
            raise self._error(
                f"column {name!r} is reserved for the log ('day' and what starts with '_'): choose another name."
            )
        if bad := [sign for sign in _BAD_IN_COLUMN if sign in name]:
            raise self._error(
                f"column {name!r} contains {bad[0]!r}, which a table's column cannot: use letters, digits and '_'."
            )
        if self.format in ("csv", "text") and not is_atomic(type_name):
            raise self._error(
                f"column {name!r} is of type {type_name}, which {self.format} cannot hold: use format='json', or read "
                "it as string and take it apart with derive."
            )

    def _require_column(self, what: str, name: str) -> None:
        if name not in self.columns:
            raise self._error(
                f"{what} {name!r} is not in the schema. {suggest(name, self.columns, 'columns')}"
            )

    def _check_zone(self) -> None:
        try:
            if str(self.timezone).startswith(_NOT_IN_JAVA):
                raise ValueError
            ZoneInfo(self.timezone)
        except (KeyError, ValueError, TypeError, OSError):
            names = sorted(name for name in available_timezones() if not name.startswith(_NOT_IN_JAVA))
            raise self._error(
                f"timezone {self.timezone!r} is not the name of a time zone. {near_zone(str(self.timezone), names)}"
            ) from None

    def _check_times(self) -> None:
        try:
            _ = self.earliest
        except (ValueError, TypeError):
            raise self._error(
                f"not_before {self.not_before!r} is not a date or a time: write it as '1995-07-01' or "
                "'1995-07-01T00:00:00-04:00'."
            ) from None
        if self.time_format is None or self.time_format in EPOCH_FORMATS:
            return
        pattern = require_text(self.time_format, f"source {self.name!r}: time_format", "yyyy-MM-dd HH:mm:ss")
        letters = set(re.findall(r"[a-zA-Z]", re.sub(r"'[^']*'", "", pattern)))
        if "%" in pattern or not letters or letters - _PATTERN_LETTERS:
            raise self._error(
                f"time_format {pattern!r} is not understood: use 'epoch_seconds', 'epoch_millis', a Spark pattern "
                "such as 'dd/MMM/yyyy:HH:mm:ss Z', or leave it out for ISO-8601."
            )

    def _check_rules(self) -> None:
        for rule, sql in self.rules.items():
            what = f"source {self.name!r}: rule {rule!r}"
            require_text(rule, f"source {self.name!r}: the name of rule {sql!r}", "status is an HTTP code")
            require_known(require_expression(sql, what), self.columns, what)

    def _length(self, what: str, at_least: timedelta) -> timedelta:
        try:
            length = parse_duration(getattr(self, what))
        except DefinitionError as error:
            raise self._error(f"{what}: {error}") from None
        if length < at_least:
            raise self._error(
                f"{what} is {format_duration(length)}: it must be at least {format_duration(at_least)}."
            )
        return length

    def _error(self, text: str) -> DefinitionError:
        return DefinitionError(f"source {self.name!r}: {text}")


_RULE_EXAMPLE = "{'status is an HTTP code': 'status between 100 and 599'}"
