"""A real PostgreSQL server in a folder of its own, on a free port, ended by its id."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.conftest import free_port
from tests.waiting import until

USER = "postgres"


def programs() -> Path | None:
    """Where the server's programs are; Debian keeps them out of the path."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    there = shutil.which("initdb")
    return found[-1].parent if found else Path(there).parent if there else None


class Server:
    """Started and stopped as often as a test wants; its data stays."""

    def __init__(self, folder: Path, bin_folder: Path) -> None:
        self.folder, self._bin, self.port = folder, bin_folder, free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._run("initdb", "-D", str(folder / "data"), "-A", "trust", "-U", USER, "-E", "UTF8", "--no-sync")

    @property
    def dsn(self) -> str:
        return f"postgresql://{USER}@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        options = {"port": self.port, "listen_addresses": "127.0.0.1", "unix_socket_directories": self.folder,
                   "fsync": "off"}  # fmt: skip
        words = [str(self._bin / "postgres"), "-D", str(self.folder / "data")]
        words += [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(_as_nobody(words), stdout=log, stderr=log, cwd=self.folder)
        until(self.answers, 60)

    def stop(self, kill: bool = False) -> None:
        """With `kill` as in a crash: whoever is connected is cut off, and the next start recovers."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT if kill else signal.SIGINT)
            self._process.wait(60)
            self._process = None

    def answers(self) -> bool:
        try:
            psycopg.connect(self.dsn, connect_timeout=2).close()
        except psycopg.Error:
            return False
        return True

    def query(self, text: str, *values: Any) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.dsn, autocommit=True, options="-c timezone=UTC") as connection:
            cursor = connection.execute(text, values)
            return cursor.fetchall() if cursor.description else []

    def _run(self, program: str, *words: str) -> None:
        subprocess.run(
            _as_nobody([str(self._bin / program), *words]), check=True, capture_output=True, cwd=self.folder
        )


@contextmanager
def a_server() -> Iterator[Server]:
    found = programs()
    if found is None:
        pytest.skip("needs a PostgreSQL server: on Debian, apt-get install postgresql")
    # Not below pytest's folder, which is for its user alone: the server does not run as root.
    folder = Path(tempfile.mkdtemp(prefix="braid-postgres-"))
    if os.getuid() == 0:
        shutil.chown(folder, USER, USER)
    server = None
    try:
        server = Server(folder, found)
        server.start()
        yield server
    finally:
        if server is not None:
            server.stop()
        shutil.rmtree(folder)


def _as_nobody(words: list[str]) -> list[str]:
    """The server refuses to be root's."""
    if os.getuid() != 0:
        return words
    return ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", *words]
