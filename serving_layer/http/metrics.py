"""What the server tells Prometheus: questions and their time, what is in memory, and the processes' own metrics."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import datetime
from typing import Any

from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from braid.runtime.metrics import CONTENT_TYPE, Described, ProcessMetrics
from braid.runtime.status import ProcessStatus
from serving_layer.memory.all_views import AllViews

SERVING_MEMORY = Described("braid_serving_memory_bytes", "gauge", "Blocks of days in memory.")
SERVING_TAILS = Described("braid_serving_tail_bytes", "gauge", "Tails in memory.")
SERVING_LIMIT = Described("braid_serving_memory_limit_bytes", "gauge", "What both may come to.")
SERVING_VIEWS = Described("braid_serving_views", "gauge", "Views that are served.")
SERVING_PROBLEMS = Described("braid_serving_problems", "gauge", "Views that cannot be followed.")
SERVING_LOOK = Described("braid_serving_look_age_seconds", "gauge", "Time since a look at all views ended.")
SERVING_EPOCH = Described("braid_serving_epoch_timestamp_seconds", "gauge", "Newest epoch that is served.")
DAYS = Described("braid_days", "gauge", "Days of a view in a state: held, stale, up to date and others.")
LEDGER = Described(
    "braid_ledger_balanced",
    "gauge",
    "Whether what was consumed is in the log; 0 when the log says that it is not.",
)
ACCEPTED = Described("braid_log_accepted_rows", "gauge", "Records of a log that count.")
REJECTED = Described("braid_log_rejected_rows", "gauge", "Records of a log that are rejected.")
OF_SERVING = (
    SERVING_MEMORY, SERVING_TAILS, SERVING_LIMIT, SERVING_VIEWS, SERVING_PROBLEMS, SERVING_LOOK, SERVING_EPOCH,
)  # fmt: skip
OF_LAYERS = (DAYS, LEDGER, ACCEPTED, REJECTED)

BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class ServerMetrics:
    """One registry, which is asked when Prometheus asks."""

    CONTENT_TYPE = CONTENT_TYPE

    def __init__(
        self,
        views: AllViews,
        processes: Callable[[], Sequence[ProcessStatus]],
        days: Callable[[str], Sequence[dict[str, Any]]] | None = None,
        ledger: Callable[[str], dict[str, Any]] | None = None,
    ) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(ProcessMetrics(processes))
        self._answers = Histogram(
            "braid_answer_seconds", "Time to answer a question.", ["route"],
            registry=self._registry, buckets=BUCKETS,
        )  # fmt: skip
        self._registry.register(ViewMetrics(views))
        if days is not None and ledger is not None:
            self._registry.register(LayerMetrics(views, days, ledger))

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
        for metric, value in (
            (SERVING_MEMORY, memory.bytes),
            (SERVING_TAILS, memory.reserved),
            (SERVING_LIMIT, memory.most_bytes),
            (SERVING_VIEWS, len(views.versions())),
            (SERVING_PROBLEMS, len(views.problems)),
            (SERVING_LOOK, views.since_look),
        ):
            yield GaugeMetricFamily(metric.name, metric.help, value=value)
        epochs = GaugeMetricFamily(SERVING_EPOCH.name, SERVING_EPOCH.help, labels=["view", "version"])
        for name, at in views.versions().items():
            if at["epoch"] is not None:
                epochs.add_metric([name, str(at["version"])], datetime.fromisoformat(at["epoch"]).timestamp())
        yield epochs

    def describe(self) -> list[Metric]:
        return []


class LayerMetrics(Collector):
    """What the other layers know: the states of days, and what became of what was consumed.

    A view or a source that cannot be asked in this moment is left out, and does not keep the others out.
    """

    def __init__(
        self,
        views: AllViews,
        days: Callable[[str], Sequence[dict[str, Any]]],
        ledger: Callable[[str], dict[str, Any]],
    ) -> None:
        self._views, self._days, self._ledger = views, days, ledger

    def collect(self) -> Iterator[Metric]:
        states = GaugeMetricFamily(DAYS.name, DAYS.help, labels=["view", "state"])
        for view in self._views.definitions.views:
            with suppress(Exception):
                for state, count in Counter(day["state"] for day in self._days(view)).items():
                    states.add_metric([view, state], count)
        yield states
        families = {
            metric: GaugeMetricFamily(metric.name, metric.help, labels=["source"])
            for metric in (LEDGER, ACCEPTED, REJECTED)
        }
        for source in self._views.definitions.sources:
            with suppress(Exception):
                found = self._ledger(source)
                families[ACCEPTED].add_metric([source], found["accepted"])
                families[REJECTED].add_metric([source], found["rejected"])
                if found["balanced"] is not None:
                    families[LEDGER].add_metric([source], found["balanced"])
        yield from families.values()

    def describe(self) -> list[Metric]:
        return []
