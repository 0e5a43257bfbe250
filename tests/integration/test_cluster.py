"""A Spark cluster of processes on this machine: it comes and goes whole, and only who knows its secret is let in."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from deltalake import DeltaTable

from braid.errors import BraidError
from braid.infra import cluster as local
from braid.infra.cluster_files import LocalCluster
from tests.cluster import environment, running_cluster, worker
from tests.conftest import Answer, free_port

BRAID = str(Path(sys.executable).with_name("braid"))
SECRET = "only for this test"

# What an application sees from inside its executors, before it reads a line and ends.
PROBE = """
import json, sys
from braid.runtime.settings import load_settings
from braid.runtime.spark import spark_session
from pyspark.sql import functions as F

settings = load_settings()
spark = spark_session(settings, "probe")

@F.udf("string")
def interpreter(_):
    import sys
    return sys.executable

table = settings.location("numbers")
spark.range(1000, numPartitions=2).write.format("delta").save(table)
print(json.dumps({
    "pythons": sorted({row[0] for row in spark.range(4, numPartitions=2).select(interpreter("id")).collect()}),
    "cores": spark.sparkContext.getConf().get("spark.cores.max"),
    "executors": spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1,
    "files": spark.sparkContext.getConf().get("spark.hadoop.fs.file.impl"),
}), flush=True)
sys.stdin.readline()
"""

STARVED = """
from functools import partial
from braid.runtime import spark_cluster
from braid.errors import BraidError
from braid.runtime.settings import load_settings
from braid.runtime.spark import spark_session

spark_cluster.wait_for_executor = partial(spark_cluster.wait_for_executor, patience=3.0)
try:
    spark_session(load_settings(), "starved")
except BraidError as error:
    print(error)
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with running_cluster(
        tmp_path_factory.mktemp("cluster") / "cluster", SECRET, workers=2, cores=1, memory="1g"
    ) as made:
        yield made


def run(code: str, home: Path, cluster: LocalCluster, **more: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env=os.environ | environment(cluster, BRAID_HOME=str(home), **more),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_an_application_works_on_both_workers_with_its_own_python_and_shows_no_secret(
    cluster: LocalCluster, home: Path
) -> None:
    # Without the folder of the Python in front: executors must find it all the same.
    process = run(PROBE, home, cluster, PATH="/usr/local/bin:/usr/bin:/bin")
    assert process.stdout is not None
    line = process.stdout.readline()
    lines_of_commands = [" ".join(p.info["cmdline"] or ()) for p in psutil.process_iter(["cmdline"])]
    listening = [
        connection.laddr.ip
        for member, _ in cluster.processes()
        for connection in member.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    ]
    _, said = process.communicate("\n")
    assert line, said
    assert json.loads(line) == {
        "pythons": [sys.executable], "cores": "2", "executors": 2, "files": "braid.LocalFiles",
    }  # fmt: skip
    assert DeltaTable(str(home / "numbers")).to_pyarrow_table().num_rows == 1000
    assert not [shown for shown in lines_of_commands if SECRET in shown]
    assert {address.removeprefix("::ffff:") for address in listening} == {"127.0.0.1"}


@pytest.mark.parametrize("secret", ["another", pytest.param("", marks=pytest.mark.soak)])
def test_an_application_without_the_secret_is_refused_in_one_sentence(
    cluster: LocalCluster, home: Path, secret: str
) -> None:
    answer = subprocess.run(
        [BRAID, "check"],
        env=os.environ | environment(cluster, BRAID_HOME=str(home), BRAID_SPARK_SECRET=secret),
        capture_output=True, text=True, check=False, timeout=50,
    )  # fmt: skip
    assert answer.returncode == 2, answer.stderr
    assert "does not let in an application" in answer.stderr
    assert "BRAID_SPARK_SECRET" in answer.stderr
    assert "Exception" not in answer.stderr


@pytest.mark.soak
def test_an_application_that_gets_no_executor_says_what_it_wants(cluster: LocalCluster, home: Path) -> None:
    out, said = run(STARVED, home, cluster, BRAID_SPARK_EXECUTOR_MEMORY="900g").communicate()
    assert "nothing free" in out, said
    assert "2 cores with 900g" in out


def test_a_master_that_does_not_answer_is_named_at_once(
    braid: Callable[..., Answer], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    master = f"spark://127.0.0.1:{free_port()}"
    monkeypatch.setenv("BRAID_SPARK_MASTER", master)
    # A process of its own: in this one there may be a session already, which would be used.
    answer = subprocess.run([BRAID, "check"], capture_output=True, text=True, check=False)
    assert answer.returncode == 2
    assert f"no Spark master answers on {master}" in " ".join(answer.stderr.split())
    assert "Traceback" not in answer.stderr
    doctor = json.loads(braid("doctor", "--json").out)
    assert {check["name"]: check["ok"] for check in doctor["checks"]}["spark"] is False


@pytest.mark.parametrize("master", ["spark://nowhere", "spark://:7077", "spark://host:port"])
def test_an_address_that_is_none_is_refused(
    braid: Callable[..., Answer], home: Path, monkeypatch: pytest.MonkeyPatch, master: str
) -> None:
    monkeypatch.setenv("BRAID_SPARK_MASTER", master)
    answer = braid("check")
    assert answer.code == 2
    assert "spark://host:port" in answer.err


def test_the_commands_start_complete_report_and_stop(
    braid: Callable[..., Answer], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRAID_CLUSTER_PORT", str(free_port()))
    monkeypatch.setenv("BRAID_CLUSTER_UI_PORT", str(free_port()))
    assert braid("cluster", "status").code == 1
    try:
        started = braid("cluster", "start", "--workers", "2", "--cores", "1")
        assert started.code == 0, started.err
        assert "everybody on this machine" in started.out
        here = LocalCluster(
            home / "cluster",
            int(os.environ["BRAID_CLUSTER_PORT"]),
            int(os.environ["BRAID_CLUSTER_UI_PORT"]),
            "",
        )
        before = here.leaders()
        victim = worker(here)
        victim.kill()
        victim.wait(10)
        assert braid("cluster", "status", "--json").code == 1
        assert braid("cluster", "start").code == 0
        assert here.leaders()["master"] == before["master"]
        assert here.leaders()["worker-2"] == before["worker-2"]
        present: dict[str, Any] = json.loads(braid("cluster", "status", "--json").out)
        assert (present["healthy"], present["workers_alive"], present["cores"]) == (True, 2, 2)
        other = braid("cluster", "start", "--workers", "3")
        assert other.code == 2
        assert "runs already with 2 workers" in other.err
        monkeypatch.setenv("BRAID_SPARK_SECRET", "new")
        assert "another BRAID_SPARK_SECRET" in braid("cluster", "start").err
    finally:
        stopped = braid("cluster", "stop")
    assert "has stopped" in stopped.out
    assert here.processes() == []
    assert "was not running" in braid("cluster", "stop").out


def test_a_taken_port_is_refused_with_the_setting_to_change(cluster: LocalCluster, tmp_path: Path) -> None:
    rival = LocalCluster(tmp_path / "cluster", cluster.port, free_port(), "")
    with pytest.raises(BraidError, match=f"port {cluster.port} .* BRAID_CLUSTER_PORT"):
        local.start(rival)
    assert rival.processes() == []
