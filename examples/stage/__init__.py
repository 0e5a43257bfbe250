"""The examples as plays: each is fed, streamed, replayed and recomputed, and compared with the truth."""

from collections.abc import Callable
from importlib import import_module

from braid.define.names import suggest
from braid.errors import BraidError
from braid.examples.stage.checks import Played
from braid.examples.stage.stage import Stage

# In the order in which they are best read.
NAMES = ("words", "hashtags", "employees", "actions", "billing", "clicks", "weblog", "pageviews", "sensors")

Play = Callable[[Stage], Played]


def play_of(name: str) -> Play:
    if name not in NAMES:
        raise BraidError(f"there is no example {name!r}. {suggest(name, NAMES, 'examples')}")
    play: Play = import_module(f"braid.examples.{name}.play").play
    return play
