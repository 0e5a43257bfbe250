"""SQL texts are compared and checked without Spark, and never changed inside a literal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.define.expressions import (
    identifiers,
    normalize,
    require_expression,
    require_known,
    require_per_event,
    tokenize,
)
from braid.errors import DefinitionError

LITERALS = ("'It''s  --x'", "'a\\'B'", '"Double  Q"', "r'\\d+'", "`Odd  Name`", "x'1F'")
TOKENS = ("Status", "<=", "400", "AND", "url", "LIKE", "(", ")", "+", "1.5e3", "::", "a", ".", *LITERALS)
GAPS = (" ", "\n", "\t  ", " /* why; 'not' /* nested */ */ ", " -- a 'comment'\n")


@given(st.lists(st.sampled_from(TOKENS), min_size=1, max_size=12), st.data())
def test_white_space_comments_and_the_case_of_words_do_not_count(
    parts: list[str], data: st.DataObject
) -> None:
    def write(part: str) -> str:
        return part.swapcase() if part not in LITERALS and data.draw(st.booleans()) else part

    other = "".join(data.draw(st.sampled_from(GAPS)) + write(part) for part in parts)
    assert normalize(other) == normalize(" ".join(parts))


@given(st.lists(st.sampled_from(TOKENS), max_size=12))
def test_normal_sql_is_its_own_normal_form(parts: list[str]) -> None:
    once = normalize(" ".join(parts))
    assert normalize(once) == once


@given(st.text(max_size=60))
def test_any_text_is_tokenized_or_refused(text: str) -> None:
    try:
        tokens = tokenize(text)
    except DefinitionError:
        return
    assert all(token.text for token in tokens)


@pytest.mark.parametrize("literal", LITERALS)
def test_a_literal_is_kept_as_it_is_written(literal: str) -> None:
    assert normalize(f"A = {literal}") == f"a = {literal}"


def test_signs_need_no_white_space_around_them() -> None:
    assert normalize("status<=400 and(a<>b)") == normalize("status <= 400 AND ( a <> b )")
    assert normalize("a<=>b||c::int") == "a <=> b || c :: int"


def test_literals_that_differ_only_in_case_or_space_stay_different() -> None:
    assert normalize("a = 'X'") != normalize("a = 'x'")
    assert normalize("a = 'x y'") != normalize("a = 'x  y'")
    assert normalize("`A` = 1") != normalize("`a` = 1")


def test_case_counts_where_names_of_columns_become_content() -> None:
    assert normalize("to_json(struct(URL))") != normalize("to_json(struct(url))")


def test_columns_are_told_from_functions_fields_and_literals() -> None:
    sql = "regexp_extract(url, '^/(host)', 1) = user.Name and `odd name` > 1.5e3 -- status"
    assert [name for name in identifiers(sql) if name != "and"] == ["url", "user", "odd name"]


@pytest.mark.parametrize(
    ("sql", "value", "fix"),
    [
        ("", "''", "write an SQL expression"),
        ("  ", "'  '", "write an SQL expression"),
        (None, "None", "write an SQL expression"),
        ("-- nothing", "-- nothing", "only a comment"),
        ("a = 'x", "a = 'x", "close it"),
        ("a = `x", "a = `x", "close it"),
        ("a /* x", "a /* x", "close it with */"),
        ("(a = 1", "(a = 1", "balance the brackets"),
        ("a = 1)", "a = 1)", "balance them"),
        ("x[(1])", "x[(1])", "balance them"),
        ("a = 1; drop table t", "drop table t", "leave out the ';'"),
        ("a in (select b from t)", "select", "enrich=Lookup"),
    ],
)
def test_sql_that_cannot_be_one_expression_is_refused(sql: object, value: str, fix: str) -> None:
    with pytest.raises(DefinitionError) as refusal:
        require_expression(sql, "where")
    assert value in str(refusal.value)
    assert fix in str(refusal.value)
    assert str(refusal.value).startswith("where")


@pytest.mark.parametrize(
    "sql", ["a = ')'", "`(` = 1", "a = 1 -- (", "a like '%''%'", 'b = "it\'s"', "a[0] = (1)"]
)
def test_brackets_and_quotes_inside_literals_do_not_count(sql: str) -> None:
    assert require_expression(sql, "where") == sql


@pytest.mark.parametrize(
    ("sql", "value", "fix"),
    [
        ("time > now()", "now", "the event's own columns"),
        ("time > CURRENT_TIMESTAMP", "current_timestamp", "the event's own columns"),
        ("rand() < 0.1", "rand", "the event's own columns"),
        ("row_number() over (order by time) = 1", "window function", "use a measure"),
        ("explode(tags)", "explode", "get(array, index)"),
    ],
)
def test_what_is_not_a_function_of_one_event_is_refused(sql: str, value: str, fix: str) -> None:
    with pytest.raises(DefinitionError) as refusal:
        require_per_event(sql, "derive")
    assert value in str(refusal.value)
    assert fix in str(refusal.value)


def test_a_column_may_be_called_as_a_function_is() -> None:
    require_per_event("now > 1 and user = 'x' and 'rand()' = uuid", "where")


def test_an_unknown_column_is_named_with_the_one_that_was_meant() -> None:
    with pytest.raises(
        DefinitionError, match=r"'statsu'. Did you mean 'status'\? The columns are: id, status"
    ):
        require_known("statsu < 400", ["id", "status"], "where")


@pytest.mark.parametrize(
    "sql",
    [
        "STATUS < 400 and `Status` is not null",
        "case when status between 1 and 2 then 'x' else null end = 'y'",
        "cast(status as decimal(10,2)) > 1 and status::string like 'x%' escape '!'",
        "time >= timestamp '2020-01-01' - interval 3 days and extract(hour from time) = 2",
        "exists(tags, tag -> tag = 'x')",
        "trim(both ' ' from url) in ('a', 'b') and not status <=> 3",
        "s.anything.deeper = 1",
        "struct(url as page, status AS code).page collate UTF8_LCASE = 'x'",
    ],
)
def test_valid_sql_is_not_mistaken_for_an_unknown_column(sql: str) -> None:
    require_known(sql, ["status", "time", "tags", "url", "s"], "where")
