"""What only reads starts no Spark: each such command runs on a small home, and its process says what it imported."""

import json
import os
import subprocess
import sys
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake

from batch_layer.arrivals import Arrivals
from braid.define.loading import load_definitions
from braid.log.database import describe
from braid.log.database import describe_rejected as rejected
from braid.log.table import Log
from braid.runtime.settings import Settings
from braid.tables.commits import Commit
from braid.tables.in_database import opened, version_of
from speed_layer.ledger.files import xxhash64

DEFINITIONS = """
from braid import Source, View, count, sum_, tumbling
people = Source(
    name="people", files="{drop}/*.jsonl", event_time="time", event_id="id",
    schema="id string, time timestamp, bytes bigint", rules={{"bytes are": "bytes >= 0"}},
)
by_day = View(name="by_day", source=people, keys=("name",), derive={{"name": "upper(id)"}},
              window=tumbling("1 day"), measures={{"n": count(), "bytes": sum_("bytes")}})
"""
READING = (
    "views", "show by_day", "log people", "ledger people", "quarantine people", "batch plan", "batch board",
    "batch cut", "batch views", "kappa status", "maintain --every 12h", "status",
)  # fmt: skip
# To load it alone takes longer than these commands may take as a whole.
HEAVY = ("pandas", "pyspark", "pyarrow.dataset")
RUN = """
import sys
from braid.cli import run
code = 0
try:
    run({arguments})
except SystemExit as end:
    code = end.code
print(code or 0, *sorted(set({heavy}) & set(sys.modules)), file=sys.stderr)
"""


def line(identity: str, bytes_: int = 1) -> str:
    return json.dumps({"id": identity, "time": "2024-01-01T10:00:00Z", "bytes": bytes_})


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_home(tmp_path_factory.mktemp("home"))


def make_home(folder: Path) -> Path:
    """A log of three events from a file of five lines: one came twice, and one could not be counted."""
    drop = folder / "drop"
    drop.mkdir()
    lines = [line("a"), line("b"), line("a"), line("c", -1), line("d")]
    (drop / "day.jsonl").write_text("".join(f"{each}\n" for each in lines))
    (folder / "mine.py").write_text(DEFINITIONS.format(drop=drop))
    file = xxhash64(f"file:{drop}/day.jsonl".encode()) & (2**63 - 1)
    noon = datetime(2024, 1, 1, 12, tzinfo=UTC)
    stamp = pa.timestamp("us", "UTC")
    kept = [("a", 0, None), ("b", 1, None), (None, 3, "broken rule: bytes are"), ("d", 4, None)]
    rows = pa.table({
        "id": pa.array([one for one, _, _ in kept], pa.string()),
        "time": pa.array([noon] * 4, stamp),
        "bytes": pa.array([1] * 4, pa.int64()),
        "_partition": pa.array([file] * 4, pa.int64()),
        "_offset": pa.array([place for _, place, _ in kept], pa.int64()),
        "_arrival": pa.array([noon] * 4, stamp),
        "_error": pa.array([why for _, _, why in kept], pa.string()),
        "_raw": pa.array([lines[3].encode() if why else None for _, _, why in kept], pa.binary()),
        "_epoch": pa.array([noon] * 4, stamp),
        "day": pa.array([date(2024, 1, 1)] * 4),
    })  # fmt: skip
    said = Commit("q", 1, noon, noon, beat=True, duplicates=1).to_json()
    write_deltalake(
        str(folder / "home/log/people"),
        rows,
        partition_by=["day"],
        commit_properties=CommitProperties(custom_metadata={"userMetadata": said}),
    )
    now = datetime.now(UTC).isoformat()
    (folder / "home/maintenance.json").write_text(json.dumps({"people": now}))
    return folder


def environment(home: Path) -> dict[str, str]:
    """A process that starts a JVM all the same fails."""
    home_and_file = {"BRAID_HOME": str(home / "home"), "BRAID_DEFINITIONS": str(home / "mine.py")}
    return {**os.environ, **home_and_file, "JAVA_HOME": str(home / "nowhere")}


def braid(home: Path, command: str) -> tuple[int, list[str], Any]:
    """The exit code, what was imported of what is heavy, and the answer."""
    words = command.split()
    asked = words if words[-1] in ("cut", "views") and words[0] == "batch" else [*words, "--json"]
    done = subprocess.run(
        [sys.executable, "-c", RUN.format(arguments=asked, heavy=HEAVY)],
        cwd=home, env=environment(home), capture_output=True, text=True, check=False,
    )  # fmt: skip
    *said, last = done.stderr.strip().splitlines()
    code, *heavy = last.split()
    assert not said, done.stderr
    return int(code), heavy, json.loads(done.stdout) if "--json" in asked else done.stdout


