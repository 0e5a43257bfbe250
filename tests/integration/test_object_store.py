"""The whole flow with its data in an S3 store: the same numbers, and no commit that another one replaces."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from braid.infra.preflight import java_command
from braid.runtime import documents, object_store
from braid.runtime.installation import jars_dir, optional_dir
from braid.runtime.settings import Settings
from braid.runtime.spark import session_config
from tests.conftest import Answer
from tests.processes import command_lines
from tests.s3 import BUCKET, SECRET, Store, s3_store
from tests.waiting import until

RACE = Path(__file__).parents[1] / "java" / "CommitRace.java"
BRAID = str(Path(sys.executable).with_name("braid"))
VERSIONS = 200
# Each version is a race of its own: a writer that was refused is slower than one that was not, and would stay behind.
APART_MS = 50
DEFINITIONS = """\
from dataclasses import replace
from braid import count, sum_, tumbling
from braid.examples import weblog
requests = replace(weblog.requests, kafka_topic=None, files="s3a://braid/drop/*.jsonl")
pages = replace(weblog.page_traffic, name="pages", source=requests, window=tumbling("1 day"),
                measures={"hits": count(), "bytes": sum_("bytes")})
folded = replace(pages, name="folded", mode="kappa")
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with s3_store(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture
def in_s3(store: Store, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a folder in the store that the variables of this process lead to."""
    for name, value in store.environment.items():
        monkeypatch.setenv(name, value)
    return f"s3a://{BUCKET}"


def test_without_a_home_in_s3_nothing_of_it_is_configured() -> None:
    assert object_store.spark_config("/data") == {}
    assert object_store.delta_options("/data") is None
    assert object_store.delta_address("/data") == "/data"


def test_keys_are_in_no_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9000")
    config = object_store.spark_config("s3a://bucket/home")
    assert config["spark.hadoop.fs.s3a.endpoint"] == "http://127.0.0.1:9000"
    assert SECRET not in str(config) + str(object_store.delta_options("s3a://bucket/home"))


def test_a_session_for_s3_says_how_to_get_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    from braid.errors import BraidError
    from braid.runtime import installation

    monkeypatch.setattr(installation, "optional_dir", lambda name: Path("/nowhere"))
    with pytest.raises(BraidError, match=r"no s3 jars in .*: run `braid setup s3` to fetch them"):
        session_config(Settings(home="s3a://bucket/home"), 2)


def test_documents_are_read_listed_and_replaced_in_the_store(in_s3: str) -> None:
    folder = f"{in_s3}/documents"
    assert documents.read(f"{folder}/a.json") is None
    assert documents.names(folder) == []
    documents.write(f"{folder}/a.json", "one")
    documents.write(f"{folder}/a.json", "two")
    assert documents.read(f"{folder}/a.json") == "two"
    assert documents.names(folder) == ["a.json"]


def test_the_doctor_says_whether_the_store_lets_one_in(
    braid: Callable[..., Answer], in_s3: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRAID_HOME", f"{in_s3}/home")
    well = braid("doctor", "--json")
    assert well.code == 0, well.out
    assert f"{in_s3}/home can be listed at http://127.0.0.1:" in well.out
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    refused = braid("doctor", "--json")
    assert refused.code == 2
    assert f"{in_s3}/home cannot be listed" in refused.out
    assert "Traceback" not in refused.err


def race(store: Store, folder: Path, log: str, name: str, commits: str) -> "subprocess.Popen[str]":
    import pyspark

    options = {
        "fs.s3a.endpoint": store.address, "fs.s3a.path.style.access": "true", "fs.s3a.endpoint.region": "us-east-1",
        "fs.s3a.aws.credentials.provider": object_store.CREDENTIALS,
    }  # fmt: skip
    properties = "".join(
        f"<property><name>{k}</name><value>{v}</value></property>" for k, v in options.items()
    )
    (folder / "core-site.xml").write_text(f"<configuration>{properties}</configuration>")
    parts = (jars_dir() / "spark", optional_dir("s3") / "s3", Path(pyspark.__file__).parent / "jars")
    path = os.pathsep.join([str(folder), *(f"{part}/*" for part in parts)])
    command = [
        java_command(),
        "-cp",
        path,
        str(RACE),
        commits,
        log,
        "2",
        str(VERSIONS),
        name,
        str(folder / "go"),
        str(APART_MS),
    ]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | store.environment
    )


def test_of_four_writers_in_two_processes_exactly_one_makes_each_commit(store: Store, tmp_path: Path) -> None:
    log = f"s3a://{BUCKET}/race/_delta_log"
    races = [race(store, tmp_path, log, name, "braid.S3Commits") for name in ("one", "two")]
    for each in races:
        assert each.stdout is not None
        assert each.stdout.readline().strip() == "ready", each.communicate()[1]
    (tmp_path / "go").touch()
    won: list[tuple[int, str]] = []
    for each in races:
        out, err = each.communicate()
        assert each.returncode == 0, err
        won += [(int(version), writer) for version, writer in map(str.split, out.splitlines())]
    assert Counter(version for version, _ in won) == Counter(range(VERSIONS))
    assert {writer.split("-")[0] for _, writer in won} == {"one", "two"}, "there was no race"
    files = store.files()
    for version, writer in won:
        with files.open_input_stream(f"{BUCKET}/race/_delta_log/{version:020d}.json") as commit:
            assert set(commit.readall().decode().splitlines()) == {writer}


@pytest.fixture
def stage(store: Store, tmp_path: Path) -> dict[str, str]:
    """The environment of commands whose home, and whose files, are in the store."""
    (tmp_path / "definitions.py").write_text(DEFINITIONS)
    return os.environ | store.environment | {
        "BRAID_HOME": f"s3a://{BUCKET}/home",
        "BRAID_DEFINITIONS": str(tmp_path / "definitions.py"),
        "BRAID_SPARK_MASTER": "local[2]",
        "BRAID_SPARK_MEMORY": "1g",
        "BRAID_EPOCH": "5 seconds",
        "BRAID_FOLD_EVERY": "10 seconds",
    }  # fmt: skip


def run(stage: dict[str, str], *arguments: str) -> str:
    done = subprocess.run([BRAID, *arguments], env=stage, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert SECRET not in done.stdout + done.stderr
    return done.stdout


def drop(stage: dict[str, str], store: Store, folder: Path, seed: int) -> dict[str, Any]:
    """A file of nasty events into the store; the exact expected answer."""
    file, truth = folder / f"{seed}.jsonl", folder / f"{seed}.truth"
    disorder = "--late 0.2 --duplicates 0.05 --malformed 0.03 --out-of-order 0.1"
    run(stage, *f"produce --events 1500 --seed {seed} --to {file} --truth {truth} {disorder}".split())
    with store.files().open_output_stream(f"{BUCKET}/drop/{file.name}") as stream:
        stream.write(file.read_bytes())
    answer: dict[str, Any] = json.loads(truth.read_text())
    return answer


def expected(*truths: dict[str, Any]) -> Counter[tuple[str, str, str]]:
    found: Counter[tuple[str, str, str]] = Counter()
    for row in (row for truth in truths for row in truth["page_traffic"]):
        for what in ("hits", "bytes"):
            found[row["day"], row["url"], what] += row[what] or 0
    return found


def asked(stage: dict[str, str], view: str) -> Counter[tuple[str, str, str]]:
    rows = json.loads(run(stage, "query", view, "--json"))
    rows = rows["rows"] if isinstance(rows, dict) else rows
    return Counter(
        {
            (row["window_start"][:10], row["url"], what): row[what] or 0
            for row in rows
            for what in ("hits", "bytes")
        }
    )


@pytest.mark.soak
def test_the_flow_gives_the_exact_numbers_also_after_a_kill(
    stage: dict[str, str], store: Store, tmp_path: Path
) -> None:
    first = drop(stage, store, tmp_path, seed=1)
    with (tmp_path / "said").open("w") as said:
        engine = subprocess.Popen([BRAID, "stream", "--ingest"], env=stage, stdout=said, stderr=said)
    try:
        until(lambda: asked_or_nothing(stage, "pages") == expected(first))
        seen = command_lines(engine.pid)
        assert "java" in seen
        assert SECRET not in str(seen)
        second = drop(stage, store, tmp_path, seed=2)
    finally:
        for process in psutil.Process(engine.pid).children(recursive=True):
            process.kill()
        engine.kill()
        engine.wait()
    assert SECRET not in (tmp_path / "said").read_text()
    run(stage, "stream", "--ingest", "--once")
    truth = expected(first, second)
    assert json.loads(run(stage, "ledger", "requests", "--json"))["balanced"] is True
    assert asked(stage, "pages") == truth
    assert asked(stage, "folded") == truth
    run(stage, "batch", "run")
    assert asked(stage, "pages") == truth
    run(stage, "compare", "pages")
    run(stage, "maintain")
    # What is malformed stays so, and is accounted for all the same.
    assert json.loads(run(stage, "quarantine", "requeue", "requests", "--json"))["requeued"] > 0
    run(stage, "stream", "--ingest", "--once")
    assert json.loads(run(stage, "ledger", "requests", "--json"))["balanced"] is True
    assert asked(stage, "pages") == truth


def asked_or_nothing(stage: dict[str, str], view: str) -> Counter[tuple[str, str, str]]:
    done = subprocess.run(
        [BRAID, "query", view, "--json"], env=stage, capture_output=True, text=True, check=False
    )
    return asked(stage, view) if done.returncode == 0 else Counter()
