"""A lock between processes of one machine: a file that one of them holds at a time, and that a dead one lets go."""

import fcntl
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from braid.errors import BraidError
from braid.runtime.settings import Settings

LOOK_EVERY = 0.02


def _nobody_else(file: Path) -> BraidError:
    return BraidError(f"another process holds {file}: wait until it ends, then run this again.")


@contextmanager
def locked(
    file: Path,
    patience: float = math.inf,
    refusal: Callable[[Path], BraidError] = _nobody_else,
) -> Iterator[None]:
    """Holds the file for as long as the block runs; who has not got it after so many seconds is refused."""
    file.parent.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + patience
    with file.open("a") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise refusal(file) from None
                time.sleep(LOOK_EVERY)
        yield


@contextmanager
def alone(
    settings: Settings,
    name: str,
    patience: float,
    refusal: Callable[[Path], BraidError] = _nobody_else,
) -> Iterator[None]:
    """Holds a name of this home while the block runs. A home that machines share has no such lock."""
    if not settings.home_is_local:
        yield
        return
    with locked(settings.local_home() / "drivers" / name, patience, refusal):
        yield


def is_locked(file: Path) -> bool:
    """Whether some process holds it now."""
    if not file.exists():
        return False
    with file.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