@pytest.mark.parametrize("command", READING)
def test_a_command_that_reads_imports_no_spark(command: str, home: Path) -> None:
    code, heavy, _ = braid(home, command)
    assert (code, heavy) == (0, [])


ASK = """
import sys
from fastapi.testclient import TestClient
from braid.cli.serving.serve import other_layers
from braid.runtime.settings import current_settings
from serving_layer.http.app import create_app
from serving_layer.memory.all_views import AllViews
settings = current_settings()
app = create_app(AllViews(settings, 1 << 28), other_layers(settings))
with TestClient(app, base_url="http://127.0.0.1") as client:
    paths = [path for path, found in app.openapi()["paths"].items() if "get" in found and "live" not in path]
    for path in paths:
        asked = path.replace("{view}", "by_day").replace("{source}", "people")
        assert "{" not in asked, asked
        print(asked, client.get(asked).status_code)
print("imported", "pyspark" in sys.modules)
"""


def test_no_answer_of_the_api_imports_spark(home: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ASK], cwd=home, env=environment(home), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answers = dict(line.split() for line in done.stdout.splitlines())
    assert answers["/ledger/people"] == answers["/days/by_day"] == answers["/views"] == "200"
    assert answers.pop("imported") == "False"
    assert set(answers.values()) <= {"200", "400", "503"}, answers


def test_they_say_what_is_there(home: Path) -> None:
    books = braid(home, "ledger people")[2]
    (account,) = books["accounts"]
    assert books["balanced"]
    assert {name: account[name] for name in ("consumed", "accepted", "rejected", "duplicates")} == {
        "consumed": 5, "accepted": 3, "rejected": 1, "duplicates": 1,
    }  # fmt: skip
    ((reason,),) = ([one["reason"] for one in braid(home, "quarantine people")[2]],)
    assert reason == "broken rule: bytes are"
    (day,) = braid(home, "log people")[2]["days"]
    assert (day["accepted"], day["rejected"], day["first_epoch"]) == (3, 1, "2024-01-01T12:00:00Z")
    types = {row["column"]: row["type"] for row in braid(home, "show by_day")[2]["table"]}
    assert types == {
        "day": "date",
        "pane": "timestamp",
        "name": None,
        "count": "bigint",
        "sum_bytes": "decimal(38,0)",
    }


def test_a_line_that_is_neither_in_the_log_nor_a_duplicate_is_lost(tmp_path: Path) -> None:
    home = make_home(tmp_path)
    with (home / "drop/day.jsonl").open("a") as file:
        file.write(line("never seen") + "\n")
    code, heavy, books = braid(home, "ledger people")
    assert (code, heavy, books["balanced"]) == (1, [], False)
    assert [(one["kind"], one["first"], one["last"]) for one in books["violations"]] == [("lost", 5, 5)]


@pytest.mark.parametrize("name", ["a*b", "a[b]", "a b", "aé", "a?b", "a#b"])
def test_a_home_with_an_odd_name_is_read_all_the_same(name: str, tmp_path: Path) -> None:
    """Through Arrow's datasets, as in an object store, where DuckDB would take the name for another one."""
    made = tmp_path / "made"
    made.mkdir()
    source = load_definitions(str(make_home(made) / "mine.py")).source("people")
    home = made.rename(tmp_path / name)
    log = Log(source, Settings(home=str(home / "home")))
    assert [(day["accepted"], day["rejected"]) for day in describe(log)["days"]] == [(3, 1)]
    ((reason, records),) = [(one["reason"], one["records"]) for one in rejected(log)]
    assert (reason, records) == ("broken rule: bytes are", 1)
    assert [row.accepted for row in Arrivals.of(log).rows] == [3]


def test_a_column_that_no_file_has_yet_is_null(tmp_path: Path) -> None:
    place = str(tmp_path / "table")
    day = pa.array([date(2024, 1, 1)])
    write_deltalake(place, pa.table({"a": ["x"], "day": day}), partition_by=["day"])
    late = pa.table({"a": ["y"], "b": ["z"], "day": day})
    write_deltalake(place, late, partition_by=["day"], mode="append", schema_mode="merge")
    with opened("t", place) as database:
        assert database is not None
        assert database.sql("SELECT a, b, day FROM t ORDER BY a").fetchall() == [
            ("x", None, date(2024, 1, 1)),
            ("y", "z", date(2024, 1, 1)),
        ]
        assert version_of(database) == 1
    with opened("t", str(tmp_path / "nothing")) as database:
        assert database is None
