"""How every client reaches Kafka: the one place that turns settings into options, and a refusal into a sentence."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from braid.errors import BraidError, SettingsError
from braid.runtime.settings import Settings

if TYPE_CHECKING:
    from kafka.errors import KafkaError

# How the client in Python words what it logs.
NO_TLS, HUNG_UP = "Handshake failed", "socket disconnected"

_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def client_options(settings: Settings) -> dict[str, Any]:
    """For every client in Python."""
    _refuse_what_cannot_work(settings)
    options: dict[str, Any] = {
        "bootstrap_servers": settings.bootstrap.split(","),
        "security_protocol": settings.kafka_security,
    }
    if _asks_who(settings):
        options |= {
            "sasl_mechanism": settings.kafka_mechanism,
            "sasl_plain_username": settings.kafka_user,
            "sasl_plain_password": settings.kafka_password.get_secret_value(),
        }
    if _encrypts(settings):
        # None, and not an empty name: that is what the client takes for the machine's own authorities.
        options |= {
            "ssl_cafile": settings.kafka_ca_file or None,
            "ssl_certfile": settings.kafka_client_file or None,
        }
    return options


def spark_options(settings: Settings) -> dict[str, str]:
    """For Spark's source. They reach the JVM over a socket, and never as part of the session's configuration, which
    is on the command line of its process for all to see."""
    _refuse_what_cannot_work(settings)
    options = {"kafka.bootstrap.servers": settings.bootstrap}
    if settings.kafka_security != "PLAINTEXT":
        options["kafka.security.protocol"] = settings.kafka_security
    if _asks_who(settings):
        user, password = map(_quoted, (settings.kafka_user, settings.kafka_password.get_secret_value()))
        module = _MODULES[settings.kafka_mechanism]
        options |= {
            "kafka.sasl.mechanism": settings.kafka_mechanism,
            "kafka.sasl.jaas.config": f"{module} required username={user} password={password};",
        }
    if _encrypts(settings):
        files = {"truststore": settings.kafka_ca_file, "keystore": settings.kafka_client_file}
        for store, file in files.items():
            if file:
                options |= {
                    f"kafka.ssl.{store}.type": "PEM",
                    f"kafka.ssl.{store}.location": str(Path(file).resolve()),
                }
    return options


@contextmanager
def client(settings: Settings, kind: Any, timeout_ms: int, **more: Any) -> Iterator[Any]:
    """A client of that kind, closed at the end. One that the cluster does not let in is explained."""
    from kafka.errors import KafkaError

    opened = connect(settings, kind, timeout_ms, **more)
    try:
        yield opened
    except KafkaError as error:
        raise refusal(settings, error) from None
    finally:
        opened.close()


def connect(settings: Settings, kind: Any, timeout_ms: int, **more: Any) -> Any:
    """A client that its caller closes."""
    from kafka.errors import KafkaError

    options = client_options(settings) | {"bootstrap_timeout_ms": timeout_ms} | more
    with _overheard() as reasons:
        try:
            return kind(**options)
        except ValueError as error:
            raise BraidError(
                f"{settings.bootstrap!r} is not a Kafka address ({error}): set BRAID_KAFKA_BOOTSTRAP to host:port."
            ) from None
        except (KafkaError, OSError) as error:
            raise refusal(settings, _most_telling(reasons, error)) from None


def close_producer(producer: Any, seconds: float) -> None:
    """Ends a producer within so many seconds or twice as many, whatever it still waits for."""
    from kafka.errors import KafkaError

    try:
        producer.close(timeout=seconds)
    except KafkaError:
        # The client cannot be closed while batches wait, and would complain on stderr when it is collected:
        # nothing public makes it give them up.
        producer._sender.force_close()
        with suppress(KafkaError):
            producer.close(timeout=seconds)


def refusal(settings: Settings, error: Exception) -> BraidError:
    """What a cluster's answer, or its silence, means, and what to do about it."""
    from kafka import errors

    # The broker says why and hangs up, and the client may hear only the latter.
    hung_up = HUNG_UP in str(error) and _asks_who(settings)
    if hung_up or isinstance(error, errors.SaslAuthenticationFailedError):
        return BraidError(
            f"Kafka on {settings.bootstrap} does not let user {settings.kafka_user!r} in ({settings.kafka_security}, "
            f"{settings.kafka_mechanism}): check BRAID_KAFKA_USER and BRAID_KAFKA_PASSWORD, that the cluster has that "
            "user for this mechanism, and that it speaks BRAID_KAFKA_SECURITY on this port."
        )
    if isinstance(error, errors.UnsupportedSaslMechanismError):
        return BraidError(
            f"Kafka on {settings.bootstrap} does not take {settings.kafka_mechanism} ({_said(error)}): set "
            "BRAID_KAFKA_MECHANISM to one that it takes."
        )
    if isinstance(error, errors.AuthorizationError):
        return BraidError(
            f"Kafka on {settings.bootstrap} does not allow user {settings.kafka_user or 'ANONYMOUS'!r} to do that "
            f"({_said(error)}): docs/security.md lists what each part of Braid must be allowed."
        )
    if NO_TLS in str(error):
        return BraidError(
            f"Kafka on {settings.bootstrap} and this client cannot agree on TLS ({_said(error)}): check "
            "BRAID_KAFKA_SECURITY, that BRAID_KAFKA_CA_FILE is the authority that signed the brokers' certificates, "
            "and that those name the host in the address."
        )
    fix = (
        "`braid broker start` starts the embedded one"
        if settings.uses_embedded_broker
        else "see that BRAID_KAFKA_BOOTSTRAP and BRAID_KAFKA_SECURITY are right and that the cluster runs, or unset "
        "them and use the embedded one (`braid broker start`)"
    )
    return BraidError(f"no Kafka broker answers on {settings.bootstrap} ({type(error).__name__}): {fix}.")


