"""The input gate of a source: what its expectations say of days, recorded so that they are asked once for a cut."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime

from pyspark.sql import DataFrame, SparkSession

from batch_layer import days as records
from batch_layer.days import Gate
from batch_layer.gates import data_docs
from batch_layer.gates.judge import audit_inputs
from batch_layer.gates.profile import InputProfile, input_profiles, no_events
from batch_layer.gates.values import InputDay
from batch_layer.plan import Days, SourcePlan, plan
from braid.define.source import Source
from braid.define.view import View
from braid.log.events import log_columns
from braid.log.table import Log
from braid.recompute import day_rows
from braid.runtime.settings import Settings

# How many days before a day its volume may be compared with.
MOST_TRAILING = 31


def gate(
    spark: SparkSession, settings: Settings, views: Sequence[View], day: date, cut: datetime | None = None
) -> dict[str, Gate]:
    """What the input gates say of a day: source -> gate. The run that follows need not ask again."""
    found = {}
    for source in plan(settings, views, Days(day, day), cut):
        rows = day_rows(spark, Log(source.source, settings), [day], source.cut)
        profiles = input_profiles(source.source, rows)
        found[source.source.name] = judge(settings, source, profiles, {day: source.cut}, again=True)[day]
    data_docs.build(settings, all_days=False)
    return found


def judge(
    settings: Settings,
    source: SourcePlan,
    profiles: Mapping[date, InputProfile],
    cuts: Mapping[date, datetime],
    again: bool,
) -> dict[date, Gate]:
    """What is known of days at their cuts, and what the expectations say of the others, or `again` of all."""
    name, arrivals = source.source.name, source.arrivals
    known = records.read_gates(settings, name)
    asked = {day: cut for day, cut in cuts.items() if again or day not in known or known[day].cut != cut}
    judgement = audit_inputs(
        [
            (
                InputDay(
                    source.source, day, cut, arrivals.rejected_with(day, cut),
                    arrivals.trailing(day, cut, MOST_TRAILING),
                ),
                profiles.get(day, no_events(source.source)),
            )
            for day, cut in asked.items()
        ]
    )  # fmt: skip
    found = {
        day: records.judged(known.get(day), asked[day], verdict)
        for day, verdict in judgement.verdicts.items()
    }
    records.write_gates(settings, name, found)
    data_docs.keep(settings, f"source {name}", judgement.validation)
    return {day: found.get(day) or known[day] for day in cuts}


@contextmanager
def kept(rows: DataFrame, source: Source) -> Iterator[DataFrame]:
    """The log's rows, in memory and on disk: expectations and every view read them."""
    held = rows.selectExpr(*log_columns(source)).persist()
    try:
        yield held
    finally:
        held.unpersist()
