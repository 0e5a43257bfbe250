"""What the server tells Prometheus about itself: questions, their time, and what it holds in memory."""

import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from braid.runtime.metrics import CONTENT_TYPE
from serving_layer.memory.all_views import AllViews

BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class ServerMetrics:
    """Counts how long answers took, by route."""

    CONTENT_TYPE = CONTENT_TYPE

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._buckets: dict[str, list[int]] = defaultdict(lambda: [0] * (len(BUCKETS) + 1))
        self._seconds: dict[str, float] = defaultdict(float)

    @contextmanager
    def timing(self, route: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            took = time.perf_counter() - began
            place = next((i for i, most in enumerate(BUCKETS) if took <= most), len(BUCKETS))
            with self._lock:
                self._buckets[route][place] += 1
                self._seconds[route] += took

    def text(self, views: AllViews) -> str:
        lines = [
            "# HELP braid_answer_seconds Time to answer a question.",
            "# TYPE braid_answer_seconds histogram",
        ]
        with self._lock:
            for route, counts in sorted(self._buckets.items()):
                lines += _histogram(route, counts, self._seconds[route])
        gauges = {
            "braid_serving_memory_bytes": ("Blocks of bases that are held in memory.", views.memory.bytes),
            "braid_serving_tail_bytes": (
                "Tails, which are held in memory as a whole.",
                views.memory.reserved,
            ),
            "braid_serving_memory_limit_bytes": ("What both may come to.", views.memory.most_bytes),
            "braid_serving_views": ("Views that are served.", len(views.versions())),
            "braid_serving_problems": ("Views that cannot be followed.", len(views.problems)),
        }
        for name, (help_text, value) in gauges.items():
            lines += [f"# HELP {name} {help_text}", f"# TYPE {name} gauge", f"{name} {value}"]
        return "\n".join(lines) + "\n"


def _histogram(route: str, counts: list[int], seconds: float) -> list[str]:
    lines, so_far = [], 0
    for most, count in zip((*map(str, BUCKETS), "+Inf"), counts, strict=True):
        so_far += count
        lines.append(f'braid_answer_seconds_bucket{{route="{route}",le="{most}"}} {so_far}')
    lines.append(f'braid_answer_seconds_sum{{route="{route}"}} {seconds:.6f}')
    lines.append(f'braid_answer_seconds_count{{route="{route}"}} {so_far}')
    return lines
