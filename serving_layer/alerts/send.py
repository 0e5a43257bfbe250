"""Sends what an alert has said to those who want to know, in order and until each has it, under a stable id."""

import json
import time
import urllib.error
import urllib.request
from datetime import UTC, datetime
from typing import Any

from braid.define.alerts import Alert, Receiver
from braid.errors import BraidError
from braid.runtime import documents
from braid.runtime.logging import Logger
from braid.runtime.settings import Settings, secret, variable_of
from braid.runtime.status import QueryStatus
from serving_layer.alerts.journal import entries_after, news, read_journal, state_of_entry

FIRST_BACKOFF, LAST_BACKOFF = 1.0, 60.0
PATIENCE = 10.0

log = Logger("alerts")


class Sending:
    """One receiver of one alert. How far it has come is kept, so that a receiver that is away loses nothing."""

    def __init__(self, alert: Alert, receiver: Receiver, settings: Settings) -> None:
        self.alert, self.receiver, self._settings = alert, receiver, settings
        self._place = settings.location("alerts", alert.name, f"{receiver.format}-{receiver.url}.json")
        self._sent: int | None = None
        self._waiting = 0
        self._error: str | None = None
        self._backoff, self._due = 0.0, 0.0
        self.count = 0
        self._read_at = -1

    @property
    def name(self) -> str:
        return f"alert {self.alert.name} to {self.receiver.name}"

    def turn(self) -> bool:
        """Sends what has not been sent, if it is time; whether all of it arrived."""
        if time.monotonic() < self._due:
            return False
        try:
            self._send_all()
        except Exception as error:
            self._backoff = min(max(FIRST_BACKOFF, self._backoff * 2), LAST_BACKOFF)
            self._due = time.monotonic() + self._backoff
            said = str(error) if isinstance(error, BraidError) else f"{type(error).__name__}"
            if said != self._error:
                log.error(f"{self.name} failed", reason=said, again_in=f"{self._backoff:g} s")
            self._error = said
            return False
        self._backoff, self._error = 0.0, None
        return True

    def status(self) -> QueryStatus:
        return QueryStatus(
            self.name, "alert", "retrying" if self._error else "running", error=self._error,
            retry_in=max(0.0, self._due - time.monotonic()) if self._error else None,
            lag_events=self._waiting, events=self.count, view=self.alert.view.name, batch=self._sent,
        )  # fmt: skip

    def _send_all(self) -> None:
        seen = news(self._settings, self.alert.name)
        if seen == self._read_at:
            return
        entries = entries_after(self._settings, self.alert.name, self._position())
        self._waiting = len(entries)
        for entry in entries:
            if not entry["quiet"]:
                deliver(self.receiver, self.alert, entry)
                self.count += 1
            self._sent = entry["number"]
            documents.write(self._place, json.dumps({"sent": self._sent}) + "\n")
            self._waiting -= 1
        self._read_at = seen

    def _position(self) -> int:
        """A receiver that is new is told of what comes, and not of what was."""
        if self._sent is None:
            text = documents.read(self._place)
            if text is None:
                known = read_journal(self._settings, self.alert.name)
                text = json.dumps({"sent": max((entry["number"] for entry in known), default=0)}) + "\n"
                documents.write(self._place, text)
            self._sent = int(json.loads(text)["sent"])
        return self._sent


def deliver(receiver: Receiver, alert: Alert, entry: dict[str, Any]) -> None:
    """Returns when the receiver has taken it."""
    address = secret("url", receiver.url)
    if receiver.format == "message":
        _notify(receiver, address, entry)
    elif receiver.format == "alertmanager":
        _post(receiver, f"{address.rstrip('/')}/api/v2/alerts", [for_alertmanager(entry)])
    else:
        _post(receiver, address, payload(alert, entry))


def payload(alert: Alert, entry: dict[str, Any]) -> dict[str, Any]:
    """What a webhook gets: `id` is the same for all that is said of one spot, `event` for one thing said."""
    plain = {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in entry.items()
        if name not in ("quiet", "number")
    }
    return plain | {
        "event": f"{entry['id']}/{entry['number']}",
        "when": alert.when,
        "state": state_of_entry(entry),
    }


def for_alertmanager(entry: dict[str, Any]) -> dict[str, Any]:
    """As Alertmanager takes it: the same labels are the same alert, and one that has ended has an end."""
    labels = {f"key_{key}": str(value) for key, value in entry["keys"].items()}
    labels |= {"alertname": entry["alert"], "severity": entry["severity"], "view": entry["view"]}
    if entry["window_start"] is not None:
        labels["window_start"] = entry["window_start"].isoformat()
    annotations = {"id": entry["id"], "change": entry["change"], "reason": entry["reason"],
                   "numbers": json.dumps(entry["numbers"]), "version": str(entry["version"]),
                   "status": entry["status"]}  # fmt: skip
    times = {"startsAt": entry["at"].astimezone(UTC).isoformat()}
    if state_of_entry(entry) != "firing":
        times["endsAt"] = times["startsAt"]
    return {"labels": labels, "annotations": annotations, **times}


def title_of(entry: dict[str, Any]) -> str:
    keys = ", ".join(f"{key}={value}" for key, value in entry["keys"].items())
    reason = f" ({entry['reason']})" if entry["reason"] else ""
    return (
        f"[{entry['severity']}] {entry['alert']} {entry['change']}{reason}: {entry['view']} {keys}".rstrip()
    )


def _post(receiver: Receiver, address: str, body: Any) -> None:
    variable = variable_of("url", receiver.url)
    if not address.startswith(("http://", "https://")):
        raise BraidError(f"{variable} is not an address of a webhook: write it as 'https://HOST/PATH'.")
    request = urllib.request.Request(
        address, json.dumps(body).encode(), {"Content-Type": "application/json"}, method="POST"
    )
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE):
            return
    except urllib.error.HTTPError as error:
        raise BraidError(
            f"receiver {receiver.url!r} ({variable}) answered {error.code}: {error.reason}."
        ) from None
    except (OSError, ValueError) as error:
        # The address may hold a secret, and an error may hold the address.
        reason = error.reason if isinstance(error, urllib.error.URLError) else type(error).__name__
        raise BraidError(f"receiver {receiver.url!r} ({variable}) cannot be reached: {reason}.") from None


def _notify(receiver: Receiver, address: str, entry: dict[str, Any]) -> None:
    from apprise import Apprise

    variable = variable_of("url", receiver.url)
    apprise = Apprise()
    if not apprise.add(address):
        raise BraidError(
            f"{variable} is no address that Apprise knows: 'mailto://...', 'slack://...' and others."
        )
    numbers = ", ".join(f"{name} {value}" for name, value in entry["numbers"].items())
    window = "" if entry["window_start"] is None else f"window {entry['window_start']:%Y-%m-%d %H:%M} UTC, "
    body = f"{window}{numbers} ({entry['status']}), version {entry['version']}. id {entry['id']}/{entry['number']}"
    if not apprise.notify(body=body, title=title_of(entry)):
        raise BraidError(f"receiver {receiver.url!r} ({variable}) did not take the message.")
