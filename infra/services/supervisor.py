"""Keeps processes running: started in order, restarted with backoff, stopped in reverse order."""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Literal

from braid.infra.services.children import Running, Say, Startable
from braid.runtime.status import ChildStatus

FIRST_DELAY = 1.0
LONGEST_DELAY = 60.0
STEADY_AFTER = 60.0
GRACE = 60.0
ROUND = 0.2

Clock = Callable[[], float]
OnRound = Callable[[tuple[ChildStatus, ...]], None]


def next_delay(previous: float | None, ran_for: float) -> float:
    """How long to wait before the next start: twice as long each time, until it ran steadily once."""
    if previous is None or ran_for >= STEADY_AFTER:
        return FIRST_DELAY
    return min(2 * previous, LONGEST_DELAY)


def supervise(
    children: Sequence[Startable],
    *,
    stop: threading.Event,
    say: Say,
    on_round: OnRound = lambda statuses: None,
    clock: Clock = time.monotonic,
    grace: float = GRACE,
) -> None:
    """Looks after the children until `stop` is set; returns when all have ended.

    A child is started for the first time when the one before it is ready. The thread that calls this must be the
    one that outlives them: the kernel ends the children when the thread that started them is gone.
    """
    charges = [_Charge(child, say, clock) for child in children]

    def tell() -> None:
        on_round(tuple(charge.status for charge in charges))

    with ExitStack() as ending:
        for charge in charges:
            ending.callback(tell)
            ending.callback(charge.stop, grace)
        while not stop.is_set():
            for charge in charges:
                charge.advance()
                if not charge.was_ready:
                    break
            tell()
            stop.wait(ROUND)


class _Charge:
    """One child, and how it is doing."""

    def __init__(self, child: Startable, say: Say, clock: Clock) -> None:
        self.was_ready = False
        self._child = child
        self._say = say
        self._clock = clock
        self._running: Running | None = None
        self._state: Literal["waiting", "starting", "running", "retrying", "stopped"] = "waiting"
        self._reason: str | None = None
        self._starts = 0
        self._started_at = 0.0
        self._delay: float | None = None
        self._due = clock()

    @property
    def status(self) -> ChildStatus:
        return ChildStatus(
            name=self._child.name,
            state=self._state,
            pid=self._running.pid if self._running else None,
            restarts=max(self._starts - 1, 0),
            reason=self._reason,
            retry_in=max(self._due - self._clock(), 0.0) if self._state == "retrying" else None,
        )

    def advance(self) -> None:
        if self._running is None:
            if self._clock() >= self._due:
                self._start()
            return
        reason = self._running.ended()
        if reason is not None:
            self._plan_restart(reason)
        elif self._state == "starting" and self._running.is_ready():
            self._state, self.was_ready = "running", True

    def stop(self, grace: float) -> None:
        if self._running is not None:
            self._running.stop(grace)
        self._running = None
        self._state = "stopped"

    def _start(self) -> None:
        self._starts += 1
        self._started_at = self._clock()
        try:
            self._running = self._child.start(self._say)
        except OSError as error:
            self._plan_restart(f"it cannot be started: {error}")
        else:
            self._state = "starting"

    def _plan_restart(self, reason: str) -> None:
        now = self._clock()
        self._delay = next_delay(self._delay, now - self._started_at)
        self._due = now + self._delay
        self._running, self._state, self._reason = None, "retrying", reason
