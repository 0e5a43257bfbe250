"""A real schema registry, Apicurio, which `make registry` fetches, and how a schema is registered in it."""

import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from braid.infra.preflight import java_command
from braid.runtime.installation import optional_dir
from tests.conftest import free_port
from tests.waiting import until

AVRO = "application/vnd.schemaregistry.v1+json"


@contextmanager
def schema_registry(folder: Path) -> Iterator[str]:
    """Its address, as a client of Confluent's would be given it; its schemas are in memory and go with it."""
    programs = list((optional_dir("registry") / "program").glob("*-runner.jar"))
    if not programs:
        pytest.skip("needs a schema registry: `make registry` fetches it")
    port = free_port()
    command = [java_command(), "-Xmx384m", f"-Dquarkus.http.port={port}", "-Dquarkus.http.host=127.0.0.1"]
    with (folder / "registry.log").open("w") as said:
        process = subprocess.Popen([*command, "-jar", str(programs[0])], stdout=said, stderr=said, cwd=folder)
    address = f"http://127.0.0.1:{port}/apis/ccompat/v7"
    try:
        until(lambda: _answers(address) or process.poll() is not None, 120)
        assert process.poll() is None, (folder / "registry.log").read_text()[-2000:]
        yield address
    finally:
        process.terminate()
        process.wait(30)


def register(address: str, subject: str, schema: dict[str, Any]) -> int:
    """The id that the registry gives it, which is the same if it knows it already."""
    body = json.dumps({"schema": json.dumps(schema)}).encode()
    asked = urllib.request.Request(f"{address}/subjects/{subject}/versions", body, {"Content-Type": AVRO})
    with urllib.request.urlopen(asked, timeout=30) as answer:
        return int(json.load(answer)["id"])


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/subjects", timeout=5) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False
