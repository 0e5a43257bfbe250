"""From raw records to typed events, or to the reason why not. DataFrames in, DataFrames out; no record is dropped.

A record is parsed once, strictly. Only for the few that fail is it parsed a second time, as plain text, to say
which field is to blame: those expressions stand in branches that Spark evaluates for failed records alone.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from braid.define.schema import is_decimal, quote
from braid.define.source import Source
from braid.log.events import as_one
from speed_layer.ingest.formats import OF_THEIR_OWN, as_plain, is_csv

_CORRUPT = "_corrupt"
_EMPTY = "unparsable: empty record"
_STRICT_JSON = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT, "allowSingleQuotes": "false"}


def parse(source: Source, records: DataFrame) -> DataFrame:
    """Records, as `records` gives them -> the log's columns, but for `_epoch`, which the commit gives."""
    records, text = as_plain(source, records)
    read = _csv if is_csv(source) else _json
    rows = records.withColumn("_read", read(source, text))
    rows = rows.select(
        "_partition", "_offset", "_arrival", "_value", "_refused",
        *(["_text"] if source.format in OF_THEIR_OWN else []), *_unknown(source, text), "_read",
        *(_typed(source, name).alias(name) for name in source.columns),
    )  # fmt: skip
    rows = rows.withColumn("_error", F.when(~_is_good(source, text), _reason(source, text)))
    accepted = F.col("_error").isNull()
    # A rejected record's clock is not to be believed: it lies in the day of its arrival.
    when = F.when(accepted, F.col(quote(source.event_time))).otherwise(F.col("_arrival"))
    return rows.select(
        *map(quote, source.columns),
        *(["_unknown"] if source.keep_unknown else []),
        "_partition", "_offset", "_arrival", "_error",
        F.when(~accepted, F.coalesce("_value", F.lit(b""))).alias("_raw"),
        F.to_date(F.from_utc_timestamp(when, F.lit(source.timezone))).alias("day"),
    )  # fmt: skip


def _json(source: Source, text: Column) -> Column:
    """The fields, and `_corrupt`: the text if it is not one JSON object whose fields have the schema's types.

    Spark stops reading at the end of the first object. Where there may be something behind it (more than one closing
    brace, or an end that is none) the record is read as a list of one, which it must then be.
    """
    fields = {name: _read_as(type_) for name, type_ in source.columns.items()}
    plain = ", ".join(f"{quote(name)} {type_}" for name, type_ in fields.items())
    read = F.from_json(text, f"{plain}, {_CORRUPT} string", _STRICT_JSON)
    nested = ", ".join(f"{quote(name)}: {type_}" for name, type_ in fields.items())
    listed = F.from_json(
        F.concat(F.lit('{"r":['), text, F.lit("]}")),
        f"r array<struct<{nested}>>, {_CORRUPT} string",
        _STRICT_JSON,
    )
    first = listed["r"][0]
    corrupt = F.when(listed[_CORRUPT].isNotNull() | (F.size(listed["r"]) != 1) | first.isNull(), text)
    as_list = F.struct(*(first[name].alias(name) for name in fields), corrupt.alias(_CORRUPT))
    # Counting braces by what is left without them looks clumsy, and is four times as fast as looking for a second.
    braces = F.octet_length(text) - F.octet_length(F.replace(text, F.lit("}"), F.lit("")))
    doubtful = (braces != 1) | ~F.endswith(text, F.lit("}"))
    return F.when(doubtful, as_list).otherwise(read)


