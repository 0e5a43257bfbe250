"""How many copies of events each group was served with."""

from typing import TYPE_CHECKING

from braid.define.view import View
from braid.log.events import TableOf
from braid.parity import group_columns
from serving_layer.accuracy.explain.causes import COPIES
from serving_layer.accuracy.explain.exact import in_groups
from serving_layer.accuracy.explain.rows import Copies, placed_events

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def counted_copies(
    view: View, rows: "DataFrame", copies: Copies, states: "DataFrame", table_of: TableOf
) -> "DataFrame":
    """A row per group that has any, with a column for each kind."""
    from pyspark.sql import functions as F

    served = rows.join(copies.counted, on=["_partition", "_offset"], how="inner")
    events = in_groups(view, placed_events(view, served, table_of, "_kind"), states)
    kinds = [F.count_if(F.col("_place._kind") == kind).alias(kind) for kind in COPIES]
    return events.groupBy(*group_columns(view)).agg(*kinds)
