"""What each command costs, and how many Spark jobs it runs: `python -m bench.commands [--events N] [--beside FOLDER]`.

Every command runs as a person would run it, in a process of its own, on a home and a broker of this program's own: once
for this checkout and once for another one (`--beside ../other`), step by step in turns, so that both have the same
machine at the same time. Processor time is that of the command and of its JVM.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from bench.shared.common import ResultRow, arguments, own_broker, scratch_folder, show

VIEW, SOURCE = "page_traffic", "requests"
STORY = (
    "views", "check", f"show {VIEW}", "ingest --once", f"ledger {SOURCE}", f"log {SOURCE}", f"quarantine {SOURCE}",
    "stream --once", "batch plan", "batch run", "batch board", "batch cut", "batch views", f"query {VIEW}",
    f"kappa replay {VIEW}", "kappa status", f"kappa compare {VIEW}", f"kappa promote {VIEW}", f"compare {VIEW}",
    "maintain", "maintain --every 12h",
)  # fmt: skip
READING = (
    "show", "ledger", "log", "quarantine", "batch plan", "batch board", "batch cut", "batch views", "kappa status",
    "maintain --every",
)  # fmt: skip
# Runs a command as `braid` does, and says at the end how many jobs Spark has run and what all of it took.
RUN = """
import contextlib, json, sys, psutil
from braid.cli import run
code = 0
try:
    run(sys.argv[2:])
except SystemExit as end:
    code = end.code or 0
jobs = 0
if "pyspark" in sys.modules:
    from pyspark import SparkContext
    context = SparkContext._active_spark_context
    if context is not None:
        jobs = int(context._jsc.sc().dagScheduler().nextJobId())
here = psutil.Process()
spent = 0.0
for one in (here, *here.children(recursive=True)):
    with contextlib.suppress(psutil.Error):
        spent += sum(one.cpu_times()[:2])
open(sys.argv[1], "w").write(json.dumps({"code": code, "jobs": jobs, "cpu": spent}))
"""


@dataclass(frozen=True)
class Spent:
    """What one command took: seconds, seconds of processors, and Spark's jobs; its exit code."""

    seconds: float
    cpu: float
    jobs: int
    code: int

    def __str__(self) -> str:
        failed = f", exit code {self.code}" if self.code else ""
        return f"{self.seconds:.1f} s, cpu {self.cpu:.1f} s, {self.jobs} jobs{failed}"


def python_of(checkout: Path) -> str:
    """Its own environment where it has one: another Spark is part of another checkout."""
    own = checkout / ".venv" / "bin" / "python"
    return str(own) if own.exists() else sys.executable


def spend(checkout: Path, folder: Path, variables: dict[str, str], command: str) -> Spent:
    noted = folder / "spent.json"
    noted.unlink(missing_ok=True)
    started = time.monotonic()
    with (folder / "said.log").open("a") as log:
        log.write(f"$ braid {command}\n")
        log.flush()
        subprocess.run(
            [python_of(checkout), "-c", RUN, str(noted), *command.split()],
            env=variables | {"PYTHONPATH": str(checkout)}, cwd=folder, stdout=log, stderr=log, check=False,
        )  # fmt: skip
    seconds = time.monotonic() - started
    found = json.loads(noted.read_text()) if noted.exists() else {"cpu": 0, "jobs": 0, "code": 70}
    return Spent(seconds, float(found["cpu"]), int(found["jobs"]), int(found["code"]))


def play(checkouts: dict[str, Path], folder: Path, events: int, days: int) -> dict[str, dict[str, Spent]]:
    """Command -> whose checkout -> what it took."""
    homes, spent = {}, {}
    with own_broker(folder / "broker") as settings:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("BRAID_")}
        for name in checkouts:
            home = folder / name
            home.mkdir()
            homes[name] = kept | {
                "BRAID_HOME": str(home / "home"), "BRAID_DEFINITIONS": "braid.examples.weblog",
                "BRAID_KAFKA_BOOTSTRAP": settings.bootstrap,
            }  # fmt: skip
        sent = f"produce --events {events} --days {days} --late 0.1 --duplicates 0.02 --malformed 0.01"
        first = next(iter(checkouts))
        spend(checkouts[first], folder / first, homes[first], sent)
        for command in STORY:
            spent[command] = {
                name: spend(checkout, folder / name, homes[name], command)
                for name, checkout in checkouts.items()
            }
            print(
                command,
                *(f"{name}: {one}" for name, one in spent[command].items()),
                sep="; ",
                file=sys.stderr,
            )
    return spent


def row(command: str, spent: dict[str, Spent], views: dict[str, Spent]) -> ResultRow:
    here, beside = spent["here"], spent.get("beside")
    reads = command.startswith(READING)
    wanted = "cpu of at most 2 x `views`, no job" if reads else ""
    ratio = f"{here.cpu / views['here'].cpu:.1f} x `views`" if reads else ""
    if beside is not None:
        ratio = f"{here.seconds / beside.seconds:.2f}{f', {ratio}' if ratio else ''}"
    measured = f"{here}" if beside is None else f"{here} (before: {beside})"
    return ResultRow(f"braid {command}", measured, ratio, wanted)


def main() -> None:
    def add(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--events", type=int, default=40_000, help="different events in the log")
        parser.add_argument("--days", type=int, default=2, help="over so many days")
        parser.add_argument("--beside", type=Path, help="another checkout, to run the same with")

    given = arguments(__doc__, add)
    checkouts = {"here": Path(__file__).resolve().parents[1]}
    checkouts |= {"beside": given.beside.resolve()} if given.beside else {}
    with scratch_folder() as folder:
        spent = play(checkouts, folder, given.events, given.days)
    rows = [row(command, found, spent["views"]) for command, found in spent.items()]
    details = {command: {name: vars(one) for name, one in found.items()} for command, found in spent.items()}
    show(f"commands over {given.events:,} events", rows, {"commands": details}, given.json)


if __name__ == "__main__":
    main()
