"""What questions may cost, and the threads that answer them, a few at a time."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import anyio

from braid.define.durations import format_duration
from braid.define.windows import DAY
from serving_layer.http.metrics import ServerMetrics
from serving_layer.http.problems import Refused
from serving_layer.memory.all_views import AllViews
from serving_layer.memory.view_in_memory import ViewInMemory

Result = TypeVar("Result")


@dataclass(frozen=True)
class Limits:
    """What one question may cost: states that are merged, seconds, and how many are answered at a time."""

    states: int = 10_000_000
    seconds: float = 10.0
    at_once: int = 4


@dataclass
class Answering:
    """Answers questions in threads, a few at a time, each within its limits."""

    views: AllViews
    limits: Limits
    metrics: ServerMetrics
    limiter: anyio.CapacityLimiter = field(init=False)

    def __post_init__(self) -> None:
        self.limiter = anyio.CapacityLimiter(self.limits.at_once)

    async def run(self, route: str, work: Callable[[], Result]) -> Result:
        with self.metrics.timing(route):
            try:
                with anyio.fail_after(self.limits.seconds):
                    return await anyio.to_thread.run_sync(work, limiter=self.limiter, abandon_on_cancel=True)
            except TimeoutError:
                raise Refused(
                    503,
                    f"no answer within {self.limits.seconds:g} s: ask for a shorter range or a longer grain.",
                ) from None

    def require_affordable(self, now: ViewInMemory, cost: int) -> None:
        if cost > self.limits.states:
            pane = getattr(now.view.window, "pane", DAY)
            raise Refused(
                413,
                f"about {cost:,} states would be merged, and {self.limits.states:,} may be: ask for a shorter range, "
                f"for some keys, or for a longer grain than {format_duration(pane)}.",
                "start",
            )
