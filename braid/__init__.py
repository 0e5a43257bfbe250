"""One definition of each number: what a user's file of sources and views imports."""

from typing import TYPE_CHECKING, Any

from braid.define.alerts import Alert, message, webhook
from braid.define.derived.join import Join
from braid.define.derived.process import Process
from braid.define.expectations import (
    AddsUp,
    Arrived,
    Drift,
    Filled,
    Holds,
    KeysPresent,
    NotNegative,
    Quarantined,
    Volume,
)
from braid.define.lookup import Lookup
from braid.define.sinks import files, kafka_topic, postgres
from braid.define.source import Source
from braid.define.view import View
from braid.define.windows import (
    all_time,
    session,
    sliding,
    tumbling,
)
from braid.measures import (
    approx_distinct,
    count,
    max_,
    mean,
    min_,
    quantile,
    stddev,
    sum_,
)
from braid.measures.refused import (
    any_value,
    collect_list,
    collect_set,
    count_distinct,
    first,
    last,
    median,
    mode,
    percentile,
)

if TYPE_CHECKING:
    from braid.merge.spark import merged

__all__ = [
    "AddsUp",
    "Alert",
    "Arrived",
    "Drift",
    "Filled",
    "Holds",
    "Join",
    "KeysPresent",
    "Lookup",
    "NotNegative",
    "Process",
    "Quarantined",
    "Source",
    "View",
    "Volume",
    "all_time",
    "any_value",
    "approx_distinct",
    "collect_list",
    "collect_set",
    "count",
    "count_distinct",
    "files",
    "first",
    "kafka_topic",
    "last",
    "max_",
    "mean",
    "median",
    "merged",
    "message",
    "min_",
    "mode",
    "percentile",
    "postgres",
    "quantile",
    "session",
    "sliding",
    "stddev",
    "sum_",
    "tumbling",
    "webhook",
]


def __getattr__(name: str) -> Any:
    """`braid.merged` needs Spark, and a file of definitions must be read without it."""
    if name == "merged":
        from braid.merge.spark import merged

        return merged
    raise AttributeError(f"module 'braid' has no attribute {name!r}")
