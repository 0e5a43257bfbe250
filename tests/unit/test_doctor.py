"""The doctor says what is wrong and how to mend it, and never shows a traceback."""

import json
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Answer, free_port


def test_a_machine_that_is_set_up_is_all_true(
    braid: Callable[..., Answer], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRAID_KAFKA_PORT", str(free_port()))
    monkeypatch.setenv("BRAID_KAFKA_CONTROLLER_PORT", str(free_port()))
    answer = braid("doctor", "--json")
    report = json.loads(answer.out)
    assert answer.code == 0
    assert report["ok"] is True
    assert {check["name"]: check["ok"] for check in report["checks"]} == dict.fromkeys(
        ("python", "java", "versions", "jars", "disk", "write permission", "ports", "broker"), True
    )


def test_java_home_that_points_at_nothing_exits_with_2(
    braid: Callable[..., Answer], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    answer = braid("doctor", "--json")
    java = next(c for c in json.loads(answer.out)["checks"] if c["name"] == "java")
    assert answer.code == 2
    assert java["ok"] is False
    assert "/nowhere" in java["detail"]
    assert "JDK 17" in java["fix"]
    assert "Traceback" not in answer.out + answer.err


def test_a_taken_port_is_named(
    braid: Callable[..., Answer], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        monkeypatch.setenv("BRAID_KAFKA_PORT", port)
        answer = braid("doctor", "--json")
    ports = next(c for c in json.loads(answer.out)["checks"] if c["name"] == "ports")
    assert answer.code == 2
    assert port in ports["detail"]
    assert "BRAID_KAFKA_PORT" in ports["fix"]


def test_a_home_that_cannot_be_written_is_named(
    braid: Callable[..., Answer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("BRAID_HOME", str(tmp_path / "file" / "home"))
    answer = braid("doctor", "--json")
    permission = next(c for c in json.loads(answer.out)["checks"] if c["name"] == "write permission")
    assert answer.code == 2
    assert "BRAID_HOME" in permission["fix"]


def test_a_kafka_cluster_that_does_not_answer_is_named(
    braid: Callable[..., Answer], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRAID_KAFKA_BOOTSTRAP", f"127.0.0.1:{free_port()}")
    answer = braid("doctor", "--json")
    assert answer.code == 2
    assert json.loads(answer.out)["checks"][-1]["detail"].startswith("no Kafka broker answers on 127.0.0.1:")


def test_a_bad_setting_ends_in_one_sentence(
    braid: Callable[..., Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRAID_TRIGGER", "often")
    answer = braid("version")
    assert answer.code == 2
    assert "BRAID_TRIGGER = 'often'" in answer.err
    assert "Traceback" not in answer.err
