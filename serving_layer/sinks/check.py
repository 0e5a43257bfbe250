"""What would keep sinks from working, found before they run: `braid check`."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa

from braid.define.sinks import KafkaSink, PostgresSink, Sink
from braid.define.view import View
from braid.deploy import store as deployment
from braid.errors import BraidError
from braid.runtime.settings import Settings
from serving_layer.answer.reader import read
from serving_layer.answer.scope import Scope
from serving_layer.sinks.columns import columns_of_numbers
from serving_layer.sinks.controls import place_of
from serving_layer.sinks.folder import Folder
from serving_layer.sinks.kafka_topic import KafkaTopic


class SinkProblem(NamedTuple):
    """A sink that would not work, and why."""

    view: str
    sink: str
    message: str


def problems(settings: Settings, views: Iterable[View]) -> Iterator[SinkProblem]:
    """Every place is asked; two views that would write to one table are both named."""
    owners: dict[str, str] = {}
    for view in views:
        for sink in view.sinks:
            if not isinstance(sink, KafkaSink):
                other = owners.setdefault(sink.name, view.name)
                if other != view.name:
                    yield SinkProblem(
                        view.name, sink.name, f"view {other!r} writes there too: name another place."
                    )
                    continue
            if said := _problem(settings, view, sink):
                yield SinkProblem(view.name, sink.name, said)


def _problem(settings: Settings, view: View, sink: Sink) -> str | None:
    if isinstance(sink, PostgresSink):
        from serving_layer.sinks.postgres import PostgresTable

        return PostgresTable(sink, view.name).problem(view, served_schema(settings, view.name))
    place = place_of(settings, view.name, sink.name)
    return (
        KafkaTopic(sink, settings, place) if isinstance(sink, KafkaSink) else Folder(sink, place)
    ).problem()


def served_schema(settings: Settings, view: str) -> pa.Schema | None:
    """The columns of the numbers that are served; None before there are any."""
    try:
        active = deployment.load(settings, view).active
        if active is None:
            return None
        nothing = Scope(active.created, active.created)
        return columns_of_numbers(read(settings, active, nothing))
    except BraidError:
        return None
