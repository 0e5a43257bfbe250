"""A sink fed by hand, turn by turn, and what it is to hold."""

from datetime import UTC, datetime
from typing import Any

from braid.define.alerts import Alert
from braid.define.view import View
from braid.define.windows import Window
from braid.deploy.store import changing
from braid.deploy.versions import promoted, replayed, rolled_back
from braid.runtime.settings import Settings
from serving_layer.alerts.alarm import Alarm, AlertSink
from serving_layer.memory.changes import rows_of
from serving_layer.memory.follower import Follower
from serving_layer.sinks.delivering import Delivering
from serving_layer.sinks.outgoing import Leaving, Target
from tests.serving import MIDNIGHT, Tables, some_events, view_of


class Feeding:
    """What the process of the sinks does, turn by turn; another one is as after a kill."""

    def __init__(self, settings: Settings, sink: Leaving, target: Target, view: str = "hits") -> None:
        self.follower = Follower(settings, view)
        self.delivering = Delivering(view, sink, target)
        self.delivering.tell(self.follower.now)

    def look(self) -> None:
        before = self.follower.now
        move = self.follower.step()
        if self.follower.now is not before:
            self.delivering.tell(self.follower.now, move)

    def turn(self) -> None:
        assert self.delivering.turn(), self.delivering.status().error


class Listening(Feeding):
    """A process that judges one alert, turn by turn."""

    def __init__(self, settings: Settings, alert: Alert) -> None:
        super().__init__(settings, AlertSink(alert), Alarm(alert, settings), alert.view.name)
        self.turn()

    def hear(self) -> None:
        self.look()
        self.turn()


def begun(settings: Settings, window: Window, **changes: Any) -> Tables:
    tables = Tables(settings, view_of(window, **changes))
    tables.deploy()
    tables.append(some_events(0, 30, MIDNIGHT, hours=1))
    return tables


def served(settings: Settings, final: bool = False) -> list[str]:
    """The rows that are served now, read anew."""
    return as_texts(
        row
        for row in rows_of(Follower(settings, "hits").now).values()
        if not final or row["_status"] != "provisional"
    )


def as_texts(rows: Any) -> list[str]:
    return sorted(str(sorted(row.items())) for row in rows)


def promote(settings: Settings, tables: Tables, changed: View) -> Tables:
    """Another definition of the same events, promoted as version 2."""
    now = datetime(2024, 1, 1, tzinfo=UTC)
    second = Tables(settings, changed, number=2)
    second.deploy()
    second.append(tables.events)
    with changing(settings, "hits") as draft:
        draft.value = promoted(replayed(draft.value, 2, now), 2, now)
    return second


def go_back(settings: Settings) -> None:
    with changing(settings, "hits") as draft:
        draft.value = rolled_back(draft.value, datetime(2024, 1, 1, tzinfo=UTC))
