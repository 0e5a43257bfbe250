"""Records in a schema registry's wire format as the JSON that says the same: decoded in the JVM, schema by schema."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from braid.define.source import Source
from braid.runtime.registry import address_of, login_of

FUNCTION = "braid_avro_text"
# What it says begins so where it is a reason, and no JSON object does.
REASON = "!"
# What a query's tasks are told beside its plan; configurations are on a command line, for all to see.
LOGIN = "braid.registry.secret."


def decoded(source: Source, records: DataFrame) -> DataFrame:
    """The records with `_text`, their JSON, and the reason why not among those in `_refused`."""
    spark, registry = records.sparkSession, str(source.registry)
    spark.udf.registerJavaFunction(FUNCTION, "braid.AvroText", StringType())
    spark.sparkContext.setLocalProperty(LOGIN + registry, login_of(registry))  # type: ignore[arg-type]
    said = F.call_function(FUNCTION, "_value", F.lit(registry), F.lit(address_of(registry)))
    rows = records.withColumn("_said", said)
    is_reason = F.startswith(F.col("_said"), F.lit(REASON))
    reason = F.when(is_reason, F.substring("_said", 2, 500))
    return rows.withColumns({"_refused": F.coalesce("_refused", reason), "_text": _unless(is_reason)}).drop(
        "_said"
    )


def _unless(is_reason: Column) -> Column:
    return F.when(~is_reason, F.col("_said"))
