"""A project is begun from a sample: what is guessed, that each guess is said, and that what is written loads."""

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from braid.cli.project import init
from braid.define.loading import load_definitions
from braid.errors import BraidError
from braid.project.infer import Inferred, infer
from braid.project.sample import from_file
from braid.project.scaffold import Origin, made_up, named, project, write
from braid.project.trial import in_folder, trials


def guessed(found: Inferred) -> dict[str, str]:
    return {one.part: one.guess for one in found.guesses}


def of(**values: list[Any]) -> list[dict[str, Any]]:
    """Events, from the values of each field; an event lacks what is `...`."""
    count = max(map(len, values.values()))
    return [{name: v[i] for name, v in values.items() if v[i] is not ...} for i in range(count)]


TIMES = ["2024-05-01T09:12:00Z", "2024-05-01T10:00:00+02:00", "2024-05-02T00:00:00Z"]


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        ([1, 2, 3], "bigint"),
        ([True, False, None], "boolean"),
        ([1.5, 2, 3.25], "decimal(18,2)"),
        ([0.1234567891, 2.0, 3.0], "double"),
        (["a", "1", "2"], "string"),
        (["1", "2", "3"], "string"),
        (["2024-05-01", "2024-05-02", ...], "date"),
        ([None, None, ...], "string"),
        ([[1, 2], [], [3]], "array<bigint>"),
        ([{"x": 1}, {"x": 2, "y": "a"}, {}], "struct<x: bigint, y: string>"),
        ([1, "a", {}], "string"),
    ],
)
def test_the_type_of_a_json_field_is_the_narrowest_that_all_values_have(
    values: list[Any], type_: str
) -> None:
    assert infer(of(time=TIMES, x=values)).types["x"] == type_


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        (["1", "2", ""], "bigint"),
        (["007", "2", "3"], "string"),
        (["1.50", "2", "3.00"], "decimal(18,2)"),
        (["true", "False", ""], "boolean"),
        (["a", "b", "c"], "string"),
    ],
)
def test_the_type_of_a_csv_field_is_read_from_its_texts(values: list[Any], type_: str) -> None:
    assert infer(of(time=TIMES, x=values), written=True).types["x"] == type_


def test_every_guess_is_said_with_its_reason() -> None:
    events = of(
        order_id=["a", "b", "b"], placed=[*TIMES[:2], TIMES[1]], country=["DE", "FR", "FR"], n=[1, 2, 2]
    )
    found = infer(events)
    assert {"order_id", "placed", "country", "n", "event_time", "event_id", "timezone", "keys"} == set(
        guessed(found)
    )
    assert (found.event_time, found.event_id, found.key, found.total) == (
        "placed",
        "order_id",
        "country",
        "n",
    )
    assert "1 came twice" in next(one.why for one in found.guesses if one.part == "event_id")
    assert all(one.why for one in found.guesses)


def test_of_several_times_the_one_that_sounds_like_the_events_is_taken() -> None:
    found = infer(of(shipped=TIMES, created_at=TIMES, id=["a", "b", "c"]))
    assert found.event_time == "created_at"
    assert "shipped" in next(one.why for one in found.guesses if one.part == "event_time")


def test_a_number_is_a_time_only_if_its_name_says_so() -> None:
    seconds, millis = [1714551120, 1714551121, 1714551122], [1714551120000] * 3
    assert infer(of(ts=seconds, amount=seconds)).types == {"ts": "timestamp", "amount": "bigint"}
    assert infer(of(ts=millis)).time_format == "epoch_millis"


def test_an_id_that_two_different_events_share_is_none() -> None:
    assert infer(of(id=["a", "a", "b"], time=TIMES)).event_id is None


def test_a_few_events_without_a_time_are_left_out_and_said() -> None:
    found = infer(of(time=[*TIMES, "yesterday", TIMES[0]], n=[1, 2, 3, "four", 5]))
    assert found.types == {"time": "timestamp", "n": "bigint"}
    assert found.guesses[-1].why == "1 of 5 events have no time in time: left out of the guesses"
    with pytest.raises(BraidError, match="no field of the sample is a time"):
        infer(of(time=[TIMES[0], "yesterday"]))


def test_a_sample_without_a_time_is_refused() -> None:
    with pytest.raises(BraidError, match=r"no field of the sample is a time.*found: a bigint"):
        infer(of(a=[1, 2]))
    with pytest.raises(BraidError, match="no event that can be read"):
        infer([])


def test_a_name_becomes_that_of_a_source() -> None:
    assert [named(text) for text in ("Web-Requests.v2", "7 up", "__", "orders")] == [
        "web_requests_v", "up", "events", "orders",
    ]  # fmt: skip


