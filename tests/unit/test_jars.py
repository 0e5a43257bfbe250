"""Braid's own classes are compiled once per source, and whoever cannot compile them is told what is missing."""

import errno
import os
import re
import shutil
from pathlib import Path

import pytest

from braid.errors import BraidError
from braid.infra import checksums, jars, own_classes
from braid.infra.doctor import check_jars, check_writable
from braid.infra.preflight import check_compiler
from braid.runtime.installation import jars_dir


def java(folder: Path, code: int, says: str = "") -> dict[str, str]:
    """The environment of a Java that only says something and ends."""
    command = folder / "jdk" / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit {code}\n")
    command.chmod(0o755)
    return {"JAVA_HOME": str(folder / "jdk"), "PATH": os.environ["PATH"]}


@pytest.fixture
def fetched(tmp_path: Path) -> Path:
    """A folder of jars without Braid's own."""
    folder = tmp_path / "jars"
    shutil.copytree(jars_dir(), folder, copy_function=os.link)
    (folder / "spark" / "braid.jar").unlink()
    (folder / "fetched").unlink()
    (folder / "fetched").write_text(jars.stamp())
    return folder


def test_braids_own_classes_are_compiled_anew_when_they_are_missing_damaged_or_older_than_their_source(
    fetched: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = fetched / "spark" / "braid.jar"
    assert "is missing" in check_jars(fetched).detail
    own.write_bytes(b"cut off")
    assert not check_jars(fetched).ok
    own_classes.compile_classes(fetched)
    assert check_jars(fetched).ok
    present = {file.name for file in (fetched / "spark").iterdir()}
    assert present == {own.name, *checksums.pinned()["spark"]}
    changed = shutil.copytree(own_classes.JAVA_SOURCES, tmp_path / "java")
    with (changed / "braid" / "LocalFiles.java").open("a") as source:
        source.write("// another thought\n")
    monkeypatch.setattr(own_classes, "JAVA_SOURCES", changed)
    stale = check_jars(fetched)
    assert not stale.ok
    assert "older than its source" in stale.detail
    assert "`braid setup`" in stale.fix


def test_a_java_without_a_compiler_is_told_apart_and_leaves_no_jar(
    fetched: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = java(tmp_path, 1, "java.lang.module.FindException: Module jdk.compiler not found")
    check = check_compiler(environment)
    assert not check.ok
    assert "JDK 17" in check.fix
    monkeypatch.setenv("JAVA_HOME", environment["JAVA_HOME"])
    with pytest.raises(BraidError, match="needs a JDK, not only a runtime") as refused:
        own_classes.compile_classes(fetched)
    assert "Module jdk.compiler not found" in str(refused.value)
    assert not (fetched / "spark" / "braid.jar").exists()


def test_packages_that_are_not_those_of_this_version_are_said_before_braids_own(fetched: Path) -> None:
    (fetched / "fetched").write_text("an older set")
    assert "fetches what is missing" in check_jars(fetched).fix


def test_every_set_that_can_be_fetched_is_pinned() -> None:
    assert checksums.pinned().keys() == jars.PACKAGES.keys() | jars.OPTIONAL.keys()
    assert all(len(one) == 64 for files in checksums.pinned().values() for one in files.values())


def test_a_jar_with_other_bytes_than_the_pinned_ones_is_never_used(
    fetched: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def altered(say: object, folder: Path, sets: jars.Sets) -> None:
        (jar,) = (folder / "spark").glob("delta-storage-*.jar")
        jar.unlink()
        jar.write_bytes(b"another one's")

    (fetched / "fetched").unlink()
    monkeypatch.setattr(jars, "retrieve", altered)
    named = rf"delta-storage-{re.escape(jars.DELTA_VERSION)}\.jar has the checksum .* is pinned"
    with pytest.raises(BraidError, match=named) as refused:
        jars.fetch(print, fetched)
    assert "Ivy's cache" in str(refused.value)
    assert not jars.are_fetched(fetched)
    assert list((fetched / "spark").glob("*.jar")) == []


def test_the_doctor_finds_a_jar_that_was_damaged_later_and_one_that_nobody_fetched(fetched: Path) -> None:
    (jar,) = (fetched / "kafka").glob("kafka_2.13-*.jar")
    content = jar.read_bytes()
    jar.unlink()
    jar.write_bytes(content[:-1])
    (fetched / "spark" / "stranger.jar").touch()
    found = check_jars(fetched)
    assert not found.ok
    assert "stranger.jar is not one of the pinned jars" in found.detail
    assert f"{jar.name} has the checksum" in found.detail


def test_the_doctor_refuses_a_disk_without_hard_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    assert check_writable(tmp_path / "home").ok
    monkeypatch.setattr(os, "link", refuse)
    check = check_writable(tmp_path / "home")
    assert not check.ok
    assert "no hard links" in check.detail
    assert "another one" in check.fix
    assert list(tmp_path.iterdir()) == []
