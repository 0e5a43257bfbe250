"""One driver at a time: a second one on the same job is refused, a dying one is waited for.

The lock is held by this Python process. But its JVM, which does the writing, can outlive it by half a second after
a `kill -9`; so the JVM is written into the lock file, and a successor waits until that one is gone too.
"""

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
from pyspark.sql import SparkSession

from braid.errors import BraidError
from braid.runtime.lock import is_locked, locked
from braid.runtime.settings import Settings

PATIENCE = 60.0


@contextmanager
def only_driver(
    spark: SparkSession, settings: Settings, job: str, patience: float = PATIENCE
) -> Iterator[None]:
    """Holds the job for as long as the block runs. A shared BRAID_HOME has no such lock: use the strict setting."""
    if not settings.home_is_local:
        yield
        return
    file = _file(settings, job)
    with locked(file, patience=0, refusal=lambda file: _runs_already(file, job)):
        _wait_for_the_old_one(file, job, patience)
        jvm = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]
        file.write_text(
            json.dumps({"jvm": jvm, "born": psutil.Process(jvm).create_time(), "python": os.getpid()})
        )
        yield
        # Reached only when the block ends well: its JVM lives on, and writes here no more.
        file.write_text("")


def is_driven(settings: Settings, job: str) -> bool:
    """Whether some process holds the job now."""
    return settings.home_is_local and is_locked(_file(settings, job))


@contextmanager
def only_undriven(settings: Settings, job: str) -> Iterator[bool]:
    """Keeps others from starting the job for as long as the block runs; False where that cannot be, or it runs."""
    with ExitStack() as held:
        try:
            if settings.home_is_local:
                held.enter_context(locked(_file(settings, job), patience=0))
                _wait_for_the_old_one(_file(settings, job), job, patience=0)
            alone = settings.home_is_local
        except BraidError:
            alone = False
        yield alone


def _file(settings: Settings, job: str) -> Path:
    return settings.local_home() / "drivers" / job


def _runs_already(file: Path, job: str) -> BraidError:
    try:
        holder = f"process {json.loads(file.read_text())['python']}"
    except (ValueError, KeyError, OSError):
        holder = "another process"
    return BraidError(f"{job} runs already ({holder}): two at once would count twice. Stop that one first.")


def _wait_for_the_old_one(file: Path, job: str, patience: float) -> None:
    try:
        known = json.loads(file.read_text())
        jvm = psutil.Process(known["jvm"])
        if jvm.create_time() != known["born"] or known["python"] == os.getpid():
            return
        jvm.wait(patience)
    except (ValueError, KeyError, psutil.NoSuchProcess):
        return
    except psutil.TimeoutExpired:
        raise BraidError(
            f"{job}: the Spark process {known['jvm']} of an earlier run is alive and may still write: end it first."
        ) from None
