"""Where the demo plays: a home of its own, the platform and Airflow on free ports, and how both are asked."""

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from rich.markup import escape
from rich.status import Status

from braid.cli.output import errors
from braid.errors import CheckFailed
from braid.infra.services.service import free_port, open_local

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
        command = f"braid {' '.join(arguments)}"
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            with subprocess.Popen(
                [BRAID, *arguments], env=self.environment, stdout=out, stderr=err
            ) as running:
                started = time.monotonic()
                try:
                    while not _ended(running):
                        waiting_for(f"`{command}` to end", f"{time.monotonic() - started:.0f} s")
                except BaseException:
                    running.kill()
                    raise
            printed, said = (file.read() for file in (out, err) if file.seek(0) == 0)
        with self._log() as log:
            log.write(f"$ {command}\n{said}\n".encode())
        if running.returncode != 0:
            raise CheckFailed(f"`{command}` ended with {running.returncode}: {said.strip()}")
        return printed

    def get(self, path: str, **parameters: str | int) -> Any:
        """What the API answers; None while it does not."""
        query = f"?{urllib.parse.urlencode(parameters)}" if parameters else ""
        try:
            with open_local(f"{self.api}{path}{query}", timeout=30) as answer:
                return json.loads(answer.read())
        except OSError:
            return None

    def wait(
        self,
        condition: Callable[[], bool],
        what: str,
        seconds: float = 240.0,
        numbers: Callable[[], str] = str,
    ) -> None:
        """Until it is so; meanwhile `numbers` say how far it is. What takes that long will not come any more."""
        deadline = time.monotonic() + seconds
        while not condition():
            waiting_for(what, numbers())
            if time.monotonic() > deadline:
                raise CheckFailed(
                    f"waited {seconds:.0f} s in vain for {what}: {self.home}/demo.log says more."
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
        "BRAID_DEFINITIONS": "braid.examples.demo",
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
            platform.wait(
                lambda: _is_up(platform, process), "the platform to run", numbers=lambda: _running(platform)
            )
            platform.wait(lambda: airflow.poll() is not None, "Airflow to run", numbers=_seconds())
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


def _running(platform: DemoPlatform) -> str:
    status = platform.get("/status") or {}
    queries = [query for process in status.get("processes", []) for query in process["queries"]]
    return f"{len(queries)} queries run" if status else "serving does not answer yet"


def _seconds() -> Callable[[], str]:
    started = time.monotonic()
    return lambda: f"{time.monotonic() - started:.0f} s"


def _ended(process: "subprocess.Popen[Any]") -> bool:
    try:
        process.wait(0.2)
    except subprocess.TimeoutExpired:
        return False
    return True


@dataclass
class _Said:
    """The step that is played, the line that tells of it, and what was said last where nobody looks at a terminal."""

    what: str
    line: Status
    at: float
    words: str = ""


_steps: list[_Said] = []
# Seconds between two lines in a file; a terminal's line is renewed at once.
BETWEEN_LINES = 5.0


def waiting_for(what: str, numbers: str) -> None:
    """Says what the step waits for, with numbers that move."""
    if not _steps:
        return
    said, words = _steps[-1], f"waiting for {what}{f' ({numbers})' if numbers else ''}"
    said.line.update(f"{said.what}: {escape(words)} ...")
    if not errors.is_terminal and words != said.words and time.monotonic() - said.at > BETWEEN_LINES:
        errors.print(f"    {words}", highlight=False, markup=False, soft_wrap=True)
        said.at, said.words = time.monotonic(), words


@contextmanager
def step(what: str) -> Iterator[None]:
    """Says what is being done while it is done, and how long it took."""
    started = time.monotonic()
    with errors.status(f"{what} ...") as line:
        _steps.append(_Said(what, line, started))
        try:
            yield
        finally:
            _steps.pop()
    errors.print(f"  {what}: {time.monotonic() - started:.1f} s", highlight=False)
