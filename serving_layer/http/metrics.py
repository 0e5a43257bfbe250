"""What the server tells Prometheus: questions and their time, what is in memory, and the processes' own metrics."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import datetime

from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from braid.runtime.metrics import CONTENT_TYPE, ProcessMetrics
from braid.runtime.status import ProcessStatus
from serving_layer.memory.all_views import AllViews

BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class ServerMetrics:
    """One registry, which is asked when Prometheus asks."""

    CONTENT_TYPE = CONTENT_TYPE

    def __init__(self, views: AllViews, processes: Callable[[], Sequence[ProcessStatus]]) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(ProcessMetrics(processes))
        self._answers = Histogram(
            "braid_answer_seconds", "Time to answer a question.", ["route"],
            registry=self._registry, buckets=BUCKETS,
        )  # fmt: skip
        self._registry.register(ViewMetrics(views))

    def timing(self, route: str) -> AbstractContextManager[object]:
        return self._answers.labels(route).time()

    def text(self) -> str:
        return generate_latest(self._registry).decode()


class ViewMetrics(Collector):
    """What the views in memory take, and which of them stand still."""

    def __init__(self, views: AllViews) -> None:
        self._views = views

    def collect(self) -> Iterator[Metric]:
        views, memory = self._views, self._views.memory
        for name, help_text, value in (
            ("braid_serving_memory_bytes", "Blocks of days in memory.", memory.bytes),
            ("braid_serving_tail_bytes", "Tails in memory.", memory.reserved),
            ("braid_serving_memory_limit_bytes", "What both may come to.", memory.most_bytes),
            ("braid_serving_views", "Views that are served.", len(views.versions())),
            ("braid_serving_problems", "Views that cannot be followed.", len(views.problems)),
            ("braid_serving_look_age_seconds", "Time since a look at all views ended.", views.since_look),
        ):
            yield GaugeMetricFamily(name, help_text, value=value)
        epochs = GaugeMetricFamily(
            "braid_serving_epoch_timestamp_seconds",
            "Newest epoch that is served.",
            labels=["view", "version"],
        )
        for name, at in views.versions().items():
            if at["epoch"] is not None:
                epochs.add_metric([name, str(at["version"])], datetime.fromisoformat(at["epoch"]).timestamp())
        yield epochs

    def describe(self) -> list[Metric]:
        return []
