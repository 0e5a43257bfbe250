"""Records of every format as texts that are read by the rules of JSON or of CSV."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from braid.define.source import Source
from speed_layer.ingest.avro import decoded

# These become another text first; it stands beside the record, which is kept as it came.
OF_THEIR_OWN = ("avro", "text")
_NO_MATCH = "unparsable: the line does not match the pattern"


def as_plain(source: Source, records: DataFrame) -> tuple[DataFrame, Column]:
    """The records, and where the text of each is."""
    if source.format == "avro":
        return decoded(source, records), F.col("_text")
    if source.format == "text":
        return _matched(source, records), F.col("_text")
    return records, F.col("_value").cast("string")


def is_csv(source: Source) -> bool:
    return source.format in ("csv", "text")


def _matched(source: Source, records: DataFrame) -> DataFrame:
    """Lines as the CSV that says the same; a group that is empty, or took no part, is a value that is missing."""
    line = F.col("_value").cast("string")
    whole = f"^(?:{source.pattern})$"
    groups = [
        F.nullif(F.regexp_extract(line, whole, number + 1), F.lit("")).alias(f"_{number}")
        for number in range(len(source.columns))
    ]
    matches = F.is_valid_utf8(line) & F.rlike(line, F.lit(whole))
    reason = F.when(~F.is_valid_utf8(line), "unparsable: not UTF-8").when(~matches, _NO_MATCH)
    return records.withColumns(
        {"_refused": F.coalesce("_refused", reason), "_text": F.when(matches, F.to_csv(F.struct(*groups)))}
    )
