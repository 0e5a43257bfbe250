"""A real broker that lets nobody in without a password or a certificate, and asks what each user may do."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from braid.infra import broker as embedded
from braid.runtime.settings import Settings
from tests.conftest import free_port

# A quote and a backslash in it would end a carelessly written login configuration.
PASSWORD = 'a "quoted\\ secret; password=x'
PLAIN_PASSWORD = "another-secret"
USERS = ("writer", "ingest", "stranger", "maker")
JAVA = "org.apache.kafka.common.security"


@dataclass(frozen=True)
class Secured:
    """One broker with a listener for each way to come in; `anonymous` is its administrator's, on this machine."""

    folder: Path
    anonymous: str
    ports: dict[str, int]

    def settings(self, security: str, **more: str) -> Settings:
        known = {"kafka_bootstrap": f"127.0.0.1:{self.ports[security]}", "kafka_security": security}
        return Settings(**known | more)  # type: ignore[arg-type]

    @property
    def authority(self) -> str:
        return str(self.folder / "authority.pem")

    @property
    def client_file(self) -> str:
        return str(self.folder / "client.pem")


@contextmanager
def secured_broker(folder: Path) -> Iterator[Secured]:
    folder.mkdir(parents=True, exist_ok=True)
    make_certificates(folder)
    node = embedded.Broker(folder / "node", free_port(), free_port())
    ports = {name: free_port() for name in ("SASL_PLAINTEXT", "SSL", "SASL_SSL")}
    node.folder.mkdir()
    # In a file of properties the last line of a name counts.
    node.config.write_text(embedded.server_properties(node) + _properties(folder, node, ports))
    scram = [
        word
        for user in USERS
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
        for word in ("--add-scram", f'{mechanism}=[name={user},password="{PASSWORD}"]')
    ]
    embedded.storage_tool("format", "-t", embedded.new_cluster_id(), "-c", str(node.config), *scram)
    try:
        embedded.wait_until_it_answers(node, {"broker": embedded.spawn(node)})
        yield Secured(folder, node.bootstrap, ports)
    finally:
        embedded.stop(node)


def _properties(folder: Path, node: embedded.Broker, ports: dict[str, int]) -> str:
    listeners = {"PLAINTEXT": node.port, **ports}
    addresses = ",".join(f"{name}://127.0.0.1:{port}" for name, port in listeners.items())
    plain = f'{JAVA}.plain.PlainLoginModule required user_writer="{PLAIN_PASSWORD}";'
    values = {
        "listeners": f"{addresses},CONTROLLER://127.0.0.1:{node.controller_port}",
        "advertised.listeners": addresses,
        "listener.security.protocol.map": ",".join(
            [*(f"{name}:{name}" for name in listeners), "CONTROLLER:PLAINTEXT"]
        ),
        "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        # Who comes in on the listener of the broker itself; a client's certificate names its user.
        "super.users": "User:ANONYMOUS;User:CN=client",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": folder / "broker.pem",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": folder / "authority.pem",
        "listener.name.ssl.ssl.client.auth": "required",
    }
    for listener in ("sasl_plaintext", "sasl_ssl"):
        for mechanism in ("scram-sha-256", "scram-sha-512"):
            values[f"listener.name.{listener}.{mechanism}.sasl.jaas.config"] = (
                f"{JAVA}.scram.ScramLoginModule required;"
            )
        values[f"listener.name.{listener}.plain.sasl.jaas.config"] = plain
    return "".join(f"{name}={value}\n" for name, value in values.items())


def make_certificates(folder: Path) -> None:
    """An authority, and what it signed: the broker's certificate, for 127.0.0.1, and a client's, each with its key."""
    authority = ec.generate_private_key(ec.SECP256R1())
    root = _certificate("authority", authority, authority, x509.BasicConstraints(True, None))
    (folder / "authority.pem").write_bytes(root)
    address = x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))])
    purpose = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
    for name, extension in (("broker", address), ("client", purpose)):
        key = ec.generate_private_key(ec.SECP256R1())
        written = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (folder / f"{name}.pem").write_bytes(written + _certificate(name, key, authority, extension))


def _certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    signer: ec.EllipticCurvePrivateKey,
    extension: x509.ExtensionType,
) -> bytes:
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
    )
    return made.sign(signer, hashes.SHA256()).public_bytes(Encoding.PEM)