def _csv(source: Source, text: Column) -> Column:
    fields = ", ".join(f"{quote(name)} {_read_as(type_)}" for name, type_ in source.columns.items())
    options = {"sep": source.delimiter, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    return F.from_csv(text, f"{fields}, {_CORRUPT} string", options)


def _as_text(source: Source, text: Column) -> Column:
    """All fields as they are written, to find the one that does not fit."""
    fields = ", ".join(f"{quote(name)} string" for name in source.columns)
    if not is_csv(source):
        return F.from_json(text, fields, {"allowSingleQuotes": "false"})
    return F.from_csv(text, fields, {"sep": source.delimiter})


def _read_as(type_name: str) -> str:
    return "string" if _from_text(type_name) else type_name


def _from_text(type_name: str) -> bool:
    """Times, because in the schema they would be slower and know one format only; decimals, because there they would
    be rounded to their scale without a word."""
    return type_name == "timestamp" or is_decimal(type_name)


def _typed(source: Source, name: str) -> Column:
    value, type_ = _field(name), source.columns[name]
    if type_ == "timestamp":
        return _timestamp(source, value)
    return _decimal(value, type_) if is_decimal(type_) else value


def _decimal(text: Column, type_name: str) -> Column:
    """The number if the type holds all of its digits, else null."""
    precision, scale = map(int, type_name.removeprefix("decimal(").removesuffix(")").split(","))
    number, whole = text.try_cast(type_name), text.try_cast(f"decimal(38,{38 - (precision - scale)})")
    return F.when(number == whole, number)


def _field(name: str) -> Column:
    """A field as it was read, before times are."""
    return F.col("_read")[name]


def _timestamp(source: Source, text: Column) -> Column:
    """As time_format says; by default ISO-8601 (in the source's zone if it names none) or epoch seconds."""
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


def _in_zone(source: Source, moment: Column, text: Column) -> Column:
    """A time without a zone was read as UTC: it is the source's wall clock that was meant."""
    if source.timezone == "UTC":
        return moment
    if source.time_format is not None:
        names_zone = F.lit(any(letter in source.time_format for letter in "VzOXxZ"))
    else:
        # "Z", "+02:00" or "+0200" at the end of a date and time; tested by position, which is cheaper than a regex.
        sign = F.substring(text, -6, 1).isin("+", "-") | F.substring(text, -5, 1).isin("+", "-")
        names_zone = F.endswith(text, F.lit("Z")) | ((F.length(text) > 10) & sign)
    return F.when(names_zone, moment).otherwise(F.to_utc_timestamp(moment, F.lit(source.timezone)))


def _is_good(source: Source, text: Column) -> Column:
    """All that must hold of an event, in one expression: the reasons are looked for only where it does not."""
    when = F.col(quote(source.event_time))
    readable = F.col("_refused").isNull() & F.col("_read").isNotNull() & _field(_CORRUPT).isNull()
    in_range = (when >= F.lit(source.earliest)) & (when <= F.col("_arrival") + F.lit(source.ahead))
    good = readable & F.is_valid_utf8(text) & in_range & _unread(source).isNull()
    for sql in source.rules.values():
        # As with a CHECK in SQL, what cannot be decided does not break a rule.
        good &= F.coalesce(F.expr(as_one(sql)), F.lit(True))
    return F.coalesce(good, F.lit(False))


def _reason(source: Source, text: Column) -> Column:
    """Why a record cannot be counted. The first reason that applies is the one that is recorded."""
    when = F.col(quote(source.event_time))
    kind = f"line of {len(source.columns)} CSV fields" if is_csv(source) else "JSON object"
    unreadable = F.col("_read").isNull() | _field(_CORRUPT).isNotNull()
    reason = (
        F.when(F.col("_refused").isNotNull(), F.col("_refused"))
        .when(F.col("_value").isNull() | (F.length("_value") == 0) | (F.length(F.trim(text)) == 0), _EMPTY)
        .when(~F.is_valid_utf8(text), "unparsable: not UTF-8")
        .when(unreadable, _blame(source, text, f"unparsable: not one {kind}"))
        .when(_unread(source).isNotNull(), _unread(source))
        .when(when.isNull(), "no event time")
        .when(when < F.lit(source.earliest), f"clock out of range: before {source.not_before}")
        .when(
            when > F.col("_arrival") + F.lit(source.ahead),
            f"clock out of range: more than {source.max_ahead} after its arrival",
        )
    )
    for rule, sql in source.rules.items():
        reason = reason.when(~F.expr(as_one(sql)), f"broken rule: {rule}")
    return reason


def _unread(source: Source) -> Column:
    """The first time or decimal that is written but could not be read; null when there is none."""
    return F.coalesce(
        *(
            F.when(
                F.col(quote(name)).isNull() & _field(name).isNotNull(), f"wrong type: {name} is not {type_}"
            )
            for name, type_ in source.columns.items()
            if _from_text(type_)
        )
    )


def _blame(source: Source, text: Column, otherwise: str) -> Column:
    """The first field that is written but could not be read as its type."""
    written = _as_text(source, text)
    some_field = F.coalesce(*(_field(name).cast("string") for name in source.columns)).isNotNull()
    culprits = [
        F.when(
            some_field & written[name].isNotNull() & _field(name).isNull(),
            f"wrong type: {name} is not {type_}",
        )
        for name, type_ in source.columns.items()
    ]
    return F.coalesce(*culprits, F.lit(otherwise))


def _unknown(source: Source, text: Column) -> list[Column]:
    """With keep_unknown: the fields that the schema does not name, as one JSON text."""
    if not source.keep_unknown:
        return []
    every = F.from_json(text, "map<string,string>")
    extra = F.map_filter(every, lambda key, _: ~key.isin(list(source.columns)))
    return [F.when(F.size(extra) > 0, F.to_json(extra)).alias("_unknown")]


def unknown_fields(source: Source) -> list[Column]:
    """Aggregates over raw records: the unknown fields of one record in a hundred, first and last in the alphabet.

    A set of them all would be dearer than parsing; what a batch does not show, the next ones do.
    """
    if source.format != "json" or source.keep_unknown:
        return []
    names = F.json_object_keys(F.col("_value").cast("string"))
    unknown = F.array_except(names, F.array(*map(F.lit, source.columns)))
    sampled = F.pmod(F.col("_offset"), F.lit(100)) == 0
    found = F.when(sampled, F.nullif(F.array_join(F.array_sort(unknown), "\u0000"), F.lit("")))
    return [F.min(found).alias("least"), F.max(found).alias("most")]
