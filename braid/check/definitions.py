"""Compiles every definition with Spark, and runs it on made-up events, before a stream does: `braid check`."""

from typing import NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from braid.check.lookups import lookup_problems
from braid.define.derived.join import JoinedSource
from braid.define.expectations import Holds
from braid.define.expressions import identifiers
from braid.define.loading import Definitions
from braid.define.lookup import Lookup
from braid.define.schema import FLOATS, INTEGERS, is_decimal, quote
from braid.define.source import EPOCH_FORMATS, Source
from braid.define.view import View, not_comparable
from braid.errors import BraidError
from braid.log.events import BaseOf, as_one, first_line, log_schema, read_lookup, types_of, view_events
from braid.states.spark import prepare, present

_COMPILE_FIX = "mend the SQL; `braid show` lists the columns"
_RUN_FIX = "one such event would stop the stream: use a function that gives null instead, or mend the pattern"
_ROWS = 4
_NUMBERS = ("0", "1", "404")
_VALUES = {
    "boolean": ("false", "true", "true"),
    "string": ("''", "'a'", "'/a-b.html?c=d e'"),
    "binary": ("X''", "X'00'", "X'FF'"),
    "date": ("date'1970-01-01'", "date'2000-02-29'", "date'2024-12-31'"),
}
_TIMES = ("'1970-01-01 00:00:00'", "'2000-02-29 12:30:00'", "'2024-12-31 23:59:59.999'")


class Problem(NamedTuple):
    """One thing that would not work, where it is written, and how to mend it."""

    definition: str
    part: str
    sql: str | None
    message: str
    fix: str


def check(spark: SparkSession, definitions: Definitions) -> list[Problem]:
    """All problems of all definitions; none means that every stream and batch job compiles."""
    sources = [problem for source in definitions.sources.values() for problem in check_source(spark, source)]
    views = [problem for view in definitions.views.values() for problem in check_view(spark, view)]
    return sources + views


def check_source(spark: SparkSession, source: Source) -> list[Problem]:
    events, owner = probe_events(spark, source), f"source {source.name!r}"
    problems = [
        Problem(owner, f"rule {rule!r}", sql, *wrong)
        for rule, sql in source.rules.items()
        if (wrong := _trial(events, sql, condition=True))
    ]
    problems += [
        Problem(owner, f"expectation {expected.says!r}", expected.sql, *wrong)
        for expected in source.expect
        if isinstance(expected, Holds) and (wrong := _trial(events, expected.sql, condition=True))
    ]
    if isinstance(source, JoinedSource):
        left, right = (probe_events(spark, one) for one in source.inputs)
        pairs = left.alias("left").crossJoin(right.alias("right"))
        problems += [
            Problem(owner, f"column {name!r}", sql, *wrong)
            for name, sql in source.select.items()
            if (wrong := _trial(pairs, sql))
        ]
    if source.time_format is not None and source.time_format not in EPOCH_FORMATS:
        pattern = source.time_format.replace("\\", "\\\\").replace("'", "\\'")
        sql = f"to_timestamp(date_format(timestamp'2000-01-02 03:04:05', '{pattern}'), '{pattern}')"
        if wrong := _trial(events, sql):
            fix = "write a pattern that Spark can read back, such as 'yyyy-MM-dd HH:mm:ss'"
            problems.append(Problem(owner, "time_format", source.time_format, wrong[0], fix))
    return problems


def check_view(spark: SparkSession, view: View) -> list[Problem]:
    """The view's SQL, one part after the other, so that each problem is reported once and at its place."""
    steps = _Steps(spark, view)
    for lookup in view.enrich:
        steps.enrich(lookup)
    for name, sql in view.derive.items():
        steps.derive(name, sql)
    for name, sql in view.each.items():
        steps.each(name, sql)
    if view.where is not None:
        steps.condition("where", view.where)
    steps.keys_and_measures()
    if not steps.problems:
        steps.states()
    return steps.problems


def compiled_states(spark: SparkSession, view: View) -> DataFrame:
    """What the view computes from an empty log: its schema and its plan are those of the real thing."""

    def table_of(lookup: Lookup) -> DataFrame:
        return read_lookup(spark, lookup, empty_base(spark))

    log = spark.createDataFrame([], log_schema(view.source))
    try:
        return prepare(view, view_events(view, log, table_of))
    except PySparkException as error:
        raise BraidError(
            f"view {view.name!r} does not compile: {first_line(error)}; `braid check` says where and how to mend it."
        ) from None


