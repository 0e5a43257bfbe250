"""What running processes tell about themselves, as Prometheus' text: base units, every metric described once."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Literal, NamedTuple

from braid.runtime.status import ProcessStatus, QueryStatus, is_alive

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = dict[str, object | None]


class Metric(NamedTuple):
    """The name ends in the unit, and in `_total` for what only grows while its process lives."""

    name: str
    kind: Literal["gauge", "counter"]
    help: str


def _timestamp(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


PROCESS_UP = Metric("braid_process_up", "gauge", "Whether the process runs.")
PROCESS_STARTED = Metric("braid_process_start_time_seconds", "gauge", "When the process was started.")
PROCESS_REPORTED = Metric("braid_process_report_time_seconds", "gauge", "When the process last reported.")
CHILD_RUNNING = Metric("braid_child_running", "gauge", "Whether the supervised process runs and is ready.")
CHILD_RESTARTS = Metric("braid_child_restarts_total", "counter", "How often the process was started again.")
QUERY_RUNNING = Metric(
    "braid_query_running", "gauge", "Whether the query runs, as opposed to retrying or stopped."
)
OF_A_QUERY: dict[Metric, Callable[[QueryStatus], float | None]] = {
    Metric("braid_query_batch", "gauge", "Number of the newest micro-batch."): lambda q: q.batch,
    Metric("braid_query_rows_per_second", "gauge", "Rows processed in a second."): lambda q: (
        q.rows_per_second
    ),
    Metric("braid_query_batch_seconds", "gauge", "Duration of the newest micro-batch."): lambda q: _seconds(
        q.batch_ms
    ),
    Metric("braid_query_lag_events", "gauge", "Events that wait to be read."): lambda q: q.lag_events,
    Metric("braid_query_lag_seconds", "gauge", "Age of the oldest event that waits."): lambda q: (
        q.lag_seconds
    ),
    Metric("braid_query_events_total", "counter", "Events processed."): lambda q: q.events,
    Metric("braid_query_late_events_total", "counter", "Events after their window was final."): lambda q: (
        q.late
    ),
    Metric("braid_query_revised_total", "counter", "Revisions of what was already final."): lambda q: (
        q.revised
    ),
    Metric("braid_query_state_bytes", "gauge", "Size of the query's state."): lambda q: q.state_bytes,
    Metric("braid_query_files", "gauge", "Data files of the query's table."): lambda q: q.files,
    Metric("braid_query_epoch_timestamp_seconds", "gauge", "Newest epoch consumed."): lambda q: _timestamp(
        q.epoch
    ),
    Metric(
        "braid_query_watermark_timestamp_seconds", "gauge", "Windows that end before this are final."
    ): lambda q: _timestamp(q.watermark),
}


def prometheus(processes: Sequence[ProcessStatus]) -> str:
    """All metrics. Of a dead process only that it is dead: its last numbers are no longer true."""
    lines: dict[Metric, list[str]] = {}
    for metric, labels, value in _samples(processes):
        lines.setdefault(metric, []).append(f"{metric.name}{_braces(labels)} {value:.15g}")
    blocks = (
        "\n".join((f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.kind}", *samples))
        for metric, samples in lines.items()
    )
    return "".join(f"{block}\n" for block in blocks)


def _samples(processes: Sequence[ProcessStatus]) -> Iterator[tuple[Metric, Labels, float]]:
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
) -> Iterator[tuple[Metric, Labels, float]]:
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


def _braces(labels: Labels) -> str:
    pairs = (f'{name}="{_escape(str(value))}"' for name, value in labels.items() if value is not None)
    return "{" + ",".join(pairs) + "}"


def _escape(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
