"""Schema registries by name: their address without a login, and the login apart from it."""

import pytest

from braid import Source
from braid.errors import DefinitionError, SettingsError
from braid.runtime.registry import address_of, login_of


def test_an_address_is_given_without_the_login_that_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRAID_REGISTRY_MAIN", "https://me:s%40cret@registry:8081/path/")
    assert address_of("main") == "https://registry:8081/path"
    assert login_of("main") == "me:s@cret"
    monkeypatch.setenv("BRAID_REGISTRY_MAIN", "http://registry:8081")
    assert login_of("main") is None


def test_a_registry_that_is_not_set_and_an_address_that_is_none_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(SettingsError, match=r"there is no registry 'main': set BRAID_REGISTRY_MAIN"):
        address_of("main")
    monkeypatch.setenv("BRAID_REGISTRY_MAIN", "registry:8081")
    with pytest.raises(SettingsError, match=r"BRAID_REGISTRY_MAIN is not the address of a schema registry"):
        address_of("main")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"format": "avro"}, "names the registry"),
        ({"registry": "main"}, "names the registry"),
        ({"format": "avro", "registry": "Main!"}, "cannot be the name of a schema registry"),
        (
            {"format": "avro", "registry": "main", "kafka_topic": None, "files": "x/*.avro"},
            "for records of Kafka",
        ),
        ({"format": "text"}, "names the pattern"),
        ({"pattern": "(.*)"}, "names the pattern"),
        ({"format": "text", "pattern": "(.*"}, "is not a regular expression: missing \\)"),
        ({"format": "text", "pattern": "(.*) (.*)"}, "has 2 groups and the schema 1 columns"),
        ({"format": "parquet"}, "is for files"),
        (
            {"format": "parquet", "kafka_topic": None, "files": "x/*", "time_format": "epoch_millis"},
            "whose times are times",
        ),
        ({"format": "text", "pattern": "(.)(.)", "schema": "t timestamp, a array<int>"}, "cannot hold"),
    ],
)
def test_a_format_says_what_else_it_needs(options: dict[str, str], says: str) -> None:
    given = {"name": "o", "kafka_topic": "o", "schema": "t timestamp", "event_time": "t"} | options
    with pytest.raises(DefinitionError, match=says):
        Source(**given)  # type: ignore[arg-type]
