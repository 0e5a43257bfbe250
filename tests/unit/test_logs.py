"""A log line carries its values as fields."""

import json

import pytest

from braid.runtime import logging as logs


def test_json_lines_have_an_event_and_its_fields(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("info", "json")
    logs.Logger("ingest").info("batch committed", batch=7, rows=1000)
    line = json.loads(capsys.readouterr().err)
    assert (line["event"], line["logger"], line["batch"], line["rows"]) == (
        "batch committed",
        "braid.ingest",
        7,
        1000,
    )


def test_the_level_decides_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("warning", "text")
    logs.Logger("ingest").info("quiet")
    logs.Logger("ingest").warning("loud", partition=2)
    printed = capsys.readouterr().err
    assert "quiet" not in printed
    assert printed.rstrip().endswith("loud  partition=2")
