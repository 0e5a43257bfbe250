"""What the starts of helpers share: one at a time, a wait until it answers, the last words of one that ended."""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from braid.errors import BraidError
from braid.runtime.lock import locked

if TYPE_CHECKING:
    import subprocess

LOOK_EVERY = 0.1

Found = TypeVar("Found")


class Status(Protocol):
    """What is known of a program that has several processes."""

    @property
    def healthy(self) -> bool: ...


Known = TypeVar("Known", bound=Status)


@contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Two starts at the same moment would both see a free port."""
    with locked(folder / "start.lock"):
        yield


def waited_for(look: Callable[[], Found | None], timeout: float) -> Found | None:
    """What `look` finds, as soon as it does; None when it has not in time."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if (found := look()) is not None:
            return found
        time.sleep(LOOK_EVERY)
    return None


def healthy_in_time(
    ask: Callable[[], Known],
    timeout: float,
    whose: str,
    children: "Mapping[str, subprocess.Popen[bytes]]",
    log_of: Callable[[str], Path],
) -> Known | None:
    """Its status as soon as it is healthy; a child that ends meanwhile is an error."""

    def look() -> Known | None:
        if (present := ask()).healthy:
            return present
        # Asked of the children themselves: in its first moment a process shows no environment, and so no mark.
        for part, child in children.items():
            if child.poll() is not None:
                raise BraidError(f"{whose} {part} ended. {last_words(log_of(part))}")
        return None

    return waited_for(look, timeout)


def last_words(log: Path) -> str:
    """The last error in a program's log, and where that log is."""
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    errors = [line for line in lines[-200:] if re.search(r"(?i:error)\b|Exception", line)]
    reason = f"Its last error: {errors[-1].strip()} " if errors else ""
    return f"{reason}Its log is {log}."
