"""From raw records to typed events, or to the reason why not. DataFrames in, DataFrames out; no record is dropped.

A record is parsed once, strictly. Only for the few that fail is it parsed a second time, as plain text, to say
which field is to blame: those expressions stand in branches that Spark evaluates for failed records alone.
"""

from typing import TYPE_CHECKING

from braid.ddl import quote
from braid.source import Source

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_CORRUPT = "_corrupt"
_STRICT_JSON = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT, "allowSingleQuotes": "false"}


def parse(source: Source, records: "DataFrame") -> "DataFrame":
    """Records, as `records` gives them -> the log's columns, but for `_epoch`, which the commit gives."""
    from pyspark.sql import functions as F

    text = F.col("_value").cast("string")
    read = _json if source.format == "json" else _csv
    rows = records.withColumn("_read", read(source, text))
    event = F.col("_read.event")
    rows = rows.select(
        "_partition", "_offset", "_arrival", "_value", "_refused", *_unknown(source, text), "_read",
        *(_typed(source, name, event).alias(name) for name in source.columns),
    )  # fmt: skip
    rows = rows.withColumn("_error", _reason(source, text))
    accepted = F.col("_error").isNull()
    zone = F.lit(source.timezone)
    # A rejected record's clock is not to be believed: it lies in the day of its arrival.
    when = F.when(accepted, F.col(quote(source.event_time))).otherwise(F.col("_arrival"))
    return rows.select(
        *map(quote, source.columns),
        *(["_unknown"] if source.keep_unknown else []),
        "_partition", "_offset", "_arrival", "_error",
        F.when(~accepted, F.coalesce("_value", F.lit(b""))).alias("_raw"),
        F.to_date(F.from_utc_timestamp(when, zone)).alias("day"),
    )  # fmt: skip


def _json(source: Source, text: "Column") -> "Column":
    """{event, corrupt, n}: wrapped as a list, a record with anything behind its object is not read in half."""
    from pyspark.sql import functions as F

    fields = ", ".join(f"{quote(name)}: {_read_as(type_)}" for name, type_ in source.columns.items())
    schema = f"r array<struct<{fields}>>, {_CORRUPT} string"
    read = F.from_json(F.concat(F.lit('{"r":['), text, F.lit("]}")), schema, _STRICT_JSON)
    return F.struct(
        read["r"][0].alias("event"),
        read[_CORRUPT].isNotNull().alias("corrupt"),
        F.coalesce(F.size(read["r"]), F.lit(0)).alias("n"),
    )


