"""On a local disk no commit is lost to another one, no process is started for a file, and names may be anything."""

import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from braid.infra.preflight import java_command
from braid.runtime.installation import jars_dir

RACE = Path(__file__).parents[1] / "java" / "CommitRace.java"
OURS = "braid.LocalCommits"
VERSIONS = 200
ODD_NAMES = ["two words", "100%", "a%20b", "c#d?e", "x=y&z", "größe-日本", "[a]{b}", "colon:name"]


class Race:
    """Threads of one more JVM that commit to a log as soon as they are let go."""

    def __init__(self, log: Path, name: str, store: str = OURS, prefix: tuple[str, ...] = ()) -> None:
        import pyspark

        path = f"{jars_dir() / 'spark'}/*{os.pathsep}{Path(pyspark.__file__).parent / 'jars'}/*"
        command = [
            *prefix,
            java_command(),
            "-cp",
            path,
            str(RACE),
            store,
            str(log),
            "2",
            str(VERSIONS),
            name,
            str(log / "go"),
        ]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def is_ready(self) -> bool:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip() == "ready"

    def won(self) -> list[tuple[int, str]]:
        out, err = self.process.communicate()
        assert self.process.returncode == 0, err
        return [(int(version), writer) for version, writer in map(str.split, out.splitlines())]


def raced(log: Path, store: str = OURS) -> tuple[list[tuple[int, str]], dict[int, set[str]]]:
    """(version, writer) of each commit that a store took from four writers in two processes; what the log holds."""
    log.mkdir()
    races = [Race(log, name, store) for name in ("one", "two")]
    assert all(race.is_ready() for race in races)
    (log / "go").touch()
    won = [commit for race in races for commit in race.won()]
    return won, {int(file.stem): set(file.read_text().splitlines()) for file in log.glob("*.json")}


def test_of_four_writers_in_two_processes_exactly_one_makes_each_commit(tmp_path: Path) -> None:
    won, there = raced(tmp_path / "log")
    assert Counter(version for version, _ in won) == Counter(range(VERSIONS))
    assert there == {version: {writer} for version, writer in won}
    assert len({writer.split("-")[0] for _, writer in won}) == 2, (
        "one process was done before the other began"
    )
    assert not list((tmp_path / "log").glob(".*"))


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace plays the disk without hard links")
def test_a_disk_without_hard_links_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "go").touch()
    refuse = ("strace", "-f", "-qq", "-o", os.devnull, "-e", "inject=link,linkat:error=EPERM")
    process = Race(tmp_path, "one", prefix=refuse).process
    _, err = process.communicate()
    assert process.returncode == 1
    assert f"a commit could not be linked into {tmp_path}" in err
    assert "Choose a folder on another disk." in err
    assert list(tmp_path.glob("*.json")) == []


@pytest.fixture
def store(spark: Any) -> Any:
    return spark._jvm.braid.LocalCommits(spark._jsc.hadoopConfiguration())


def hadoop_path(spark: Any, file: Path) -> Any:
    return spark._jvm.org.apache.hadoop.fs.Path(spark._jvm.java.io.File(str(file)).toURI())


def write(spark: Any, store: Any, file: Path, *lines: str, overwrite: bool = False) -> None:
    texts = spark._jvm.java.util.ArrayList()
    for line in lines:
        texts.add(line)
    conf = spark._jsc.hadoopConfiguration()
    store.write(hadoop_path(spark, file), texts.iterator(), overwrite, conf)


def listed(spark: Any, store: Any, first: Path) -> list[Any]:
    found, statuses = store.listFrom(hadoop_path(spark, first), spark._jsc.hadoopConfiguration()), []
    while found.hasNext():
        statuses.append(found.next())
    return statuses


def test_a_listing_begins_where_it_is_told_in_order_and_without_what_has_gone(
    spark: Any, store: Any, tmp_path: Path
) -> None:
    for name in ("3.json", "1.json", "2.json", ".0.json.crc", "_last_checkpoint"):
        (tmp_path / name).write_text("x")
    (tmp_path / "4.json").symlink_to(tmp_path / "gone")
    os.utime(tmp_path / "2.json", (0, 0))
    names = [status.getPath().getName() for status in listed(spark, store, tmp_path / "2")]
    assert names == ["2.json", "3.json", "_last_checkpoint"]


