"""The harness: one Spark session and one broker per test process, and a fresh BRAID_HOME for each test."""

import os
import shutil
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

# What took longest when it was last measured: begun first, it keeps no process waiting at the end.
SLOW = (
    "test_stream", "test_one_truth", "test_cluster", "test_lost_tables", "test_ingest_recovery", "test_backfill",
    "test_lost_base", "test_batch", "test_gallery", "test_races", "test_up", "test_broker", "test_ingest", "test_kappa",
    "test_rebuild", "test_accuracy", "test_standby", "test_requeue", "test_old_home", "test_query", "test_run_once",
    "test_ingest_kill", "test_kafka_security", "test_accuracy_data", "test_local_disk",
)  # fmt: skip
SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files stay whole and in their order, but for the slow ones, which come first."""
    place = {name: number for number, name in enumerate(SLOW)}
    items.sort(key=lambda item: place.get(item.path.stem, len(place)))


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
        home=str(tmp_path_factory.mktemp("spark")), spark_master="local[2]", spark_memory="2g"
    )
    with pytest.MonkeyPatch.context() as patch:
        # Two of these share two cores: a collector with threads of its own would take a sixth of their time.
        patch.setenv("SPARK_SUBMIT_OPTS", "-XX:+UseSerialGC")
        session = spark_session(settings, "braid-tests")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Callable[[Path], None]], Path]:
    """Gives a folder by its name, filled by the first test of any process that asks for it. Who writes, copies."""
    from braid.runtime.lock import locked

    own = tmp_path_factory.getbasetemp()
    shared = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "made-once"

    def get(name: str, make: Callable[[Path], None]) -> Path:
        done, draft = shared / name, shared / f"draft of {name}"
        with locked(shared / f"{name}.lock"):
            if not done.exists():
                shutil.rmtree(draft, ignore_errors=True)
                make(draft)
                draft.rename(done)
        return done

    return get


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
