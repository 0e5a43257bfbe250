"""Settings come from the environment and braid.toml, and a mistake in either is named."""

import stat
from datetime import timedelta
from pathlib import Path

import pytest

from braid.errors import SettingsError
from braid.runtime.settings import Settings, load_settings


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_defaults_are_the_embedded_single_machine() -> None:
    settings = load_settings()
    assert settings.uses_embedded_broker
    assert settings.bootstrap == "127.0.0.1:9092"
    assert settings.epoch == timedelta(minutes=1)
    assert settings.location("log", "requests") == f"{Path.cwd()}/.braid/log/requests"


def test_the_environment_wins_over_braid_toml(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("braid.toml").write_text('epoch = "10 seconds"\nkafka_port = 19092\n')
    monkeypatch.setenv("BRAID_EPOCH", "5 minutes")
    settings = load_settings()
    assert (settings.epoch, settings.kafka_port) == (timedelta(minutes=5), 19092)


def test_an_unknown_variable_is_named_with_the_one_that_was_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRAID_SPARK_MASTR", "local[2]")
    with pytest.raises(SettingsError, match=r"BRAID_SPARK_MASTR is not a setting.*BRAID_SPARK_MASTER"):
        load_settings()


def test_an_unknown_key_in_braid_toml_is_named() -> None:
    Path("braid.toml").write_text('hme = "/data"\n')
    with pytest.raises(SettingsError, match=r"braid.toml: 'hme' is not a setting.*BRAID_HOME"):
        load_settings()


def test_braid_toml_that_is_not_toml_is_an_error_with_its_line() -> None:
    Path("braid.toml").write_text("home = \n")
    with pytest.raises(SettingsError, match="line 1"):
        load_settings()


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("BRAID_EPOCH", "soon"),
        ("BRAID_EPOCH", "0 seconds"),
        ("BRAID_KAFKA_PORT", "70000"),
        ("BRAID_STRICT", "perhaps"),
        ("BRAID_SPARK_MEMORY", "lots"),
        ("BRAID_HOME", ""),
        ("BRAID_HOME", "s3://bucket/braid"),
        ("BRAID_HOME", "gs://bucket/braid"),
        ("BRAID_HOME", "file://data/braid"),
        ("BRAID_HOME", "file:///data/my%20braid"),
    ],
)
def test_a_bad_value_is_named_with_its_variable(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(SettingsError, match=f"{variable} = '{value}' is not possible"):
        load_settings()


def test_a_uri_as_home_stays_a_uri() -> None:
    settings = Settings(home="s3a://bucket/braid/")
    assert settings.location("log", "requests") == "s3a://bucket/braid/log/requests"
    with pytest.raises(SettingsError, match="s3a://bucket"):
        settings.local_home()


def test_a_new_home_is_its_owners_alone_and_one_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    home = tmp_path / "deep" / "home"
    Settings(home=str(home)).make_home()
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    home.chmod(0o750)
    Settings(home=str(home)).make_home()
    assert stat.S_IMODE(home.stat().st_mode) == 0o750
    Settings(home="s3a://bucket/home").make_home()
    shared = tmp_path / "shared home"
    Settings(home=f"file://{shared}").make_home()
    assert stat.S_IMODE(shared.stat().st_mode) == 0o700