def test_a_listing_says_what_hadoop_says_of_files_and_folders(spark: Any, store: Any, tmp_path: Path) -> None:
    for name in ODD_NAMES:
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
        (tmp_path / f"{name}.json").write_text(name)
    folder = hadoop_path(spark, tmp_path)
    system = folder.getFileSystem(spark._jsc.hadoopConfiguration())

    def said(statuses: Any) -> list[tuple[Any, ...]]:
        return sorted(
            (s.getPath().toString(), s.getPath().getName(), s.isDirectory(), s.getModificationTime())
            for s in statuses
        )

    ours = listed(spark, store, tmp_path / "!")
    assert said(ours) == said(system.listStatus(folder))
    assert {s.getPath().getName(): s.getLen() for s in ours if s.isFile()} == {
        f"{name}.json": len(name.encode()) for name in ODD_NAMES
    }


def test_a_commit_is_refused_where_there_is_one_and_a_pointer_is_replaced(
    spark: Any, store: Any, tmp_path: Path
) -> None:
    from py4j.protocol import Py4JJavaError

    commit, pointer = tmp_path / "0.json", tmp_path / "_last_checkpoint"
    write(spark, store, commit, "first")
    with pytest.raises(Py4JJavaError, match="FileAlreadyExistsException"):
        write(spark, store, commit, "second")
    assert commit.read_text() == "first\n"
    # As another Delta left it: Hadoop checks a file against the checksum beside it.
    system = hadoop_path(spark, pointer).getFileSystem(spark._jsc.hadoopConfiguration())
    system.create(hadoop_path(spark, pointer)).close()
    assert (tmp_path / "._last_checkpoint.crc").exists()
    write(spark, store, pointer, "größe", overwrite=True)
    stream = system.open(hadoop_path(spark, pointer))
    assert bytes(stream.readAllBytes()).decode() == "größe\n"
    stream.close()
    assert {file.name for file in tmp_path.iterdir()} == {"0.json", "_last_checkpoint"}


@pytest.mark.parametrize("name", ["100% größe [a]{b}", "a%20b c#d?e x=y&z"])
def test_a_table_may_have_any_name_and_survives_a_vacuum(spark: Any, tmp_path: Path, name: str) -> None:
    from delta.tables import DeltaTable

    table = str(tmp_path / name)
    rows = spark.range(4).selectExpr("id", f"concat('{name} ', id % 2) as part").coalesce(1)
    for _ in range(2):
        rows.write.format("delta").mode("overwrite").partitionBy("part").save(table)
    is_checked = "spark.databricks.delta.retentionDurationCheck.enabled"
    spark.conf.set(is_checked, "false")
    try:
        DeltaTable.forPath(spark, table).vacuum(0)
    finally:
        spark.conf.unset(is_checked)
    assert spark.read.format("delta").load(table).count() == 4
    assert len(list(Path(table).glob("*/*.parquet"))) == 2, "the files of the first write are still there"
    assert len(list(Path(table, "_delta_log").glob("*.json"))) >= 2


def test_tables_and_checkpoints_are_written_without_starting_a_process(spark: Any, tmp_path: Path) -> None:
    # Spark itself starts one now and then, such as `getconf` once; with a process a file, no round had none.
    rounds = [faults_during(spark, partial(copy, spark, tmp_path / str(n))) for n in range(3)]
    assert min(rounds) == 0
    command = spark.sparkContext._gateway.new_array(spark._jvm.java.lang.String, 1)
    command[0] = "true"
    assert faults_during(spark, lambda: spark._jvm.org.apache.hadoop.util.Shell.execCommand(command)) > 0


def copy(spark: Any, folder: Path) -> None:
    """A table, and a stream from it into another."""
    spark.range(10).write.format("delta").save(f"{folder}/table")
    stream = spark.readStream.format("delta").load(f"{folder}/table").writeStream.format("delta")
    stream = stream.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True)
    stream.start(f"{folder}/copy").awaitTermination()
    assert spark.read.format("delta").load(f"{folder}/copy").count() == 10


def faults_during(spark: Any, act: Callable[[], object]) -> int:
    before = faults_of_children(spark)
    act()
    return faults_of_children(spark) - before


def faults_of_children(spark: Any) -> int:
    """The page faults of all processes that Spark's JVM has started and seen end; each has some."""
    pid = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
    stat = Path(f"/proc/{pid}/stat")
    if not stat.exists():
        pytest.skip("only Linux counts what the children of a process did")
    # Behind the name in brackets, which may have spaces: state, parent, ..., and at 8 the faults of children.
    return int(stat.read_text().rsplit(")", 1)[1].split()[8])
