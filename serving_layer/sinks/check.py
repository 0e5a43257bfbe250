"""What would keep sinks and alerts from working, found before they run: `braid check`."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa

from braid.define.alerts import Alert
from braid.define.sinks import KafkaSink, PostgresSink, Sink
from braid.define.view import View
from braid.deploy import store as deployment
from braid.errors import BraidError
from braid.runtime.settings import Settings, secret
from serving_layer.alerts.alarm import conditions
from serving_layer.answer.numbers import columns_of_numbers
from serving_layer.answer.reader import read
from serving_layer.answer.scope import Scope
from serving_layer.sinks.controls import place_of
from serving_layer.sinks.folder import Folder
from serving_layer.sinks.kafka_topic import KafkaTopic


class Hindrance(NamedTuple):
    """A definition that would not work, the part of it, and why."""

    definition: str
    part: str
    message: str


def problems(settings: Settings, views: Iterable[View], alerts: Iterable[Alert]) -> Iterator[Hindrance]:
    """Of all sinks, and of all alerts, whose conditions are compiled where the numbers of their views are known."""
    yield from sink_problems(settings, views)
    for alert in alerts:
        yield from alert_problems(alert, served_schema(settings, alert.view.name))


def sink_problems(settings: Settings, views: Iterable[View]) -> Iterator[Hindrance]:
    """Every place is asked; two views that would write to one table are both named."""
    owners: dict[str, str] = {}
    for view in views:
        for sink in view.sinks:
            owner, part = f"view {view.name!r}", f"sink {sink.name!r}"
            if not isinstance(sink, KafkaSink):
                other = owners.setdefault(sink.name, view.name)
                if other != view.name:
                    yield Hindrance(owner, part, f"view {other!r} writes there too: name another place.")
                    continue
            if said := _problem(settings, view, sink):
                yield Hindrance(owner, part, said)


def alert_problems(alert: Alert, schema: pa.Schema | None) -> Iterator[Hindrance]:
    """`schema` has the columns of its view's numbers, if they are known."""
    owner = f"alert {alert.name!r}"
    for receiver in alert.send:
        try:
            secret("url", receiver.url)
        except BraidError as error:
            yield Hindrance(owner, f"receiver {receiver.name!r}", str(error))
    if schema is not None:
        try:
            conditions(alert, schema, [])
        except BraidError as error:
            yield Hindrance(owner, "when", str(error))


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
