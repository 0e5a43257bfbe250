"""`braid check` finds, with Spark's analyser, what would otherwise stop a stream; the events of a view are right."""

import json
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from braid import Lookup, Source, View, count, mean, sum_
from braid.check.definitions import (
    Problem,
    check,
    check_source,
    check_view,
)
from braid.define.loading import collect, load_definitions
from braid.errors import BraidError
from braid.log.events import log_schema, read_lookup, view_events

SCHEMA = "id string, time timestamp, host string, url string, status int, bytes bigint, tags array<string>"
requests = Source(name="requests", kafka_topic="requests", schema=SCHEMA, event_time="time", event_id="id")
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


def make(**changes: Any) -> View:
    parts: dict[str, Any] = {
        "name": "traffic",
        "source": requests,
        "keys": ("url",),
        "measures": {"hits": count()},
    }
    return View(**(parts | changes))


def log_of(spark: Any, rows: Sequence[dict[str, Any]], source: Source = requests) -> Any:
    """A log with these events; what a row leaves out is null."""
    schema = log_schema(source)
    given = {"time": NOON, "day": date(2024, 5, 1), "_epoch": NOON}
    return spark.createDataFrame([[(given | row).get(name) for name in schema.names] for row in rows], schema)


def rows_of(spark: Any, view: View, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    found = view_events(view, log_of(spark, rows), lambda lookup: read_lookup(spark, lookup))
    return [row.asDict() for row in found.collect()]


def only(problems: list[Problem]) -> Problem:
    assert len(problems) == 1, problems
    return problems[0]


def test_the_example_has_no_problems(spark: Any) -> None:
    assert check(spark, load_definitions("braid.examples.weblog")) == []


def test_a_definition_with_everything_has_no_problems(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "hosts.csv").write_text("host,country,weight\na,DE,1.5\nb,FR,2\n")
    model = make(name="model", keys=("host",), measures={"usual": mean("bytes")})
    view = make(
        enrich=(
            Lookup(
                table=str(tmp_path / "hosts.csv"), on="host", columns={"country": "land", "weight": "weight"}
            ),
            Lookup(table=model, on="host", columns=("usual",)),
        ),
        derive={
            "path": "split_part(url, '?', 1) -- no query",
            "first_tag": "get(tags, 0)",
            "odd": "bytes > 3 * usual",
        },
        each={"part": "split(path, '/')"},
        where="status < 400 and not coalesce(odd, false) or exists(tags, tag -> tag = 'x') or part = ''",
        keys=("part", "land"),
        measures={"n": count(), "weight": sum_("weight")},
    )
    assert check(spark, collect([view], "here")) == []


@pytest.mark.parametrize(
    ("changes", "part", "message", "fix"),
    [
        ({"where": "lower(status, 1) = 'x'"}, "where", "WRONG_NUM_ARGS", "mend the SQL"),
        ({"where": "nofunction(status)"}, "where", "`nofunction`", "mend the SQL"),
        ({"where": "status <"}, "where", "PARSE_SYNTAX_ERROR", "mend the SQL"),
        ({"where": "status"}, "where", "of type int, not boolean", "a condition"),
        ({"where": "exists(tags, tag -> tagg = 'x')"}, "where", "`tagg`", "mend the SQL"),
        ({"where": "sum(bytes) > 1"}, "where", "GROUP", "mend the SQL"),
        (
            {"where": "reflect('java.util.UUID', 'randomUUID') > ''"},
            "where",
            "each time",
            "the event's own columns",
        ),
        ({"derive": {"n": "regexp_extract(url, '(', 1)"}}, "derive 'n'", "PATTERN", "mend the pattern"),
        ({"derive": {"n": "assert_true(bytes > 0)"}}, "derive 'n'", "is not true", "stop the stream"),
        ({"derive": {"n": "array(url)"}, "keys": ("n",)}, "keys", "array<string>", "derive a column"),
        ({"derive": {"n": "bytes * 1.5e0"}, "keys": ("n",)}, "keys", "double", "decimal"),
        ({"each": {"n": "url"}}, "each 'n'", "of type string, not an array", "split(text"),
        (
            {"each": {"n": "map('a', url)"}},
            "each 'n'",
            "of type map<string,string>, not an array",
            "split(text",
        ),
        ({"each": {"n": "split(url, '(')"}}, "each 'n'", "Unclosed group", "mend the pattern"),
        ({"each": {"n": "array(tags)"}, "keys": ("n",)}, "keys", "array<string>", "derive a column"),
        ({"each": {"n": "tags"}, "measures": {"x": sum_("n")}}, "measure 'x'", "string", "choose another"),
        (
            {"derive": {"n": "lower(url)"}, "measures": {"x": sum_("n")}},
            "measure 'x'",
            "string",
            "choose another",
        ),
    ],
)
def test_sql_that_spark_cannot_run_is_reported_at_its_place(
    spark: Any, changes: dict[str, Any], part: str, message: str, fix: str
) -> None:
    problem = only(check(spark, collect([make(**changes)], "here")))
    assert (problem.definition, problem.part) == ("view 'traffic'", part)
    assert message in problem.message
    assert "\n" not in problem.message
    assert fix in problem.fix
    sqls = [*changes.get("derive", {}).values(), *changes.get("each", {}).values(), changes.get("where")]
    assert problem.sql is None or problem.sql in sqls


def test_all_problems_are_reported_and_none_twice(spark: Any) -> None:
    view = make(
        derive={"a": "lower(url, 1)", "b": "upper(a)", "c": "regexp_extract(url, '(', 1)"},
        where="b = 'x'",
        keys=("b",),
        measures={"x": sum_("c")},
    )
    assert [problem.part for problem in check_view(spark, view)] == ["derive 'a'", "derive 'c'"]


def test_a_value_that_cannot_be_cast_or_divided_is_null_and_no_problem(spark: Any) -> None:
    derive = {"n": "cast(url as int)", "m": "bytes / status", "part": "split(url, '/')[3]"}
    assert check_view(spark, make(derive=derive, keys=("n", "part"))) == []


def test_the_rules_and_the_time_format_of_a_source_are_checked(spark: Any) -> None:
    source = Source(
        name="bad", kafka_topic="t", schema=SCHEMA, event_time="time", time_format="QQQQQQ yyyy",
        rules={"good": "status > 1", "number": "status", "crash": "url rlike '('"},
    )  # fmt: skip
    parts = {problem.part: problem for problem in check_source(spark, source)}
    assert list(parts) == ["rule 'number'", "rule 'crash'", "time_format"]
    assert parts["time_format"].sql == "QQQQQQ yyyy"


def test_every_type_of_a_schema_can_be_checked(spark: Any) -> None:
    types = [
        "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "date", "timestamp", "timestamp_ntz",
        "string", "binary", "decimal(3,1)", "array<struct<a:int>>", "map<string,array<int>>",
        "struct<a:int,`b c`:struct<d:date>>",
    ]  # fmt: skip
    schema = "time timestamp, " + ", ".join(f"c{i} {name}" for i, name in enumerate(types))
    source = Source(name="wide", kafka_topic="t", schema=schema, event_time="time", rules={"any": "c3 > 0"})
    assert check_source(spark, source) == []
    assert [field.dataType.simpleString() for field in log_schema(source)][1:17] == [
        name.replace("`", "") for name in source.columns.values()
    ][1:]


class TestLookups:
    def test_a_table_that_is_not_there_is_reported_with_its_path(self, spark: Any, tmp_path: Path) -> None:
        for name in ("none.csv", "none.parquet", "none"):
            path = str(tmp_path / name)
            problem = only(
                check_view(spark, make(enrich=Lookup(table=path, on="host", columns="x"), keys=("x",)))
            )
            assert path in problem.message
            assert "mend its path" in problem.fix

    def test_a_column_that_the_table_does_not_have_is_named(self, spark: Any, tmp_path: Path) -> None:
        (tmp_path / "hosts.csv").write_text("host,country\na,DE\n")
        lookup = Lookup(table=str(tmp_path / "hosts.csv"), on="host", columns=("contry",))
        problem = only(check_view(spark, make(enrich=lookup)))
        assert "'contry'" in problem.message
        assert "Did you mean 'country'" in problem.fix

    def test_repeated_keys_are_reported_with_examples(self, spark: Any, tmp_path: Path) -> None:
        (tmp_path / "hosts.csv").write_text("host,country\na,DE\nb,FR\na,IT\n,XX\n,YY\n")
        lookup = Lookup(table=str(tmp_path / "hosts.csv"), on="host", columns=("country",))
        problem = only(check_view(spark, make(enrich=lookup)))
        assert "host = 'a' (2 rows)" in problem.message
        assert "one row for each key" in problem.fix

    def test_a_key_of_another_kind_is_reported(self, spark: Any, tmp_path: Path) -> None:
        path = str(tmp_path / "codes")
        spark.sql("select 1.5D as status, 'x' as meaning").write.format("delta").save(path)
        problem = only(check_view(spark, make(enrich=Lookup(table=path, on="status", columns="meaning"))))
        assert "int and the table's is double" in problem.message
        assert "same type" in problem.fix

    def test_columns_that_cannot_be_compared_are_reported(self, spark: Any, tmp_path: Path) -> None:
        path = str(tmp_path / "maps.parquet")
        spark.sql("select 'a' as host, map('x', 1) as m").write.parquet(path)
        assert (
            "no maps" in only(check_view(spark, make(enrich=Lookup(table=path, on="host", columns="m")))).fix
        )


class TestEvents:
    def test_only_accepted_events_with_a_true_condition_are_kept(self, spark: Any) -> None:
        view = make(where="status < 400 -- good", measures={"bytes": sum_("bytes")})
        rows = [
            {"url": "a", "status": 200, "bytes": 1},
            {"url": "b", "status": 500, "bytes": 2},
            {"url": "c", "status": None, "bytes": 4},
            {"url": "d", "status": 200, "bytes": 8, "_error": "broken"},
        ]
        found = rows_of(spark, view, rows)
        assert [(row["url"], row["bytes"]) for row in found] == [("a", 1)]
        assert list(found[0]) == ["time", "day", "_epoch", "url", "bytes"]

    def test_an_event_is_enriched_then_derived_then_filtered(self, spark: Any, tmp_path: Path) -> None:
        (tmp_path / "hosts.csv").write_text("host,country\n007,DE\n")
        view = make(
            enrich=Lookup(table=str(tmp_path / "hosts.csv"), on="host", columns={"country": "land"}),
            derive={"place": "coalesce(land, 'unknown')", "loud": "upper(place)"},
            where="loud != 'x'",
            keys=("loud",),
        )
        rows = [{"host": "007"}, {"host": "7"}, {"host": None}]
        assert sorted(row["loud"] for row in rows_of(spark, view, rows)) == ["DE", "UNKNOWN", "UNKNOWN"]

    def test_a_repeated_key_never_multiplies_events_and_always_gives_the_same_row(
        self, spark: Any, tmp_path: Path
    ) -> None:
        path = str(tmp_path / "hosts.parquet")
        spark.sql(
            "select * from values ('a','IT',2), ('a','DE',9), ('b','FR',1) t(host, land, n)"
        ).write.parquet(path)
        view = make(enrich=Lookup(table=path, on="host", columns=("land", "n")), keys=("land", "n"))
        found = rows_of(spark, view, [{"host": "a"}, {"host": "a"}, {"host": "b"}])
        assert sorted((row["land"], row["n"]) for row in found) == [("DE", 9), ("DE", 9), ("FR", 1)]

    def test_keys_of_delta_tables_are_read_as_the_events_type(self, spark: Any, tmp_path: Path) -> None:
        path = str(tmp_path / "codes")
        spark.sql("select * from values (200L,'ok'), (99999999999L,'far') t(status, meaning)").write.format(
            "delta"
        ).save(path)
        view = make(enrich=Lookup(table=path, on="status", columns="meaning"), keys=("meaning",))
        assert check_view(spark, view) == []
        assert [row["meaning"] for row in rows_of(spark, view, [{"status": 200}, {"status": 1}])] == [
            "ok",
            None,
        ]

    def test_several_keys_and_several_lookups_are_joined_in_order(self, spark: Any, tmp_path: Path) -> None:
        (tmp_path / "pairs.csv").write_text("host,url,team\na,/x,red\n")
        (tmp_path / "teams.csv").write_text("team,boss\nred,Ann\n")
        view = make(
            enrich=(
                Lookup(table=str(tmp_path / "pairs.csv"), on=("host", "url"), columns=("team",)),
                Lookup(table=str(tmp_path / "teams.csv"), on="team", columns=("boss",)),
            ),
            keys=("boss",),
        )
        rows = [{"host": "a", "url": "/x"}, {"host": "a", "url": "/y"}]
        assert [row["boss"] for row in rows_of(spark, view, rows)] == ["Ann", None]

    def test_the_log_has_the_sources_columns_then_its_own(self, spark: Any) -> None:
        kept = Source(
            name="kept", kafka_topic="t", schema="t timestamp, `a-b` int", event_time="t", keep_unknown=True
        )
        assert log_schema(kept).simpleString() == (
            "struct<t:timestamp,a-b:int,_unknown:string,_partition:bigint,_offset:bigint,_arrival:timestamp,"
            "_epoch:timestamp,_error:string,_raw:binary,day:date>"
        )
        assert "_unknown" not in log_schema(requests).names


class TestCommands:
    @pytest.fixture(autouse=True)
    def _one_session(self, spark: Any, home: Path) -> None:
        """The commands find the session of the tests."""

    def test_check_passes_on_the_example(self, braid: Callable[..., Any]) -> None:
        answer = braid("check", "--json")
        assert answer.code == 0, answer.err
        assert json.loads(answer.out) == {
            "ok": True, "sources": ["requests"], "views": ["page_traffic", "visits", "daily_pages"], "problems": [],
        }  # fmt: skip
        at_once, _, last = braid("check").out.strip().splitlines()
        assert at_once.startswith("loaded; sources: 1, views: 3")
        assert last == "checked; sources: 1, views: 3, problems: 0"

    def test_check_says_what_needs_no_spark_before_it_asks_for_one(
        self, braid: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def no_spark(*_: Any, **__: Any) -> None:
            raise BraidError("there is no Java here")

        monkeypatch.setattr("braid.runtime.spark.spark_session", no_spark)
        answer = braid("check")
        assert (answer.code, "loaded; sources: 1" in answer.out, "no Java" in answer.err) == (2, True, True)

    def test_check_prints_each_problem_and_exits_with_1(
        self, braid: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self._define(tmp_path, monkeypatch, "where='nothing(host)'")
        answer = braid("check", "--json")
        assert (answer.code, json.loads(answer.out)["problems"][0]["part"]) == (1, "where")
        answer = braid("check")
        assert (answer.code, "nothing(host)" in answer.out, "1 problems found" in answer.err) == (
            1,
            True,
            True,
        )

    def test_definitions_that_do_not_load_exit_with_2_and_say_where(
        self, braid: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self._define(tmp_path, monkeypatch, "keys=('nope',)")
        for command in (("check",), ("views",), ("show", "v")):
            answer = braid(*command)
            assert answer.code == 2
            assert "mine.py:3" in answer.err
            assert "'nope'" in answer.err

    def test_views_lists_every_view(self, braid: Callable[..., Any]) -> None:
        listed = json.loads(braid("views", "--json").out)
        assert [row["view"] for row in listed] == ["page_traffic", "visits", "daily_pages"]
        assert listed[0]["measures"] == ["hits", "bytes", "visitors"]
        assert "page_traffic" in braid("views").out

    def test_show_explains_a_view(self, braid: Callable[..., Any]) -> None:
        shown = json.loads(braid("show", "page_traffic", "--plan", "--json").out)
        assert shown["keys"] == [{"key": "url", "type": "string"}]
        assert shown["window"]["pane"] == "1 minute"
        assert shown["window"]["panes_per_window"] == 5
        assert [row["column"] for row in shown["table"]] == [
            "day",
            "pane",
            "url",
            "count",
            "sum_bytes",
            "hll_host",
        ]
        assert shown["state_bytes_per_row"]["min"] < shown["state_bytes_per_row"]["max"]
        assert len({shown["fingerprint"], shown["state_fingerprint"]}) == 2
        assert "Aggregate" in shown["plan"]
        assert "status" in shown["plan"]
        for name in ("visits", "daily_pages"):
            answer = braid("show", name, "--plan")
            assert (answer.code, "Aggregate" in answer.out) == (0, True)

    def test_show_says_the_same_with_spark_and_without(self, braid: Callable[..., Any]) -> None:
        for name in ("page_traffic", "visits"):
            with_plan = json.loads(braid("show", name, "--plan", "--json").out)
            with_plan.pop("plan")
            assert json.loads(braid("show", name, "--json").out) == with_plan
        types = {
            row["column"]: row["type"]
            for row in json.loads(braid("show", "daily_pages", "--json").out)["table"]
        }
        # Derived, and not deployed: only Spark knows it.
        assert types == {
            "day": "date",
            "pane": "timestamp",
            "path": None,
            "count": "bigint",
            "hll_host": "binary",
        }

    def test_show_of_an_unknown_view_names_the_one_that_was_meant(self, braid: Callable[..., Any]) -> None:
        answer = braid("show", "page_trafic")
        assert (answer.code, "Did you mean 'page_traffic'" in answer.err) == (2, True)

    def test_show_of_a_view_that_does_not_compile_says_so(
        self, braid: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self._define(tmp_path, monkeypatch, "where='nothing(host)'")
        answer = braid("show", "v", "--plan")
        assert (answer.code, "does not compile" in answer.err, "`braid check`" in answer.err) == (
            2,
            True,
            True,
        )

    def _define(self, folder: Path, monkeypatch: pytest.MonkeyPatch, argument: str) -> None:
        file = folder / "mine.py"
        file.write_text(
            "from braid import Source, View, count\n"
            "s = Source(name='s', kafka_topic='s', schema='time timestamp, host string', event_time='time')\n"
            f"v = View(name='v', source=s, measures={{'n': count()}}, {argument})\n"
        )
        monkeypatch.setenv("BRAID_DEFINITIONS", str(file))
