"""One sink of one view: takes what moves, delivers it, and after a failure compares all that is there anew."""

import threading
import time
from datetime import datetime
from typing import Literal

import pyarrow as pa

from braid.define.durations import parse_duration
from braid.define.sinks import FilesSink
from braid.deploy.versions import Version
from braid.errors import BraidError
from braid.runtime.logging import Logger
from braid.runtime.status import QueryStatus
from serving_layer.answer.numbers import columns_of_numbers, final_until
from serving_layer.memory.changes import Move, rows_of
from serving_layer.memory.view_in_memory import ViewInMemory
from serving_layer.sinks.outgoing import (
    VERSION,
    Delivery,
    Held,
    Leaving,
    State,
    Step,
    Target,
    joined,
    outgoing,
    state_of,
)

FIRST_BACKOFF, LAST_BACKOFF = 1.0, 60.0

log = Logger("sinks")


class Delivering:
    """Told of moves by the thread that follows the view; delivers in a thread of its own."""

    def __init__(
        self, view: str, sink: Leaving, target: Target, kind: Literal["sink", "alert"] = "sink"
    ) -> None:
        self.view, self.sink, self.target, self._kind = view, sink, target, kind
        # What a person has said.
        self.is_paused = self.is_replay_asked = False
        self.delivered = 0
        self._every = parse_duration(sink.every).total_seconds() if isinstance(sink, FilesSink) else 0.0
        self._lock = threading.Lock()
        self._now: ViewInMemory | None = None
        # What moved since the sink was last compared; None while it is not known what it holds.
        self._pending: Step | None = None
        self._since: float | None = None
        self._due = 0.0
        self._revision = 0
        self._complete: datetime | None = None
        self._epoch: datetime | None = None
        self._took: float | None = None
        self._error: str | None = None
        self._backoff = 0.0
        self._schema: tuple[Version, pa.Schema] | None = None

    @property
    def name(self) -> str:
        return f"{self._kind} {self.view} {self.sink.name}"

    def tell(self, now: ViewInMemory, move: Move | None = None) -> None:
        """The view as it is now, and what moved since it was told before."""
        with self._lock:
            before, self._now = self._now, now
            if move is None:
                return
            if before is None or before.version != now.version:
                # Another version may have other keys and columns: only the sink knows what it holds of the old one.
                self._pending = None
            if self._pending is not None:
                sides = (list(rows.values()) for rows in (move.before, move.after))
                self._pending = joined(
                    self._pending, Step(*(state_of(now.view, rows, now.version.number) for rows in sides))
                )
            if self._since is None:
                self._since = time.monotonic()

    def compare_anew(self) -> None:
        """What was told may not be all that moved."""
        with self._lock:
            self._pending = None

    def turn(self) -> bool:
        """Delivers what there is, if it is time; whether it came to its end. A failure is kept and tried again."""
        replay = self.is_replay_asked
        waits = time.monotonic() < self._due and (self._error is not None or not replay)
        if self.is_paused or self._now is None or waits:
            return False
        try:
            self._deliver(replay)
        except Exception as error:
            # Anything: one sink must not stop another, and what it holds is read again.
            self.compare_anew()
            self._since = self._since or time.monotonic()
            self._backoff = min(max(FIRST_BACKOFF, self._backoff * 2), LAST_BACKOFF)
            self._due = time.monotonic() + self._backoff
            said = str(error) if isinstance(error, BraidError) else f"{type(error).__name__}: {error}"
            if said != self._error:
                log.error(f"{self.name} failed", reason=said, again_in=f"{self._backoff:g} s")
            self._error = said
            return False
        self._backoff, self._error = 0.0, None
        self._due = time.monotonic() + self._every
        return True

    def _deliver(self, replay: bool) -> None:
        began = time.monotonic()
        with self._lock:
            now, step = self._now, self._pending
            assert now is not None
            self._pending = Step({}, {})
        is_first = False
        if step is None or replay:
            held = self.target.held(now.view)
            self._revision = held.revision
            # A table is there before its first row is.
            is_first = held.revision == 0
            step = Step(
                _unlike(held) if replay else held.state, state_of(now.view, _rows(now), now.version.number)
            )
        changed, withdrawn = outgoing(self.sink.emit, step)
        complete = now.mark.complete if now.mark else None
        if changed or withdrawn or is_first or complete != self._complete:
            self._hand_over(now, changed, withdrawn)
            self._took = time.monotonic() - began
        with self._lock:
            self._since = began if self._pending and self._pending != Step({}, {}) else None

    def _hand_over(self, now: ViewInMemory, changed: State, withdrawn: State) -> None:
        position = {
            "tail_version": now.tail_version,
            "base_version": now.base_version,
            "epoch": now.mark and now.mark.epoch and now.mark.epoch.isoformat(),
        }
        if self._schema is None or self._schema[0] != now.version:
            self._schema = now.version, columns_of_numbers(now.part([], {}))
        complete, epoch = (now.mark.complete, now.mark.epoch) if now.mark else (None, None)
        delivery = Delivery(
            now.view, self._schema[1], self.sink.emit, now.version.number, self._revision + 1,
            changed, withdrawn, complete, position,
            epoch, final_until(now.view, now.mark),
        )  # fmt: skip
        self.target.take(delivery)
        self._revision, self._complete = delivery.revision, complete
        self._epoch = epoch
        self.delivered += len(changed) + len(withdrawn)

    def status(self) -> QueryStatus:
        with self._lock:
            now, pending, since = self._now, self._pending, self._since
        wait = max(0.0, self._due - time.monotonic()) if self._error else None
        state: Literal["starting", "running", "retrying", "paused"] = "running" if now else "starting"
        if self._error or self.is_paused:
            state = "paused" if self.is_paused else "retrying"
        return QueryStatus(
            self.name,
            self._kind,
            state,
            view=self.view,
            error=self._error,
            retry_in=wait,
            batch=self._revision,
            batch_ms=None if self._took is None else self._took * 1000,
            lag_events=None if pending is None else len(pending.before.keys() | pending.after.keys()),
            lag_seconds=0.0 if since is None else time.monotonic() - since,
            events=self.delivered,
            epoch=self._epoch,
            version=None if now is None else now.version.number,
        )


def _rows(now: ViewInMemory) -> list[dict[str, object]]:
    return list(rows_of(now).values())


def _unlike(held: Held) -> dict[str, dict[str, object]]:
    """The same rows, and none of them as it is served: everything is delivered again."""
    return {at: row | {VERSION: None} for at, row in held.state.items()}
