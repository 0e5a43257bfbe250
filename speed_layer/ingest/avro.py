"""Records in a schema registry's wire format as the JSON that says the same: decoded in the JVM, schema by schema."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from braid.define.source import Source
from braid.runtime.registry import address_of

FUNCTION = "braid_avro_text"
# What it says begins so where it is a reason, and no JSON object does.
REASON = "!"


def decoded(source: Source, records: DataFrame) -> DataFrame:
    """The records with `_text`, their JSON, and the reason why not among those in `_refused`."""
    records.sparkSession.udf.registerJavaFunction(FUNCTION, "braid.AvroText", StringType())
    said = F.call_function(
        FUNCTION, "_value", F.lit(source.registry), F.lit(address_of(str(source.registry)))
    )
    rows = records.withColumn("_said", said)
    is_reason = F.startswith(F.col("_said"), F.lit(REASON))
    reason = F.when(is_reason, F.substring("_said", 2, 500))
    return rows.withColumns({"_refused": F.coalesce("_refused", reason), "_text": _unless(is_reason)}).drop(
        "_said"
    )


def _unless(is_reason: Column) -> Column:
    return F.when(~is_reason, F.col("_said"))
