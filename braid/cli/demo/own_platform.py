"""Where the demo plays: a home of its own, the platform and Airflow on free ports, and how both are asked."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from braid.cli.output import errors
from braid.errors import CheckFailed
from infra.services.service import open_local

BRAID = str(Path(sys.executable).with_name("braid"))


@dataclass(frozen=True)
class DemoPlatform:
    """The demo's own platform. Everything is done as a person would do it: by commands, and over HTTP."""

    home: Path
    environment: dict[str, str]
    airflow_port: int

    @property
    def api(self) -> str:
        return f"http://127.0.0.1:{self.environment['BRAID_SERVE_PORT']}"

    def start(self, *arguments: str) -> "subprocess.Popen[bytes]":
        """A command in the background; what it says is in a file of the home."""
        return subprocess.Popen(
            [BRAID, *arguments], env=self.environment, stdout=self._log(), stderr=subprocess.STDOUT
        )

    def run(self, *arguments: str) -> str:
        """What a command prints; one that fails ends the demo with what it said."""
        done = subprocess.run(
            [BRAID, *arguments], env=self.environment, capture_output=True, text=True, check=False
        )
        with self._log() as log:
            log.write(f"$ braid {' '.join(arguments)}\n{done.stderr}\n".encode())
        if done.returncode != 0:
            raise CheckFailed(
                f"`braid {' '.join(arguments)}` ended with {done.returncode}: {done.stderr.strip()}"
            )
        return done.stdout

    def get(self, path: str, **parameters: str | int) -> Any:
        """What the API answers; None while it does not."""
        query = f"?{urllib.parse.urlencode(parameters)}" if parameters else ""
        try:
            with open_local(f"{self.api}{path}{query}", timeout=30) as answer:
                return json.loads(answer.read())
        except OSError:
            return None

    def wait(self, condition: Callable[[], bool], what: str, seconds: float = 240.0) -> None:
        """Until it is so. What takes that long will not come any more."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise CheckFailed(
                    f"waited {seconds:.0f} s in vain until {what}: {self.home}/demo.log says more."
                )
            time.sleep(0.2)

    def _log(self) -> IO[bytes]:
        return (self.home / "demo.log").open("ab")


def make_platform(home: Path) -> DemoPlatform:
    """Ports that are free now: the demo must not disturb what runs."""
    home.mkdir(parents=True)
    names = ("KAFKA_PORT", "KAFKA_CONTROLLER_PORT", "HEALTH_PORT", "SERVE_PORT")
    settings = {f"BRAID_{name}": str(free_port()) for name in names}
    settings |= {
        "BRAID_HOME": str(home),
        "BRAID_DEFINITIONS": "examples.demo",
        # Ingest closes an epoch before the next begins; a demo does not wait a minute for that.
        "BRAID_EPOCH": "5 seconds",
        "BRAID_KAFKA_BOOTSTRAP": "",
    }
    kept = {name: value for name, value in os.environ.items() if not name.startswith("BRAID_")}
    return DemoPlatform(home, kept | settings, free_port())


@contextmanager
def playing(platform: DemoPlatform) -> Iterator[None]:
    """The platform and Airflow, from here to the end of the block; nobody is left behind."""
    airflow = platform.start("airflow", "up", "--port", str(platform.airflow_port))
    process = platform.start("up")
    try:
        with step("starting Kafka, ingest, streams, serving, and Airflow beside them"):
            platform.wait(lambda: _is_up(platform, process), "the platform runs")
            platform.wait(lambda: airflow.poll() is not None, "Airflow runs")
            if airflow.returncode != 0:
                raise CheckFailed(f"Airflow did not start: {platform.home}/demo.log says why.")
        yield
    finally:
        with step("stopping everything"):
            for one in (airflow, process):
                if one.poll() is None:
                    one.terminate()
                one.wait()
            subprocess.run(
                [BRAID, "airflow", "down"], env=platform.environment, capture_output=True, check=False
            )


def _is_up(platform: DemoPlatform, process: "subprocess.Popen[bytes]") -> bool:
    if process.poll() is not None:
        raise CheckFailed(f"`braid up` ended with {process.returncode}: {platform.home}/demo.log says why.")
    found = platform.get("/views")
    status = platform.get("/status") if found else None
    queries = [query for process in (status or {}).get("processes", []) for query in process["queries"]]
    return any(query["kind"] == "ingest" and query["state"] != "stopped" for query in queries)


@contextmanager
def step(what: str) -> Iterator[None]:
    """Says what is being done while it is done, and how long it took."""
    started = time.monotonic()
    with errors.status(f"{what} ..."):
        yield
    errors.print(f"  {what}: {time.monotonic() - started:.1f} s", highlight=False)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
