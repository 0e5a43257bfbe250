"""A lock between processes: held by one at a time, waited for as long as one likes, and let go by the dead."""

import threading
from pathlib import Path

import pytest

from braid.errors import BraidError
from braid.runtime.lock import is_locked, locked


def test_who_does_not_want_to_wait_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "folder" / "lock"
    assert not is_locked(file)
    with locked(file):
        assert is_locked(file)
        with pytest.raises(BraidError, match="another process holds"), locked(file, patience=0):
            pass
        with (
            pytest.raises(BraidError, match="not now"),
            locked(file, patience=0.05, refusal=lambda held: BraidError("not now")),
        ):
            pass
    assert not is_locked(file)


def test_who_waits_gets_it_when_the_other_one_has_ended(tmp_path: Path) -> None:
    file, got = tmp_path / "lock", threading.Event()

    def waits() -> None:
        with locked(file):
            got.set()

    waiting = threading.Thread(target=waits)
    with locked(file):
        waiting.start()
        assert not got.wait(0.1)
    waiting.join(60)
    assert got.is_set()


def test_what_is_written_into_the_file_stays(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    file.write_text("who holds it")
    with locked(file):
        assert file.read_text() == "who holds it"
