"""When somebody is to be told of a view's numbers, and how they are reached: alerts and receivers as values."""

import re
from dataclasses import dataclass
from typing import Any, Literal, get_args

from braid.define.expressions import require_expression, require_known
from braid.define.names import require_identifier, set_field, suggest
from braid.define.view import View
from braid.define.windows import AllTime, Fixed
from braid.errors import DefinitionError

Severity = Literal["info", "warning", "critical"]
On = Literal["final", "updates"]
Format = Literal["braid", "alertmanager", "message"]

_FOR = re.compile(r"([1-9]\d{0,3}) windows?")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}")


@dataclass(frozen=True)
class Receiver:
    """Somebody whose address is known by a name: BRAID_URL_<NAME>."""

    url: str
    format: Format = "braid"

    def __post_init__(self) -> None:
        if not isinstance(self.url, str) or not _NAME.fullmatch(self.url):
            raise DefinitionError(
                f"a receiver is named {self.url!r}: an address may hold a secret, so give it a name, such as 'ops', "
                "and set BRAID_URL_OPS to the address."
            )
        if self.format not in get_args(Format):
            raise DefinitionError(
                f"receiver {self.url!r}: format {self.format!r} is not known. "
                f"{suggest(str(self.format), get_args(Format), 'formats')}"
            )

    @property
    def name(self) -> str:
        return f"{self.format}:{self.url}"


@dataclass(frozen=True, kw_only=True)
class Alert:
    """`when` holds for a row of the view, in so many windows in a row; judged as rows change, or become final."""

    name: str
    view: View
    when: str
    on: On = "final"
    for_: str = "1 window"
    severity: Severity = "warning"
    send: tuple[Receiver, ...] = ()

    def __post_init__(self) -> None:
        require_identifier(self.name, "alert")
        what = f"alert {self.name!r}"
        if not isinstance(self.view, View):
            raise DefinitionError(
                f"{what}: view is {self.view!r}: give it the View itself, such as view=hits."
            )
        for name, value, known in (("on", self.on, On), ("severity", self.severity, Severity)):
            if value not in get_args(known):
                raise DefinitionError(
                    f"{what}: {name} {value!r} is not known. {suggest(str(value), get_args(known), 'values')}"
                )
        require_known(require_expression(self.when, f"{what}: when"), self.columns, f"{what}: when")
        self._check_windows(what)
        send: Any = (self.send,) if isinstance(self.send, Receiver) else self.send
        if not isinstance(send, (tuple, list)) or not all(isinstance(each, Receiver) for each in send):
            raise DefinitionError(
                f"{what}: send is {self.send!r}: write a tuple of webhook(...) and message(...)."
            )
        set_field(self, "send", tuple(send))

    @property
    def windows(self) -> int:
        """In how many windows in a row it has to hold."""
        found = _FOR.fullmatch(self.for_)
        assert found is not None
        return int(found[1])

    @property
    def columns(self) -> tuple[str, ...]:
        """What `when` can be about."""
        bounds = () if isinstance(self.view.window, AllTime) else ("window_start", "window_end")
        return (*self.view.keys, *bounds, *self.view.measures)

    def _check_windows(self, what: str) -> None:
        if not isinstance(self.for_, str) or not _FOR.fullmatch(self.for_):
            raise DefinitionError(
                f"{what}: for_ is {self.for_!r}: write how many windows, such as '3 windows'."
            )
        if self.windows > 1 and not isinstance(self.view.window, Fixed):
            raise DefinitionError(
                f"{what}: for_ is {self.for_!r}, and windows of {self.view.window.describe()} do not follow each "
                "other: leave it out."
            )
        if isinstance(self.view.window, AllTime) and self.on == "final":
            raise DefinitionError(f"{what}: a window of all time is never final: use on='updates'.")


def webhook(url: str, format: Literal["braid", "alertmanager"] = "braid") -> Receiver:
    """An address that takes JSON over HTTP; with format="alertmanager" as Prometheus' Alertmanager takes it."""
    if format not in ("braid", "alertmanager"):
        raise DefinitionError(
            f"webhook: format {format!r} is not known. {suggest(str(format), ('braid', 'alertmanager'), 'formats')}"
        )
    return Receiver(url, format)


def message(url: str) -> Receiver:
    """A mailbox, a chat or a telephone: whatever Apprise has an address for."""
    return Receiver(url, "message")