class _Overheard(logging.Handler):
    """Keeps why a client could not connect: it logs that, tries again until its time is over, and raises a timeout."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.reasons: list[KafkaError] = []

    def emit(self, record: logging.LogRecord) -> None:
        from kafka import errors

        found = record.args if isinstance(record.args, tuple) else ()
        self.reasons += [one for one in found if isinstance(one, errors.KafkaError)]


def _most_telling(reasons: "list[KafkaError]", last: Exception) -> Exception:
    from kafka import errors

    refusals = (
        errors.SaslAuthenticationFailedError,
        errors.UnsupportedSaslMechanismError,
        errors.AuthorizationError,
    )
    said = [one for one in reasons if isinstance(one, refusals)]
    hints = [one for hint in (NO_TLS, HUNG_UP) for one in reasons if hint in str(one)]
    return next(iter([*said, *hints]), last)


@contextmanager
def _overheard() -> "Iterator[list[KafkaError]]":
    log, handler = logging.getLogger("kafka"), _Overheard()
    before = log.propagate
    log.addHandler(handler)
    # What it says on each attempt is said once, in the error.
    log.propagate = False
    try:
        yield handler.reasons
    finally:
        log.propagate = before
        log.removeHandler(handler)


def _refuse_what_cannot_work(settings: Settings) -> None:
    security = f"BRAID_KAFKA_SECURITY={settings.kafka_security}"
    if settings.uses_embedded_broker and settings.kafka_security != "PLAINTEXT":
        raise SettingsError(
            f"{security}, and the embedded broker serves this machine alone, without it: set BRAID_KAFKA_BOOTSTRAP to "
            "your cluster's address, or unset BRAID_KAFKA_SECURITY."
        )
    named = bool(settings.kafka_user), bool(settings.kafka_password.get_secret_value())
    if _asks_who(settings) and not all(named):
        raise SettingsError(
            f"{security} asks who a client is: set BRAID_KAFKA_USER and BRAID_KAFKA_PASSWORD."
        )
    if any(named) and not _asks_who(settings):
        raise SettingsError(
            f"BRAID_KAFKA_USER or BRAID_KAFKA_PASSWORD is set, and {security} would never use it: set it to "
            "SASL_SSL (or SASL_PLAINTEXT, which does not encrypt), or unset the two."
        )
    files = {
        "BRAID_KAFKA_CA_FILE": settings.kafka_ca_file,
        "BRAID_KAFKA_CLIENT_FILE": settings.kafka_client_file,
    }
    for variable, file in files.items():
        if file and not _encrypts(settings):
            raise SettingsError(
                f"{variable}={file} is set, and {security} does not encrypt: use SASL_SSL or SSL."
            )
        if file and not Path(file).is_file():
            raise SettingsError(f"{variable}={file}: there is no such file (seen from {Path.cwd()}).")


def _asks_who(settings: Settings) -> bool:
    return settings.kafka_security.startswith("SASL")


def _encrypts(settings: Settings) -> bool:
    return settings.kafka_security.endswith("SSL")


def _quoted(text: str) -> str:
    """As Java's login configuration wants it: a quote or a backslash in a password must not end it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _said(error: Exception) -> str:
    return str(error).rstrip(".")