@pytest.mark.parametrize("packed", [False, True])
def test_a_file_gives_a_sample_and_what_cannot_be_read_stays_among_its_lines(
    tmp_path: Path, packed: bool
) -> None:
    text = b'{"id": "a", "time": "2024-05-01T09:12:00"}\nnope\n'
    file = tmp_path / ("events.jsonl.gz" if packed else "events.jsonl")
    file.write_bytes(gzip.compress(text) if packed else text)
    sample = from_file(file)
    assert (len(sample.events), len(sample.lines), sample.is_csv) == (1, 2, False)
    (tmp_path / "bad").write_text("nope\n")
    with pytest.raises(BraidError, match="no line that is one JSON object"):
        from_file(tmp_path / "bad")


def begin(folder: Path, origin: Origin, sample: Any) -> None:
    files, _ = project(origin, sample)
    write(folder, files)


def test_what_is_written_loads_as_definitions_and_as_tests(tmp_path: Path) -> None:
    begin(tmp_path, Origin("orders", topic="orders"), made_up())
    definitions = load_definitions(str(tmp_path / "definitions.py"))
    assert list(definitions.views) == ["orders_per_day"]
    (tmp_path / "tests" / "conftest.py").write_text("# of pytest")
    (trial,) = trials(definitions, in_folder(tmp_path / "tests"))
    assert trial.view.name == "orders_per_day"
    assert len(trial.events.read_text().splitlines()) == 6
    assert 'definitions = "definitions.py"' in (tmp_path / "braid.toml").read_text()


def test_nothing_that_is_there_is_touched(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    with pytest.raises(BraidError, match=r"README.md is there already"):
        begin(tmp_path, Origin("orders", topic="orders"), made_up())
    assert [file.name for file in tmp_path.iterdir()] == ["README.md"]


def test_a_topic_and_a_file_are_not_one_sample() -> None:
    with pytest.raises(BraidError, match="not both"):
        init(Path("x"), "topic", Path("file"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("view = 'orders_per_day'\n", r"has no 'events'"),
        ("1 / 0\n", r"does not load: ZeroDivisionError"),
        ("view = 'orders_per_day'\nevents = 'none.jsonl'\ntruth = print\n", r"there is no file .*none.jsonl"),
        (
            "view = 'orders_per_dy'\nevents = 'orders.jsonl'\ntruth = print\n",
            r"Did you mean 'orders_per_day'",
        ),
    ],
)
def test_a_test_that_cannot_be_run_is_named_with_the_fix(tmp_path: Path, text: str, says: str) -> None:
    begin(tmp_path, Origin("orders", topic="orders"), made_up())
    (tmp_path / "tests" / "mine.py").write_text(text)
    with pytest.raises(BraidError, match=says):
        trials(load_definitions(str(tmp_path / "definitions.py")), [tmp_path / "tests" / "mine.py"])


def test_a_test_that_is_no_file_is_named(tmp_path: Path) -> None:
    begin(tmp_path, Origin("orders", topic="orders"), made_up())
    with pytest.raises(BraidError, match=r"none\.py is not a file"):
        trials(load_definitions(str(tmp_path / "definitions.py")), [tmp_path / "none.py"])


def test_a_truth_that_fails_is_named_with_its_line(tmp_path: Path) -> None:
    begin(tmp_path, Origin("orders", topic="orders"), made_up())
    (tmp_path / "tests" / "mine.py").write_text(
        "view, events = 'orders_per_day', 'orders.jsonl'\ndef truth(events):\n    return events[0]['nope']\n"
    )
    (trial,) = trials(load_definitions(str(tmp_path / "definitions.py")), [tmp_path / "tests" / "mine.py"])
    with pytest.raises(BraidError, match=r"mine.py:3: truth\(\) failed: KeyError: 'nope'"):
        trial.expected([{"a": 1}])


def test_the_dags_of_a_project_are_braids(tmp_path: Path) -> None:
    """Read as Airflow reads them, in a process of its own."""
    begin(tmp_path, Origin("orders", topic="orders"), made_up())
    program = (
        "import json, sys\nfrom airflow.dag_processing.dagbag import BundleDagBag\n"
        "bag = BundleDagBag(sys.argv[1], bundle_path=sys.argv[1], bundle_name='dags-folder')\n"
        "print(json.dumps([bag.import_errors, sorted(bag.dags), sorted({d.fileloc for d in bag.dags.values()})]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", program, str(tmp_path / "dags")],
        capture_output=True, text=True, check=False, cwd=tmp_path, env={"AIRFLOW_HOME": str(tmp_path), "PATH": ""},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    errors, dags, files = json.loads(done.stdout.splitlines()[-1])
    assert errors == {}
    assert dags == ["backfill_range", "daily_batch", "kappa_replay", "maintain", "restate"]
    assert files == [str(tmp_path / "dags" / "braid_dags.py")]
