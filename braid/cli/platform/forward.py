"""Gives a command that needs Spark, and ends by itself, to the standby that has Spark running, where there is one."""

import hashlib
import json
import os
import socket
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pydantic import SecretStr

from braid.errors import BraidError
from braid.runtime.settings import Settings, current_settings

FORWARDED = (
    ("batch", "run"),
    ("batch", "gate"),
    ("batch", "release"),
    ("compare",),
    ("kappa", "compare"),
    ("kappa", "replay"),
    ("maintain",),
)
# As for an error that nobody foresaw: what the standby left undone may be done by trying again.
EXIT_STANDBY_GONE = 70


def forwarded(arguments: Sequence[str]) -> int | None:
    """The exit code of a command that a standby has run; None when it is to be run here.

    A person at a terminal runs it here: progress, colours and Ctrl-C are worth more than ten seconds.
    """
    if not is_forwarded(arguments) or sys.stdout.isatty() or sys.stderr.isatty():
        return None
    try:
        settings = current_settings()
    except BraidError:
        # Said where the command itself reads them.
        return None
    return _asked(address(settings), {"arguments": list(arguments), **circumstances(settings)})


def is_forwarded(arguments: Sequence[str]) -> bool:
    given = tuple(arguments)
    return "--help" not in given and any(given[: len(command)] == command for command in FORWARDED)


def address(settings: Settings) -> Path:
    """Where the standby of a home listens. Not within the home: the name of a socket may have 100 bytes at most."""
    home = hashlib.sha256(settings.location().encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"braid-{os.getuid()}-{home}.sock"


def circumstances(settings: Settings) -> dict[str, str]:
    """What must be the same here and there for a command to mean the same."""
    values = {
        name: value.get_secret_value() if isinstance(value, SecretStr) else str(value)
        for name, value in settings.model_dump().items()
    }
    text = json.dumps(values | {"home": settings.location()}, sort_keys=True)
    return {"settings": hashlib.sha256(text.encode()).hexdigest(), "folder": os.getcwd()}


def _asked(standby: Path, request: dict[str, object]) -> int | None:
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            if standby.stat().st_uid != os.getuid():
                return None
            connection.connect(str(standby))
            # The standby writes to where this command would.
            socket.send_fds(connection, [json.dumps(request).encode() + b"\n"], [1, 2])
        except OSError:
            return None
        with connection.makefile("r") as answers:
            line = answers.readline()
    if not line:
        print(f"error: the standby that ran this command is gone: {standby}. Try it again.", file=sys.stderr)
        return EXIT_STANDBY_GONE
    answer = json.loads(line)
    return None if "refused" in answer else int(answer["exit"])
