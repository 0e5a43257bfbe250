"""The harness: one Spark session and one broker per test process, and a fresh BRAID_HOME for each test."""

import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import hypothesis
import pytest

from braid.runtime.settings import PREFIX, Settings, current_settings

# How long an example takes says something about the machine, not about the law.
hypothesis.settings.register_profile("braid", deadline=None)
hypothesis.settings.load_profile("braid")

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@dataclass(frozen=True)
class Answer:
    """What a command left behind: its exit code and what it printed."""

    code: int
    out: str
    err: str


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A test depends on the settings it makes, not on the shell that it was started from."""
    for variable in list(os.environ):
        if variable.startswith(PREFIX):
            monkeypatch.delenv(variable)
    current_settings.cache_clear()
    yield
    current_settings.cache_clear()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A BRAID_HOME of this test's own."""
    folder = tmp_path / "home"
    monkeypatch.setenv("BRAID_HOME", str(folder))
    current_settings.cache_clear()
    return folder


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    """The session of this test process: building one takes seconds."""
    from braid.runtime.spark import spark_session

    settings = Settings(
        home=str(tmp_path_factory.mktemp("spark")), spark_master="local[2]", spark_memory="1g"
    )
    session = spark_session(settings, "braid-tests")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    """A real broker on free ports."""
    from braid.infra import broker as embedded

    node = embedded.Broker(tmp_path_factory.mktemp("broker"), free_port(), free_port())
    embedded.start(node)
    yield node
    embedded.stop(node)


@pytest.fixture
def braid(capsys: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    """Runs a `braid` command in this process, as the console script does."""
    from unittest.mock import patch

    from braid.cli import main

    def run(*arguments: str) -> Answer:
        current_settings.cache_clear()
        capsys.readouterr()
        with patch("sys.argv", ["braid", *map(str, arguments)]), pytest.raises(SystemExit) as exit_info:
            main()
        printed = capsys.readouterr()
        code = exit_info.value.code
        return Answer(code if isinstance(code, int) else int(bool(code)), printed.out, printed.err)

    return run


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real data that lies beside the repository where it is available."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"needs the real data in {SHARED_DATA}")
    return SHARED_DATA
