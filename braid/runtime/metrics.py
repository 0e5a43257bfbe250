"""What running processes report, as Prometheus' metrics: base units, every metric described once."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Literal, NamedTuple

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4 as CONTENT_TYPE
from prometheus_client.registry import Collector

from braid.runtime.status import ProcessStatus, QueryStatus, is_alive

__all__ = ["CONTENT_TYPE", "ProcessMetrics", "prometheus"]

Labels = dict[str, object | None]


class Described(NamedTuple):
    """The name ends in the unit, and in `_total` for what only grows while its process lives."""

    name: str
    kind: Literal["gauge", "counter"]
    help: str

    def family(self) -> Metric:
        return (GaugeMetricFamily if self.kind == "gauge" else CounterMetricFamily)(self.name, self.help)


def _timestamp(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


PROCESS_UP = Described("braid_process_up", "gauge", "Whether the process runs.")
PROCESS_STARTED = Described("braid_process_start_time_seconds", "gauge", "When the process was started.")
PROCESS_REPORTED = Described("braid_process_report_time_seconds", "gauge", "When the process last reported.")
CHILD_RUNNING = Described("braid_child_running", "gauge", "Whether the supervised process runs and is ready.")
CHILD_RESTARTS = Described(
    "braid_child_restarts_total", "counter", "How often the process was started again."
)
QUERY_RUNNING = Described(
    "braid_query_running", "gauge", "Whether the query runs, as opposed to retrying or stopped."
)
QUERY_PAUSED = Described("braid_query_paused", "gauge", "Whether a person has paused the query.")
QUERY_BATCH = Described("braid_query_batch", "gauge", "Number of the newest micro-batch.")
QUERY_RATE = Described("braid_query_rows_per_second", "gauge", "Rows processed in a second.")
QUERY_SECONDS = Described("braid_query_batch_seconds", "gauge", "Duration of the newest micro-batch.")
QUERY_LAG = Described("braid_query_lag_events", "gauge", "Events that wait to be read.")
QUERY_LAG_SECONDS = Described("braid_query_lag_seconds", "gauge", "Age of the oldest event that waits.")
QUERY_EVENTS = Described("braid_query_events_total", "counter", "Events processed.")
QUERY_LATE = Described("braid_query_late_events_total", "counter", "Events after their window was final.")
QUERY_REVISED = Described("braid_query_revised_total", "counter", "Revisions of what was already final.")
QUERY_STATE = Described("braid_query_state_bytes", "gauge", "Size of the query's state.")
QUERY_FILES = Described("braid_query_files", "gauge", "Data files of the query's table.")
QUERY_EPOCH = Described("braid_query_epoch_timestamp_seconds", "gauge", "Newest epoch consumed.")
QUERY_WATERMARK = Described(
    "braid_query_watermark_timestamp_seconds", "gauge", "Windows that end before this are final."
)
OF_A_QUERY: dict[Described, Callable[[QueryStatus], float | None]] = {
    QUERY_PAUSED: lambda q: q.state == "paused",
    QUERY_BATCH: lambda q: q.batch,
    QUERY_RATE: lambda q: q.rows_per_second,
    QUERY_SECONDS: lambda q: _seconds(q.batch_ms),
    QUERY_LAG: lambda q: q.lag_events,
    QUERY_LAG_SECONDS: lambda q: q.lag_seconds,
    QUERY_EVENTS: lambda q: q.events,
    QUERY_LATE: lambda q: q.late,
    QUERY_REVISED: lambda q: q.revised,
    QUERY_STATE: lambda q: q.state_bytes,
    QUERY_FILES: lambda q: q.files,
    QUERY_EPOCH: lambda q: _timestamp(q.epoch),
    QUERY_WATERMARK: lambda q: _timestamp(q.watermark),
}
OF_PROCESSES = (PROCESS_UP, PROCESS_STARTED, PROCESS_REPORTED, CHILD_RUNNING, CHILD_RESTARTS)
OF_QUERIES = (QUERY_RUNNING, *OF_A_QUERY)


class ProcessMetrics(Collector):
    """Asks for the processes' documents whenever the metrics are read."""

    def __init__(self, documents: Callable[[], Sequence[ProcessStatus]]) -> None:
        self._documents = documents

    def collect(self) -> Iterator[Metric]:
        """All metrics. Of a dead process only that it is dead: its last numbers are no longer true."""
        families: dict[Described, Metric] = {}
        for metric, labels, value in _samples(self._documents()):
            family = families.setdefault(metric, metric.family())
            # A label without a value is left out: ingest has no view.
            known = {name: str(label) for name, label in labels.items() if label is not None}
            family.add_sample(metric.name, known, value)
        yield from families.values()

    def describe(self) -> list[Metric]:
        """Nothing is asked when the collector is registered."""
        return []


def prometheus(processes: Sequence[ProcessStatus]) -> str:
    """The metrics of these processes as Prometheus' text."""
    registry = CollectorRegistry()
    registry.register(ProcessMetrics(lambda: processes))
    return generate_latest(registry).decode()


def _samples(processes: Sequence[ProcessStatus]) -> Iterator[tuple[Described, Labels, float]]:
    for process in processes:
        alive = is_alive(process)
        labels: Labels = {"process": process.process}
        yield PROCESS_UP, labels, alive
        yield PROCESS_REPORTED, labels, process.updated.timestamp()
        if alive:
            yield PROCESS_STARTED, labels, process.started.timestamp()
        for child in process.children:
            yield CHILD_RUNNING, {"child": child.name}, alive and child.state == "running"
            if alive:
                yield CHILD_RESTARTS, {"child": child.name}, child.restarts
        for query in process.queries:
            yield from _samples_of_query(query, labels, alive)


def _samples_of_query(
    query: QueryStatus, of_process: Labels, alive: bool
) -> Iterator[tuple[Described, Labels, float]]:
    labels = of_process | {
        "query": query.name,
        "kind": query.kind,
        "source": query.source,
        "view": query.view,
        "version": query.version,
    }
    yield QUERY_RUNNING, labels, alive and query.state == "running"
    for metric, read in OF_A_QUERY.items():
        value = read(query) if alive else None
        if value is not None:
            yield metric, labels, value
