"""Braid as the program of a Spark application, started as Spark on Kubernetes starts a driver in its pod."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from braid.runtime.installation import jars_dir

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent


@pytest.mark.soak
def test_a_driver_in_its_pod_runs_the_streams(tmp_path: Path) -> None:
    import pyspark

    (tmp_path / "drop").mkdir()
    (tmp_path / "definitions.py").write_text(
        "from dataclasses import replace\nfrom braid.examples import weblog\n"
        f"requests = replace(weblog.requests, kafka_topic=None, files='{tmp_path}/drop/*.jsonl')\n"
        "page_traffic = replace(weblog.page_traffic, source=requests)\n"
    )
    environment = os.environ | {
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_DRIVER_BIND_ADDRESS": "127.0.0.1",
        "BRAID_HOME": str(tmp_path / "home"),
        "BRAID_DEFINITIONS": str(tmp_path / "definitions.py"),
        "BRAID_SPARK_MASTER": "local[2]",
    }
    produce = f"produce --events 300 --to {tmp_path}/drop/one.jsonl --truth {tmp_path}/truth"
    subprocess.run([BIN / "braid", *produce.split()], env=environment, check=True)
    # As the operator does it: the configuration in a file, the program by its name, its command behind it.
    properties = tmp_path / "spark.properties"
    properties.write_text(f"spark.master=local[2]\nspark.driver.extraClassPath={jars_dir() / 'spark'}/*\n")
    driver = [
        "driver",
        "--properties-file",
        str(properties),
        str(ROOT / "infra" / "kubernetes" / "braid_app.py"),
    ]
    done = subprocess.run(
        [ROOT / "infra" / "container" / "entrypoint.sh", *driver, "stream", "--ingest", "--once"],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    asked = subprocess.run(
        [BIN / "braid", "query", "page_traffic", "--group", "", "--grain", "1 day", "--json"],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    answer = json.loads(asked.stdout)
    rows = answer["rows"] if isinstance(answer, dict) else answer
    truth = json.loads((tmp_path / "truth").read_text())
    assert sum(row["hits"] for row in rows) == sum(row["hits"] for row in truth["page_traffic"])
