"""Settings become the options of clients in one place, and what cannot work is refused before anything is tried."""

import logging
from pathlib import Path

import pytest

from braid.errors import SettingsError
from braid.runtime import kafka
from braid.runtime.settings import Settings, load_settings

LOGIN = {"kafka_user": "me", "kafka_password": "secret"}


def settings(**changed: str) -> Settings:
    return Settings(**{"kafka_bootstrap": "one:9092,two:9092", **changed})  # type: ignore[arg-type]


def test_without_security_nothing_but_the_address_is_said() -> None:
    assert kafka.spark_options(settings()) == {"kafka.bootstrap.servers": "one:9092,two:9092"}
    assert kafka.client_options(settings()) == {
        "bootstrap_servers": ["one:9092", "two:9092"],
        "security_protocol": "PLAINTEXT",
    }


def test_a_password_cannot_end_its_quotes_in_javas_login() -> None:
    odd = settings(kafka_security="SASL_SSL", kafka_user="me", kafka_password='a"b\\c')
    assert kafka.spark_options(odd)["kafka.sasl.jaas.config"] == (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="me" password="a\\"b\\\\c";'
    )
    assert kafka.client_options(odd)["sasl_plain_password"] == 'a"b\\c'


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"kafka_security": "SASL_SSL"}, "set BRAID_KAFKA_USER and BRAID_KAFKA_PASSWORD"),
        ({"kafka_security": "SASL_SSL", "kafka_user": "me"}, "set BRAID_KAFKA_USER and BRAID_KAFKA_PASSWORD"),
        (LOGIN, "BRAID_KAFKA_SECURITY=PLAINTEXT would never use it"),
        ({"kafka_security": "SSL", **LOGIN}, "BRAID_KAFKA_SECURITY=SSL would never use it"),
        (
            {"kafka_security": "SSL", "kafka_ca_file": "no.pem"},
            "BRAID_KAFKA_CA_FILE=no.pem: there is no such file",
        ),
        (
            {"kafka_security": "SSL", "kafka_client_file": "no.pem"},
            "BRAID_KAFKA_CLIENT_FILE=no.pem: there is no",
        ),
        ({"kafka_security": "SASL_PLAINTEXT", "kafka_ca_file": "x", **LOGIN}, "does not encrypt"),
        ({"kafka_security": "SSL", "kafka_bootstrap": ""}, "the embedded broker serves this machine alone"),
    ],
)
def test_settings_that_do_not_fit_together_are_refused(changed: dict[str, str], says: str) -> None:
    for options in (kafka.spark_options, kafka.client_options):
        with pytest.raises(SettingsError, match=says) as refused:
            options(settings(**changed))
        assert "secret" not in str(refused.value)


def test_a_password_that_is_no_text_is_not_repeated_in_the_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("braid.toml").write_text("kafka_password = 123456\n")
    with pytest.raises(
        SettingsError, match=r"kafka_password in braid.toml = \(not shown\) is not possible"
    ) as error:
        load_settings()
    assert "123456" not in str(error.value)


def test_what_a_client_logs_while_it_connects_is_said_once_and_not_printed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    from kafka.errors import SaslAuthenticationFailedError

    def client_that_tries_in_vain(**options: object) -> None:
        logging.getLogger("kafka.net").warning(
            "connection to %s failed: %s", "one", SaslAuthenticationFailedError()
        )
        raise OSError("timed out")

    with pytest.raises(Exception, match="does not let user 'me' in"):
        kafka.connect(settings(kafka_security="SASL_SSL", **LOGIN), client_that_tries_in_vain, 1)
    assert not caplog.records


@pytest.mark.parametrize("nodes", ["0", "2", "4", "7"])
def test_a_cluster_that_cannot_have_a_majority_after_a_loss_is_refused(
    nodes: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BRAID_KAFKA_NODES", nodes)
    with pytest.raises(SettingsError, match="use 1, 3 or 5"):
        load_settings()


def test_clients_of_an_embedded_cluster_know_all_its_nodes() -> None:
    assert (
        Settings(kafka_nodes=3, kafka_port=9000).bootstrap == "127.0.0.1:9000,127.0.0.1:9002,127.0.0.1:9004"
    )
