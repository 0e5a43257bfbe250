"""`braid standby`: a Spark that is running already, for commands that would each have to start their own."""

import json
import os
import select
import socket
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from braid.cli.platform.forward import DISPLAY, READY, address, circumstances, is_forwarded
from braid.errors import BraidError
from braid.runtime.logging import Logger
from braid.runtime.settings import Settings, current_settings
from braid.runtime.signals import stop_on_signals

log = Logger("standby")

LONGEST_REQUEST = 1 << 20
# Standard input, output and error.
STREAMS = (0, 1, 2)
LOOK_EVERY = 0.2
# A caller whose turn it is says at once what it wants.
ASK_WITHIN = 10.0
# After these it starts anew: it would answer with yesterday's definitions, or not at all.
STALE, DEAD = "a source file has changed since it was read", "its Spark is gone"


def standby() -> None:
    """Keep Spark running for commands that would start their own: they take seconds less, in Airflow and at a prompt.

    While it runs, `braid batch run`, `gate` and `release`, `braid compare`, `braid kappa replay` and `compare`, and
    `braid maintain` are done by it, one after another, if their settings and their folder are the same. At a terminal
    they look as ever, Ctrl-C ends what is done for them, and one that finds the standby busy starts its own Spark.
    `braid airflow up` starts one. A command whose caller is killed is killed too.

    Example: `braid standby`
    """
    from batch_layer.gates.judge import load_in_background
    from braid.runtime.spark import spark_session

    settings = current_settings()
    with _listening(address(settings)) as listener, stop_on_signals() as stop:
        # What the first command would load, and then the first job of a Spark: seconds that are nobody's.
        load_in_background()
        spark = spark_session(settings, "braid standby")
        spark.range(1).count()
        desk = Desk(settings, spark, _sources())
        log.info("standby started", home=settings.home)
        while not stop.is_set():
            if select.select([listener], [], [], LOOK_EVERY)[0]:
                connection, _ = listener.accept()
                with connection:
                    desk.serve(connection)


@dataclass
class Desk:
    """Takes one command after another.

    `sources` are the files of code that were read, with their times; `own` is where the standby itself writes.
    """

    settings: Settings
    spark: Any
    sources: dict[str, float] = field(default_factory=dict)
    own: tuple[int, ...] = field(default_factory=lambda: tuple(map(os.dup, STREAMS)))

    def serve(self, connection: socket.socket) -> None:
        connection.settimeout(ASK_WITHIN)
        try:
            connection.sendall(READY)
            text, streams, _, _ = socket.recv_fds(connection, LONGEST_REQUEST, len(STREAMS))
        except OSError:
            return
        if not text:
            # Somebody who did not want to wait any longer.
            return
        connection.settimeout(None)
        try:
            request = json.loads(text)
            reason = self._refusal(request)
            answer: dict[str, Any] = (
                {"refused": reason} if reason else {"exit": self._run(connection, request, streams)}
            )
            log.info("command", **answer, command=" ".join(request["arguments"]))
        except (ValueError, KeyError, TypeError):
            answer = {"refused": "this is no request"}
        finally:
            for stream in streams:
                os.close(stream)
        with suppress(OSError):
            connection.sendall(json.dumps(answer).encode() + b"\n")
        if answer.get("refused") in (STALE, DEAD):
            self._start_anew()

    def _refusal(self, request: dict[str, Any]) -> str | None:
        """Why a command must be run by its caller."""
        if not is_forwarded(request["arguments"]):
            return "this command is not for a standby"
        if any(request[name] != value for name, value in circumstances(self.settings).items()):
            return "its settings or its folder are other ones"
        if not self._spark_lives():
            return DEAD
        return STALE if _changed(self.sources) else None

    def _spark_lives(self) -> bool:
        from py4j.protocol import Py4JError

        try:
            return not self.spark.sparkContext._jsc.sc().isStopped()
        except (Py4JError, OSError):
            return False

    def _run(self, connection: socket.socket, request: dict[str, Any], streams: list[int]) -> int:
        from braid.cli import run

        with self._watched(connection), self._speaking_to(streams, request["display"]):
            try:
                run(request["arguments"])
            except SystemExit as ended:
                code = ended.code
            else:
                code = 0
        if self._spark_lives():
            self.spark.catalog.clearCache()
        self.sources = _sources() | self.sources
        return code if isinstance(code, int) else 0 if code is None else 1

    @contextmanager
    def _speaking_to(self, streams: Sequence[int], display: Mapping[str, str]) -> Iterator[None]:
        """What is printed meanwhile goes to the caller's own outputs, as wide and as coloured as these are."""
        before = {name: os.environ[name] for name in DISPLAY if name in os.environ}
        _speak_to(streams)
        _draw_for(display)
        try:
            yield
        finally:
            _speak_to(self.own)
            _draw_for(before)

    @contextmanager
    def _watched(self, connection: socket.socket) -> Iterator[None]:
        """A caller that is gone wants nothing any more: what runs for it ends as if it had been killed itself."""
        done = threading.Event()

        def watch() -> None:
            while not done.is_set():
                if select.select([connection], [], [], LOOK_EVERY)[0] and not done.is_set():
                    self._start_anew()

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()

    def _start_anew(self) -> NoReturn:
        """In the same process, with the files as they are now. Nothing of what ran before writes any more."""
        import psutil

        # The caller's terminal is its own again from here on.
        _speak_to(self.own)
        children = psutil.Process().children(recursive=True)
        for child in children:
            with suppress(psutil.NoSuchProcess):
                child.kill()
        psutil.wait_procs(children)
        os.execv(sys.executable, [sys.executable, *sys.argv])


def _speak_to(streams: Sequence[int]) -> None:
    for output in (sys.stdout, sys.stderr):
        # A terminal that is closed takes nothing any more.
        with suppress(OSError):
            output.flush()
    for number, stream in zip(STREAMS, streams, strict=True):
        os.dup2(stream, number)


def _draw_for(display: Mapping[str, str]) -> None:
    """What consoles find out when they are made, they find out again: whether there are colours, and how many."""
    from braid.cli import output

    for name in DISPLAY:
        os.environ.pop(name, None)
    os.environ.update(display)
    output.console.__init__()  # type: ignore[misc]
    output.errors.__init__(stderr=True)  # type: ignore[misc]


def _sources() -> dict[str, float]:
    """The files of code that are loaded and that somebody may edit, with their times: not those of packages."""
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    return {
        file: _time(file) for file in files if file and not file.startswith((sys.prefix, sys.base_prefix))
    }


def _changed(known: dict[str, float]) -> bool:
    return any(_time(file) != time for file, time in known.items())


def _time(file: str) -> float:
    try:
        return os.stat(file).st_mtime
    except OSError:
        return 0.0


@contextmanager
def _listening(place: Path) -> Iterator[socket.socket]:
    """One standby a home; what a killed one left behind is taken over."""
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(place))
        except OSError:
            place.unlink(missing_ok=True)
        else:
            raise BraidError(f"a standby runs already for this BRAID_HOME ({place}): stop that one first.")
    with socket.socket(socket.AF_UNIX) as listener:
        before = os.umask(0o077)
        try:
            listener.bind(str(place))
        finally:
            os.umask(before)
        listener.listen()
        try:
            yield listener
        finally:
            place.unlink(missing_ok=True)
