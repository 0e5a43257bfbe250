"""Schema texts are read as Spark reads them."""

import pytest

from braid.define.schema import (
    Column,
    is_atomic,
    parse_schema,
    quote,
)
from braid.errors import DefinitionError


def types(text: str) -> dict[str, str]:
    return {column.name: column.type for column in parse_schema(text)}


def test_columns_keep_their_order_and_case_and_types_become_lower_case() -> None:
    assert parse_schema("Id STRING, t Timestamp") == (Column("Id", "string"), Column("t", "timestamp"))


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("long", "bigint"), ("integer", "int"), ("short", "smallint"), ("byte", "tinyint"), ("real", "float"),
        ("timestamp_ltz", "timestamp"), ("dec", "decimal(10,0)"), ("numeric(5)", "decimal(5,0)"),
        ("decimal(18, 2)", "decimal(18,2)"), ("array<long>", "array<bigint>"),
        ("map<string, array<int>>", "map<string,array<int>>"),
        ("struct<a int, b: struct<c: DATE>>", "struct<a:int,b:struct<c:date>>"),
        ("struct<`a b`: int>", "struct<`a b`:int>"),
    ],
)  # fmt: skip
def test_a_type_is_given_as_spark_writes_it(written: str, meant: str) -> None:
    assert types(f"x {written}") == {"x": meant}


def test_backticks_colons_not_null_and_comments_are_read() -> None:
    text = "`a-b` int NOT NULL COMMENT 'it\\'s, (here)', c: string comment \"x\""
    assert types(text) == {"a-b": "int", "c": "string"}


@pytest.mark.parametrize(
    ("text", "value", "fix"),
    [
        ("id strin", "'strin'", "use one of boolean"),
        ("id", "'id' has no type", "write 'id string'"),
        ("id string time timestamp", "'time'", "commas"),
        ("id string,", "ends too early", "name type"),
        ("", "ends too early", "name type"),
        ("d decimal(39,2)", "decimal(39,2)", "1 to 38 digits"),
        ("d decimal(4,5)", "decimal(4,5)", "decimal(18,2)"),
        ("d decimal(x)", "'x'", "decimal(18,2)"),
        ("a array<int", "'>' was expected", "close every"),
        ("a-b int", "'-'", "backticks"),
        ("a int not", "NOT without NULL", "NOT NULL"),
        ("a int comment x", "not a quoted text", "COMMENT 'text'"),
        ("<a> int", "'<'", "name type"),
    ],
)
def test_a_schema_that_cannot_be_read_is_refused_with_the_place_and_the_fix(
    text: str, value: str, fix: str
) -> None:
    with pytest.raises(DefinitionError) as refusal:
        parse_schema(text)
    assert value in str(refusal.value)
    assert fix in str(refusal.value)


def test_only_lists_maps_and_records_are_not_atomic() -> None:
    assert [is_atomic(t) for t in ("string", "decimal(3,1)", "array<int>", "map<int,int>", "struct<a:int>")] == [
        True, True, False, False, False,
    ]  # fmt: skip


def test_a_quoted_name_can_hold_anything() -> None:
    assert quote("a`b c") == "`a``b c`"
