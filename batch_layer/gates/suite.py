"""Gauges compiled to Great Expectations: a suite over a frame of one row, run in this process, silent and offline."""

import json
import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from threading import Lock
from typing import Any

from batch_layer.gates.gauges import Gauge
from batch_layer.gates.values import Check, Verdict

# Great Expectations keeps one project per process.
_alone = Lock()


@dataclass(frozen=True)
class Outcome:
    """The verdict, and the validation result that it was taken from, as plain data."""

    verdict: Verdict
    validation: dict[str, Any]


def judge(suite: str, run: str, gauges: Sequence[Gauge]) -> Outcome:
    """Asks Great Expectations whether each gauge is within its bounds; bounds belong to what they allow."""
    judged = {gauge.name: gauge.value for gauge in gauges if gauge.value is not None}
    with _alone, _silence():
        import great_expectations as gx
        import pandas as pd
        from great_expectations.expectations.core.expect_column_max_to_be_between import (
            ExpectColumnMaxToBeBetween,
        )

        expected = [
            ExpectColumnMaxToBeBetween(
                column=gauge.name,
                min_value=gauge.at_least,
                max_value=gauge.at_most,
                description=f"{gauge.name}: {gauge.wanted}",
                notes=f"Observed: {gauge.observed}",
            )
            for gauge in gauges
            if gauge.value is not None
        ]
        source = context().data_sources.add_or_update_pandas("braid")
        batch = source.add_dataframe_asset(suite).add_batch_definition_whole_dataframe(run)
        frame = pd.DataFrame({name: [float(value)] for name, value in judged.items()}, index=[0])
        result = batch.get_batch({"dataframe": frame}).validate(
            gx.ExpectationSuite(name=suite, expectations=expected)
        )
        # Through text: what the renderers get is then what a reader of the stored result gets.
        validation = json.loads(json.dumps(result.to_json_dict()))
    ok = {one["expectation_config"]["kwargs"]["column"]: one["success"] for one in validation["results"]}
    checks = (
        Check(gauge.name, ok[gauge.name] if gauge.name in judged else True, gauge.observed, gauge.wanted)
        for gauge in gauges
    )
    return Outcome(Verdict(tuple(checks)), validation)


def page(validation: dict[str, Any], day: str, cut: str) -> str:
    """The Data Docs page of a validation result, as Great Expectations renders it."""
    with _alone, _silence():
        from great_expectations.core.expectation_validation_result import (
            ExpectationSuiteValidationResultSchema,
        )
        from great_expectations.render.renderer.page_renderer import ValidationResultsPageRenderer
        from great_expectations.render.view.view import DefaultJinjaPageView

        run = {"run_id": {"run_name": day, "run_time": cut}}
        result = ExpectationSuiteValidationResultSchema().load(
            validation | {"meta": validation["meta"] | run}
        )
        document = ValidationResultsPageRenderer().render(result)
        view: Any = DefaultJinjaPageView()
        return str(view.render(document, show_how_to_buttons=False))


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