def _csv(source: Source, text: "Column") -> "Column":
    from pyspark.sql import functions as F

    fields = ", ".join(f"{quote(name)} {_read_as(type_)}" for name, type_ in source.columns.items())
    options = {"sep": source.delimiter, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    read = F.from_csv(text, f"{fields}, {_CORRUPT} string", options)
    return F.struct(
        F.struct(*(read[name].alias(name) for name in source.columns)).alias("event"),
        read[_CORRUPT].isNotNull().alias("corrupt"),
        F.lit(1).alias("n"),
    )


def _as_text(source: Source, text: "Column") -> "Column":
    """All fields as they are written, to find the one that does not fit."""
    from pyspark.sql import functions as F

    fields = ", ".join(f"{quote(name)} string" for name in source.columns)
    if source.format == "json":
        return F.from_json(text, fields, {"allowSingleQuotes": "false"})
    return F.from_csv(text, fields, {"sep": source.delimiter})


def _read_as(type_name: str) -> str:
    # Times are parsed from text: in the schema they would be slower, and know one format only.
    return "string" if type_name == "timestamp" else type_name


def _typed(source: Source, name: str, event: "Column") -> "Column":
    value = event[name]
    return _timestamp(source, value) if source.columns[name] == "timestamp" else value


def _timestamp(source: Source, text: "Column") -> "Column":
    """As time_format says; by default ISO-8601 (in the source's zone if it names none) or epoch seconds."""
    from pyspark.sql import functions as F

    number = text.try_cast("decimal(20,6)")
    if source.time_format == "epoch_seconds":
        return F.timestamp_micros((number * 1_000_000).cast("bigint"))
    if source.time_format == "epoch_millis":
        return F.timestamp_micros((number * 1_000).cast("bigint"))
    if source.time_format is not None:
        return _in_zone(source, F.try_to_timestamp(text, F.lit(source.time_format)), text)
    is_date = F.substring(text, 5, 1) == "-"
    seconds = F.timestamp_micros((number * 1_000_000).cast("bigint"))
    return F.when(is_date, _in_zone(source, text.try_cast("timestamp"), text)).otherwise(seconds)


def _in_zone(source: Source, moment: "Column", text: "Column") -> "Column":
    """A time without a zone was read as UTC: it is the source's wall clock that was meant."""
    from pyspark.sql import functions as F

    if source.timezone == "UTC":
        return moment
    if source.time_format is not None:
        names_zone = F.lit(any(letter in source.time_format for letter in "VzOXxZ"))
    else:
        # "Z", "+02:00" or "+0200" at the end of a date and time; tested by position, which is cheaper than a regex.
        sign = F.substring(text, -6, 1).isin("+", "-") | F.substring(text, -5, 1).isin("+", "-")
        names_zone = F.endswith(text, F.lit("Z")) | ((F.length(text) > 10) & sign)
    return F.when(names_zone, moment).otherwise(F.to_utc_timestamp(moment, F.lit(source.timezone)))


def _reason(source: Source, text: "Column") -> "Column":
    """Why a record cannot be counted, or null. The first reason that applies is the one that is recorded."""
    from pyspark.sql import functions as F

    corrupt, n = F.col("_read.corrupt"), F.col("_read.n")
    when = F.col(quote(source.event_time))
    kind = "JSON object" if source.format == "json" else f"line of {len(source.columns)} CSV fields"
    unreadable = corrupt | (n != 1) | F.col("_read.event").isNull()
    written = F.col("_read.event")
    bad_times = [
        F.when(
            F.col(quote(name)).isNull() & written[name].isNotNull(), f"wrong type: {name} is not timestamp"
        )
        for name, type_ in source.columns.items()
        if type_ == "timestamp"
    ]
    bad_time = F.coalesce(*bad_times)
    reason = (
        F.when(F.col("_refused").isNotNull(), F.col("_refused"))
        .when(F.col("_value").isNull() | (F.length(F.trim(text)) == 0), "unparsable: empty record")
        .when(~F.is_valid_utf8(text), "unparsable: not UTF-8")
        .when(unreadable, _blame(source, text, f"unparsable: not one {kind}"))
        .when(bad_time.isNotNull(), bad_time)
        .when(when.isNull(), "no event time")
        .when(when < F.lit(source.earliest), f"clock out of range: before {source.not_before}")
        .when(
            when > F.col("_arrival") + F.lit(source.ahead),
            f"clock out of range: more than {source.max_ahead} after its arrival",
        )
    )
    for rule, sql in source.rules.items():
        reason = reason.when(~F.expr(f"({sql}\n)"), f"broken rule: {rule}")
    return reason


def _blame(source: Source, text: "Column", otherwise: str) -> "Column":
    """The first field that is written but could not be read as its type."""
    from pyspark.sql import functions as F

    written = _as_text(source, text)
    one_object = F.col("_read.event").isNotNull() & (F.col("_read.n") == 1)
    culprits = [
        F.when(
            one_object & written[name].isNotNull() & F.col("_read.event")[name].isNull(),
            f"wrong type: {name} is not {type_}",
        )
        for name, type_ in source.columns.items()
    ]
    return F.coalesce(*culprits, F.lit(otherwise))


def _unknown(source: Source, text: "Column") -> "list[Column]":
    """With keep_unknown: the fields that the schema does not name, as one JSON text."""
    from pyspark.sql import functions as F

    if not source.keep_unknown:
        return []
    every = F.from_json(text, "map<string,string>")
    extra = F.map_filter(every, lambda key, _: ~key.isin(list(source.columns)))
    return [F.when(F.size(extra) > 0, F.to_json(extra)).alias("_unknown")]


def unknown_fields(source: Source) -> "Column":
    """An aggregate over raw records: the sets of unknown fields in one record of a hundred, and in every first one."""
    from pyspark.sql import functions as F

    if source.format != "json":
        return F.collect_set(F.lit(None).cast("string"))
    names = F.json_object_keys(F.col("_value").cast("string"))
    unknown = F.array_join(F.array_except(names, F.array(*map(F.lit, source.columns))), "\u0000")
    sampled = F.pmod(F.col("_offset"), F.lit(100)) == 0
    return F.collect_set(F.when(sampled, F.nullif(unknown, F.lit(""))))
