"""Braid's own classes are compiled once per source, and whoever cannot compile them is told what is missing."""

import errno
import os
import shutil
from pathlib import Path

import pytest

from braid.infra import jars
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
    (folder / "spark").mkdir(parents=True)
    for jar in (jars_dir() / "spark").glob("delta-storage-*.jar"):
        shutil.copy(jar, folder / "spark")
    (folder / "fetched").write_text(jars.stamp())
    return folder


def test_braids_own_classes_are_compiled_anew_when_they_are_missing_damaged_or_older_than_their_source(
    fetched: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = fetched / "spark" / "braid.jar"
    assert "is missing" in check_jars(fetched).detail
    own.write_bytes(b"cut off")
    assert not check_jars(fetched).ok
    jars.compile_classes(fetched)
    assert check_jars(fetched).ok
    assert {file.name for file in (fetched / "spark").iterdir()} == {own.name, "delta-storage-4.0.0.jar"}
    changed = shutil.copytree(jars.JAVA_SOURCES, tmp_path / "java")
    with (changed / "braid" / "LocalFiles.java").open("a") as source:
        source.write("// another thought\n")
    monkeypatch.setattr(jars, "JAVA_SOURCES", changed)
    stale = check_jars(fetched)
    assert not stale.ok
    assert "older than its source" in stale.detail
    assert "-m braid.infra.jars" in stale.fix


def test_a_java_without_a_compiler_is_told_apart_and_leaves_no_jar(
    fetched: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = java(tmp_path, 1, "java.lang.module.FindException: Module jdk.compiler not found")
    check = check_compiler(environment)
    assert not check.ok
    assert "JDK 17" in check.fix
    monkeypatch.setenv("JAVA_HOME", environment["JAVA_HOME"])
    with pytest.raises(SystemExit, match="needs a JDK, not only a runtime") as refused:
        jars.compile_classes(fetched)
    assert "Module jdk.compiler not found" in str(refused.value)
    assert not (fetched / "spark" / "braid.jar").exists()


def test_packages_that_are_not_those_of_this_version_are_said_before_braids_own(fetched: Path) -> None:
    (fetched / "fetched").write_text("an older set")
    assert "fetches what is missing" in check_jars(fetched).fix


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
