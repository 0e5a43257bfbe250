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
# What a person's shell says of the terminal: the standby draws as the command itself would.
DISPLAY = (
    "COLORTERM", "COLUMNS", "FORCE_COLOR", "LINES", "NO_COLOR", "TERM", "TTY_COMPATIBLE", "TTY_INTERACTIVE",
)  # fmt: skip
# The standby sends it to the caller whose turn it is.
READY = b"."
# As for an error that nobody foresaw: what the standby left undone may be done by trying again.
EXIT_STANDBY_GONE = 70
EXIT_INTERRUPTED = 130
# A person does not wait longer for the commands of others: to start a Spark takes less than most of them.
PATIENCE = 1.0
# To the first column of an empty line, with a cursor: a bar that was being drawn has hidden it.
CLEAR_LINE = "\r\x1b[2K\x1b[?25h"


def forwarded(arguments: Sequence[str]) -> int | None:
    """The exit code of a command that a standby has run; None when it is to be run here."""
    if not is_forwarded(arguments):
        return None
    try:
        settings = current_settings()
    except BraidError:
        # Said where the command itself reads them.
        return None
    display = {name: os.environ[name] for name in DISPLAY if name in os.environ}
    request: dict[str, object] = {
        "arguments": list(arguments), "display": display, **circumstances(settings)
    }  # fmt: skip
    return _asked(address(settings), request)


def is_forwarded(arguments: Sequence[str]) -> bool:
    given = tuple(arguments)
    return "--help" not in given and any(given[: len(command)] == command for command in FORWARDED)


def address(settings: Settings) -> Path:
    """Where the standby of a home listens. Not within the home: the name of a socket may have 100 bytes at most."""
    home = hashlib.sha256(settings.location().encode()).hexdigest()[:16]
    # The number is that of how both talk: a standby of an older Braid that still runs is not found, and not waited for.
    return Path(tempfile.gettempdir()) / f"braid-{os.getuid()}-{home}-2.sock"


def circumstances(settings: Settings) -> dict[str, str]:
    """What must be the same here and there for a command to mean the same."""
    values = {
        name: value.get_secret_value() if isinstance(value, SecretStr) else str(value)
        for name, value in settings.model_dump().items()
    }
    # With these a store is reached, or it is another one.
    access = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    text = json.dumps(values | access | {"home": settings.location()}, sort_keys=True)
    return {"settings": hashlib.sha256(text.encode()).hexdigest(), "folder": os.getcwd()}


def _asked(standby: Path, request: dict[str, object]) -> int | None:
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            if standby.stat().st_uid != os.getuid():
                return None
            connection.connect(str(standby))
            connection.settimeout(PATIENCE if sys.stderr.isatty() else None)
            if connection.recv(len(READY)) != READY:
                return None
            # The standby reads from where this command would, and writes to where it would.
            socket.send_fds(connection, [json.dumps(request).encode() + b"\n"], [0, 1, 2])
        except OSError:
            return None
        connection.settimeout(None)
        try:
            with connection.makefile("r") as answers:
                line = answers.readline()
        except KeyboardInterrupt:
            return _interrupted(connection)
    if not line:
        _say(f"the standby that ran this command is gone: {standby}. Try it again.")
        return EXIT_STANDBY_GONE
    answer = json.loads(line)
    return None if "refused" in answer else int(answer["exit"])


def _interrupted(connection: socket.socket) -> int:
    """Ctrl-C: what is being done ends, and the terminal is as it was."""
    connection.shutdown(socket.SHUT_WR)
    # It says nothing more once it has ended: its end closes the connection.
    while connection.recv(1 << 10):
        pass
    if sys.stderr.isatty():
        print(CLEAR_LINE, end="", file=sys.stderr)
    _say("interrupted")
    return EXIT_INTERRUPTED


def _say(message: str) -> None:
    from braid.cli.output import print_error

    print_error(message)
