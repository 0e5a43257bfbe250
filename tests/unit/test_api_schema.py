"""Whatever a client makes of the API's own document, no answer is a defect."""

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import booleans
from schemathesis import GenerationMode
from schemathesis.checks import (
    CheckFunction,
    content_type_conformance,
    not_a_server_error,
    status_code_conformance,
)

from braid import tumbling
from braid.runtime.settings import Settings
from serving_layer.http.app import OtherLayers
from tests.api import serving
from tests.serving import MIDNIGHT, Tables, some_events, view_of

CHECKS: list[CheckFunction] = [not_a_server_error, status_code_conformance, content_type_conformance]
# Streams of events have no end, and have tests of their own.
ENDLESS = "live$"


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    home = Settings(home=str(tmp_path_factory.mktemp("home")))
    tables = Tables(home, view_of(tumbling("1 hour")))
    tables.deploy()
    tables.append(some_events(0, 50, MIDNIGHT))
    tables.publish(MIDNIGHT.date(), MIDNIGHT)
    around = OtherLayers(ledger=lambda name: {"source": name})
    with serving(home, around) as address:
        yield schemathesis.openapi.from_url(f"{address}/openapi.json")


@pytest.mark.parametrize("mode", GenerationMode, ids=lambda mode: mode.name.lower())
def test_no_question_is_answered_by_a_defect(document: Any, mode: GenerationMode) -> None:
    asked = 0
    for found in document.exclude(path_regex=ENDLESS).get_all_operations():
        operation = found.ok()
        parameters = operation.definition.raw.get("parameters", [])
        if mode is GenerationMode.NEGATIVE and not any(each["in"] == "query" for each in parameters):
            # Any text can be a name in a path: nothing here could be of the wrong kind.
            continue

        @given(case=operation.as_strategy(generation_mode=mode), there=booleans())
        @settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
        def ask(case: schemathesis.Case, there: bool) -> None:
            nonlocal asked
            if there and "view" in case.path_parameters:
                case.path_parameters["view"] = "hits"
            case.call_and_validate(checks=CHECKS)
            asked += 1

        ask()
    assert asked > 100