class _Steps:
    """The made-up events as they pass through a view, and what went wrong on the way."""

    def __init__(self, spark: SparkSession, view: View) -> None:
        self.spark, self.view = spark, view
        self.problems: list[Problem] = []
        self.failed: set[str] = set()
        self.events = probe_events(spark, view.source)

    def enrich(self, lookup: Lookup) -> None:
        blamed = self.failed.intersection(lookup.keys)
        found = [] if blamed else list(lookup_problems(lookup, self._table_of, types_of(self.events)))
        for message, fix in found:
            self._report(lookup.label, None, message, fix)
        if blamed or found:
            self._stand_in(*lookup.added.values())
            return
        table = self._table_of(lookup).schema
        nulls = [
            F.lit(None).cast(table[column].dataType).alias(name) for column, name in lookup.added.items()
        ]
        self.events = self.events.select("*", *nulls)

    def derive(self, name: str, sql: str) -> None:
        if self._try(f"derive {name!r}", sql):
            self.events = self.events.selectExpr("*", f"{as_one(sql)} as {quote(name)}")
        else:
            self._stand_in(name)

    def each(self, name: str, sql: str) -> None:
        if not self._try(f"each {name!r}", sql, array=True):
            self._stand_in(name)
            return
        # Events without elements stay here, or nothing would be left to try what comes after.
        self.events = self.events.selectExpr("*", f"explode_outer{as_one(sql)} as {quote(name)}")

    def condition(self, part: str, sql: str) -> None:
        self._try(part, sql, condition=True)

    def keys_and_measures(self) -> None:
        """Only Spark knows the types of derived and looked-up columns: the rest was checked when it was defined."""
        types = types_of(self.events)
        for key in self.view.keys:
            if key not in self.failed and (problem := not_comparable(key, types[key])):
                self._report("keys", None, *problem.split(": ", 1))
        for name, measure in self.view.measures.items():
            if not self.failed.intersection(measure.columns):
                try:
                    measure.validate(types)
                except BraidError as error:
                    self._report(f"measure {name!r}", None, str(error), "choose another column or measure")

    def states(self) -> None:
        try:
            compiled_states(self.spark, self.view)
        except BraidError as error:
            self._report("states", None, str(error), "simplify the view until it compiles")

    def _table_of(self, lookup: Lookup) -> DataFrame:
        return read_lookup(self.spark, lookup, empty_base(self.spark))

    def _try(self, part: str, sql: str, condition: bool = False, array: bool = False) -> bool:
        """Whether the SQL works; what depends on a failure is not blamed a second time."""
        if self.failed.intersection(identifiers(sql)):
            return False
        wrong = _trial(self.events, sql, condition, array)
        if wrong:
            self._report(part, sql, *wrong)
        return wrong is None

    def _stand_in(self, *names: str) -> None:
        self.failed.update(names)
        self.events = self.events.selectExpr(
            "*", *(f"cast(null as string) as {quote(name)}" for name in names)
        )

    def _report(self, part: str, sql: str | None, message: str, fix: str) -> None:
        self.problems.append(Problem(f"view {self.view.name!r}", part, sql, message, fix.rstrip(".")))


def _trial(
    events: DataFrame, sql: str, condition: bool = False, array: bool = False
) -> tuple[str, str] | None:
    """What is wrong with the SQL on these events, and the fix; None when nothing is."""
    try:
        tried = events.selectExpr("*", f"{as_one(sql)} as _tried").select("_tried")
    except PySparkException as error:
        return first_line(error), _COMPILE_FIX
    found = types_of(tried)["_tried"]
    if condition and found != "boolean":
        return f"it is of type {found}, not boolean", "write a condition that is true or false for each event"
    if array and not found.startswith("array<"):
        return f"it is of type {found}, not an array", "write what gives an array, such as split(text, ' ')"
    if not tried._jdf.queryExecution().analyzed().deterministic():
        return "it gives another value each time it is computed", "use the event's own columns"
    try:
        tried.collect()
    except PySparkException as error:
        return first_line(error), _RUN_FIX
    return None


def empty_base(spark: SparkSession) -> BaseOf:
    """Stands for the base of a looked-up view: its keys and numbers with their types, and no rows."""
    return lambda view: present(view, compiled_states(spark, view))


def probe_events(spark: SparkSession, source: Source) -> DataFrame:
    """Events of nulls, of empty values, of ordinary and of odd ones.

    They are literals, so Spark computes them in the driver while it plans: no job runs, and an error is not logged
    as a failed task.
    """
    columns = [_choices(type_name) for type_name in source.columns.values()]
    rows = (", ".join(options[row] for options in columns) for row in range(_ROWS))
    names = ", ".join(map(quote, source.columns))
    return spark.sql(f"select * from values {', '.join(f'({row})' for row in rows)} as probe({names})")


def _choices(type_name: str) -> tuple[str, ...]:
    return tuple(f"cast({value} as {type_name})" for value in ("null", *_values(type_name)))


def _values(type_name: str) -> tuple[str, ...]:
    if type_name in INTEGERS or type_name in FLOATS or is_decimal(type_name):
        # A small type cannot hold every number: what does not fit is a null there.
        return tuple(f"try_cast({number} as {type_name})" for number in _NUMBERS)
    if type_name.startswith("timestamp"):
        return _TIMES
    if type_name.startswith("array<"):
        return ("array()", "array()", "array(null)")
    if type_name.startswith("map<"):
        return ("map()", "map()", "map()")
    return _VALUES.get(type_name, ("null",) * 3)
