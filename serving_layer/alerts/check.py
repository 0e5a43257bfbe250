"""What would keep alerts from being judged or sent, found before they run: `braid check`."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa

from braid.define.alerts import Alert
from braid.errors import BraidError
from braid.runtime.secrets import secret
from serving_layer.alerts.alarm import conditions


class AlertProblem(NamedTuple):
    """An alert that would not work, the part of it, and why."""

    alert: str
    part: str
    message: str


def problems(alerts: Iterable[tuple[Alert, pa.Schema | None]]) -> Iterator[AlertProblem]:
    """Each alert with the columns of its view's numbers, if they are known: then its condition is compiled."""
    for alert, schema in alerts:
        for receiver in alert.send:
            try:
                secret("url", receiver.url)
            except BraidError as error:
                yield AlertProblem(alert.name, f"receiver {receiver.name!r}", str(error))
        if schema is not None:
            try:
                conditions(alert, schema, [])
            except BraidError as error:
                yield AlertProblem(alert.name, "when", str(error))
