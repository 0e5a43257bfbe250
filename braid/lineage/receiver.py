"""Where lineage is sent: a file, one event a line, or an address over HTTP. That it cannot be sent stops nothing."""

import json
import os
import time
import urllib.request
from pathlib import Path
from typing import Any

from braid.runtime.logging import Logger
from braid.runtime.settings import Settings

logger = Logger("lineage")

# A receiver that does not answer is not waited for longer, and not asked again for a while.
TIMEOUT, LEFT_ALONE = 3.0, 30.0
_away: dict[str, float] = {}


def send(settings: Settings, event: dict[str, Any]) -> None:
    """What cannot be delivered is lost with a warning: lineage tells of the work, and is not the work."""
    place, body = settings.lineage, json.dumps(event)
    what = f"{event['eventType']} of {event['job']['name']}"
    if time.monotonic() < _away.get(place, 0.0):
        logger.warning("lineage was not sent", about=what, reason=f"{place} did not answer before")
        return
    try:
        if place.startswith(("http://", "https://")):
            _post(place, settings.lineage_key.get_secret_value(), body)
        else:
            _append(Path(place).expanduser(), body)
    except OSError as error:
        _away[place] = time.monotonic() + LEFT_ALONE
        logger.warning(
            "lineage was not sent", about=what, to=place, reason=str(error) or type(error).__name__
        )


def _post(address: str, key: str, body: str) -> None:
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
    asked = urllib.request.Request(address, body.encode(), headers, method="POST")
    with urllib.request.urlopen(asked, timeout=TIMEOUT):
        pass


def _append(file: Path, body: str) -> None:
    """In one write: several processes may tell of their runs at once."""
    file.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(handle, f"{body}\n".encode())
    finally:
        os.close(handle)
