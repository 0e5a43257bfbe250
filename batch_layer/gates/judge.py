"""Quality gates: which days may be published, judged by Great Expectations from one row of numbers for each."""

import json
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from functools import cache
from threading import Lock, Thread
from typing import Any

from batch_layer.gates.gauges import Gauge, input_gauges, output_gauges
from batch_layer.gates.profile import InputProfile, OutputProfile
from batch_layer.gates.values import Check, InputDay, OutputDay, Verdict

# Great Expectations keeps one project per process.
_alone = Lock()


@dataclass(frozen=True)
class Judgement:
    """What was said of each day, and the validation result that it was taken from, as plain data."""

    verdicts: Mapping[date, Verdict]
    validation: Mapping[str, Any] | None = None


def audit_inputs(days: Sequence[tuple[InputDay, InputProfile]]) -> Judgement:
    """What a source's expectations say of its accepted, deduplicated events of some days."""
    return judge({day.day: input_gauges(day, profile) for day, profile in days})


def audit_outputs(days: Sequence[tuple[OutputDay, OutputProfile]]) -> Judgement:
    """What a view's expectations say of the states of some days that are about to be published."""
    return judge({day.day: output_gauges(day, profile) for day, profile in days})


def judge(gauges: Mapping[date, Sequence[Gauge]]) -> Judgement:
    """Asks Great Expectations once whether each gauge of each day is within its bounds.

    Bounds belong to what they allow, and a gauge has the same ones on every day. Nothing to judge costs nothing.
    """
    bounds = {gauge.name: gauge for of_day in gauges.values() for gauge in of_day if gauge.value is not None}
    validation = _validation(gauges, bounds) if bounds else None
    failed = set() if validation is None else _failures(validation)
    verdicts = {
        day: Verdict(
            tuple(Check(one.name, (one.name, day) not in failed, one.observed, one.wanted) for one in of_day)
        )
        for day, of_day in gauges.items()
    }
    return Judgement(verdicts, validation)


def _validation(gauges: Mapping[date, Sequence[Gauge]], bounds: Mapping[str, Gauge]) -> dict[str, Any]:
    """A suite over a frame with a row for each day, run in this process, silent and offline."""
    with _alone, _silence():
        import great_expectations as gx
        import pandas as pd
        from great_expectations.expectations.core.expect_column_values_to_be_between import (
            ExpectColumnValuesToBeBetween,
        )

        rows = [{one.name: one.value for one in of_day} for of_day in gauges.values()]
        # A number that does not exist is not judged: Great Expectations leaves out what is missing.
        numbers = {name: pd.Series([row.get(name) for row in rows], dtype="float64") for name in bounds}
        frame = pd.DataFrame({"day": [day.isoformat() for day in gauges], **numbers})
        expected = [
            ExpectColumnValuesToBeBetween(column=name, min_value=one.at_least, max_value=one.at_most)
            for name, one in bounds.items()
        ]
        asset = context().data_sources.add_or_update_pandas("braid").add_dataframe_asset("days")
        batch = asset.add_batch_definition_whole_dataframe("days").get_batch({"dataframe": frame})
        result = batch.validate(
            gx.ExpectationSuite(name="days", expectations=expected),
            result_format={"result_format": "COMPLETE", "unexpected_index_column_names": ["day"]},
        )
        # Through text: what is judged from is then what a reader of the stored result gets.
        found: dict[str, Any] = json.loads(json.dumps(result.to_json_dict()))
        return found


def _failures(validation: Mapping[str, Any]) -> set[tuple[str, date]]:
    """(gauge, day) of all that is out of bounds. A check that could not be made has let nothing pass."""
    failed = set()
    for one in validation["results"]:
        name = one["expectation_config"]["kwargs"]["column"]
        if not one["success"] and "unexpected_index_list" not in one["result"]:
            raise RuntimeError(f"Great Expectations could not judge {name!r}: {one['exception_info']}")
        for row in one["result"].get("unexpected_index_list") or ():
            failed.add((name, date.fromisoformat(row["day"])))
    return failed


def load_in_background() -> None:
    """Great Expectations takes seconds to load: beside a Spark that starts and reads, they are nobody's."""

    def load() -> None:
        with _alone, _silence():
            context()

    Thread(target=load, name="great expectations", daemon=True).start()


@cache
def context() -> Any:
    """A project in memory: no file to write, no usage to report, no bars to draw."""
    import great_expectations as gx
    from great_expectations.data_context.types.base import (
        DataContextConfig,
        InMemoryStoreBackendDefaults,
        ProgressBarsConfig,
    )

    config = DataContextConfig(
        store_backend_defaults=InMemoryStoreBackendDefaults(init_temp_docs_sites=False),
        analytics_enabled=False,
        progress_bars=ProgressBarsConfig(globally=False),
    )
    return gx.get_context(mode="ephemeral", project_config=config)


@contextmanager
def _silence() -> Iterator[None]:
    """What it warns of and logs is about its own inside, and would stand between a person and the verdict."""
    logger = logging.getLogger("great_expectations")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
