"""Durations read as people write them."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.define.durations import format_duration, parse_duration
from braid.errors import DefinitionError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5 minutes", 300),
        ("1 hour", 3600),
        ("90 s", 90),
        ("1h", 3600),
        ("250 ms", 0.25),
        ("2 WEEKS", 1209600),
    ],
)
def test_a_number_and_a_unit_are_a_duration(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "5", "minutes", "five minutes", "-1 hour", "1 fortnight", "1.5 hours"])
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(DefinitionError, match="'5 minutes'"):
        parse_duration(text)


@given(st.integers(min_value=1, max_value=10**10))
def test_what_is_formatted_reads_back(milliseconds: int) -> None:
    length = timedelta(milliseconds=milliseconds)
    assert parse_duration(format_duration(length)) == length
