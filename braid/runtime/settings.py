"""What can be set, from the environment (BRAID_*) or braid.toml; the environment wins."""

import difflib
import os
import re
import tomllib
from contextlib import suppress
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationError
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from braid.define.durations import parse_duration
from braid.errors import BraidError, SettingsError
from braid.runtime import object_store

PREFIX = "BRAID_"
TOML_FILE = "braid.toml"
# Secrets that definitions know by a name, one variable each: braid.runtime.secrets.
SECRETS = ("dsn_", "url_", "registry_")
MEMORY = re.compile(r"^\d+[mg]$")


def _duration(value: Any) -> timedelta:
    try:
        return parse_duration(value)
    except BraidError as error:
        raise ValueError(str(error)) from None


Duration = Annotated[timedelta, BeforeValidator(_duration)]
Port = Annotated[int, Field(ge=1, le=65535)]


def _odd(value: int) -> int:
    if value not in (1, 3, 5):
        raise ValueError("a cluster decides by majority: use 1, 3 or 5")
    return value


def _known_storage(value: str) -> str:
    scheme, is_uri, _ = value.partition("://")
    if is_uri and scheme == "s3":
        raise ValueError("write s3a://, as Hadoop calls the same")
    if is_uri and scheme not in ("s3a", "file"):
        raise ValueError(f"commits to {scheme}:// would not be safe. Use a folder, or s3a://BUCKET/...")
    if scheme == "file" and is_uri and (not value.startswith("file:///") or set(value) & set("%?#")):
        raise ValueError("write file:// and the folder's whole path as it is, without %, ? and #")
    return value


def _file_or_http(value: str) -> str:
    scheme, is_uri, rest = value.partition("://")
    if is_uri and (scheme not in ("http", "https") or "@" in rest.partition("/")[0]):
        raise ValueError("name a file, or http(s)://HOST:PORT/PATH without a password: that is lineage_key")
    return value


Home = Annotated[str, AfterValidator(_known_storage)]
Receiver = Annotated[str, AfterValidator(_file_or_http)]
Nodes = Annotated[int, AfterValidator(_odd)]


class Settings(BaseSettings):
    """Every setting with its default; `BRAID_SPARK_MASTER` is `spark_master` here and in braid.toml."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, toml_file=TOML_FILE, extra="forbid", frozen=True)

    home: Home = Field(
        "./.braid",
        min_length=1,
        description="where all data lives: a folder; file:///FOLDER for one that several machines share; or "
        "s3a://BUCKET/...",
    )
    definitions: str = Field(
        "braid.examples.weblog",
        min_length=1,
        description="module name, or path of a .py file, with sources and views",
    )
    spark_master: str = Field("local[*]", min_length=1, description="local[N], spark://host:port, k8s://...")
    spark_memory: str = Field("2g", pattern=MEMORY.pattern, description="memory of the Spark driver")
    spark_cores: int = Field(2, ge=1, description="cores of a spark:// cluster that one application takes")
    spark_executor_memory: str = Field(
        "1g", pattern=MEMORY.pattern, description="memory of each executor on a spark:// cluster"
    )
    spark_ui_port: int = Field(
        0,
        ge=0,
        le=65535,
        description="port of Spark's own pages, on 127.0.0.1, the next free one from there; 0: Spark has none",
    )
    spark_secret: SecretStr = Field(
        SecretStr(""),
        description="what applications, master and workers of a spark:// cluster prove to each other; empty: nothing",
    )
    cluster_port: Port = Field(7077, description="port of the master that `braid cluster` starts")
    cluster_ui_port: Port = Field(8472, description="port of that master's pages")
    kafka_bootstrap: str = Field(
        "", description="host:port,... of a Kafka cluster; empty: the embedded broker"
    )
    kafka_port: Port = Field(9092, description="port of the embedded broker")
    kafka_controller_port: Port = Field(9093, description="port of the embedded broker's controller")
    kafka_nodes: Nodes = Field(
        1, description="brokers of the embedded cluster, 1, 3 or 5; each further one is two ports higher"
    )
    kafka_security: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        "PLAINTEXT",
        description="how clients speak to the Kafka cluster: SSL encrypts, SASL asks who they are",
    )
    kafka_mechanism: Literal["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"] = Field(
        "SCRAM-SHA-512", description="how a client proves who it is, with SASL"
    )
    kafka_user: str = Field("", description="who a client is, with SASL")
    kafka_password: SecretStr = Field(SecretStr(""), description="the password of kafka_user")
    kafka_ca_file: str = Field(
        "",
        description="PEM file of the authority that signed the brokers' certificates; empty: those of the machine",
    )
    kafka_client_file: str = Field(
        "",
        description="PEM file with a client's certificate and its key (PKCS #8), where brokers ask for one",
    )
    epoch: Duration = Field(timedelta(minutes=1), gt=timedelta(0), description="length of an epoch")
    trigger: Duration | None = Field(
        None,
        description="time between ingest's micro-batches, '0 seconds' is as fast as possible; unless it is given, half "
        "a second for each ten streams of the same application on a core, and for those that are left",
    )
    batch_records: int = Field(
        200_000,
        ge=1,
        description="records of Kafka that one micro-batch of ingest reads at most, however many wait",
    )
    batch_bytes: str = Field(
        "64m",
        pattern=MEMORY.pattern,
        description="bytes of files, or of requeued records, that one micro-batch of ingest reads at most; a larger "
        "file is read alone",
    )
    stream_trigger: Duration = Field(
        timedelta(0),
        description="time between a stream's micro-batches; '0 seconds' is as soon as ingest has committed",
    )
    fold_every: Duration = Field(
        timedelta(hours=1),
        gt=timedelta(0),
        description="how often a kappa view's tail is folded into its base",
    )
    serve_host: str = Field(
        "127.0.0.1", min_length=1, description="address of `braid serve`; another than loopback needs a token"
    )
    serve_port: Port = Field(8471, description="port of `braid serve`")
    serve_token: SecretStr = Field(
        SecretStr(""), description="what clients of `braid serve` must send; empty: nothing, on loopback only"
    )
    serve_memory: str = Field(
        "1g", pattern=MEMORY.pattern, description="memory for tables of `braid serve`, tails included"
    )
    serve_query_memory: str = Field(
        "512m",
        pattern=MEMORY.pattern,
        description="memory for the queries of `braid serve`, all of them together",
    )
    serve_connections: int = Field(
        512,
        ge=4,
        description="connections that `braid serve` keeps open; a client may have a quarter of them",
    )
    serve_streams: int = Field(
        256,
        ge=4,
        description="streams of events that `braid serve` keeps open; a client may have a quarter of them",
    )
    serve_timeout: Duration = Field(
        timedelta(seconds=10),
        gt=timedelta(0),
        description="the longest that `braid serve` works on a question",
    )
    serve_states: int = Field(
        10_000_000, ge=1, description="the most states that `braid serve` merges for a question"
    )
    health_host: str = Field(
        "127.0.0.1",
        min_length=1,
        description="address of `braid up`, or of a command with `--health`, for /health, /alive and /metrics",
    )
    health_port: Port = Field(8470, description="port of the same")
    strict: bool = Field(
        False,
        description="two engines at once are told apart by Delta's transaction ids; a `BRAID_HOME` that is a URI "
        "is always strict",
    )
    lineage: Receiver = Field(
        "",
        description="where OpenLineage events of runs go: a file, or an address such as "
        "http://127.0.0.1:5000/api/v1/lineage; empty: nowhere",
    )
    lineage_key: SecretStr = Field(SecretStr(""), description="what proves to that address who we are")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="how much is logged")
    log_format: Literal["text", "json"] = Field("text", description="log lines for people or for machines")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)

    @property
    def bootstrap(self) -> str:
        """The Kafka address that clients use, whoever runs the broker."""
        ports = (self.kafka_port + 2 * number for number in range(self.kafka_nodes))
        return self.kafka_bootstrap or ",".join(f"127.0.0.1:{port}" for port in ports)

    @property
    def uses_embedded_broker(self) -> bool:
        return not self.kafka_bootstrap

    @property
    def home_is_local(self) -> bool:
        return "://" not in self.home

    @property
    def is_fenced(self) -> bool:
        """Whether writers prove at each commit that they are alone: where no lock of this machine keeps others out."""
        return self.strict or not self.home_is_local

    def local_home(self) -> Path:
        """BRAID_HOME as a folder of this machine, for what can only live on one (the embedded broker)."""
        if not self.home_is_local:
            raise SettingsError(f"BRAID_HOME={self.home} is not a local folder, and this command needs one.")
        return Path(self.home).expanduser().resolve()

    def make_home(self) -> None:
        """A folder that only its owner can look into: it has every event. One that is there stays as it is."""
        if not object_store.is_s3(self.home):
            home = self.local_home() if self.home_is_local else Path(self.home.removeprefix("file://"))
            home.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                home.mkdir(mode=0o700)

    def location(self, *parts: str) -> str:
        """A path or URI below BRAID_HOME."""
        root = str(self.local_home()) if self.home_is_local else self.home.rstrip("/")
        return "/".join((root, *parts))


def bytes_of(size: str) -> int:
    """ "512m" -> 536870912."""
    return int(size[:-1]) << (30 if size.endswith("g") else 20)


def load_settings() -> Settings:
    """The settings of this process; an unknown key or a bad value is an error that names it."""
    _refuse_unknown_variables(os.environ)
    try:
        return Settings()  # type: ignore[call-arg]
    except ValidationError as error:
        raise SettingsError(" ".join(_explain(e) for e in error.errors())) from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{TOML_FILE} is not valid TOML: {error}. Mend the line it names.") from None


@cache
def current_settings() -> Settings:
    """The settings, read once per process."""
    return load_settings()


def _refuse_unknown_variables(environment: "os._Environ[str] | dict[str, str]") -> None:
    for variable in sorted(environment):
        name = variable.removeprefix(PREFIX).lower()
        if variable.startswith(PREFIX) and name not in Settings.model_fields and not name.startswith(SECRETS):
            raise SettingsError(f"{variable} is not a setting. {_suggest(name)}")


def _explain(error: Any) -> str:
    key = str(error["loc"][0])
    variable = f"{PREFIX}{key.upper()}"
    if error["type"] == "extra_forbidden":
        return f"{TOML_FILE}: {key!r} is not a setting. {_suggest(key)}"
    where = variable if variable in os.environ else f"{key} in {TOML_FILE}"
    reason = str(error["msg"]).removeprefix("Value error, ")
    is_secret = Settings.model_fields[key].annotation is SecretStr
    value = "(not shown)" if is_secret else repr(os.environ.get(variable, error["input"]))
    return f"{where} = {value} is not possible: {reason.rstrip('.')}."


def _suggest(key: str) -> str:
    close = difflib.get_close_matches(key, Settings.model_fields, n=1)
    if close:
        return f"Did you mean {PREFIX}{close[0].upper()} ({close[0]} in {TOML_FILE})?"
    return "The settings are: " + ", ".join(Settings.model_fields) + "."


def variable_of(kind: str, name: str) -> str:
    """ "dsn", "my-db" -> "BRAID_DSN_MY_DB"."""
    return f"{PREFIX}{kind}_{name}".upper().replace("-", "_")


def secret(kind: str, name: str) -> str:
    """The value behind a name, which is never to be shown; one that is not set is refused."""
    variable = variable_of(kind, name)
    value = os.environ.get(variable, "").strip()
    if value:
        return value
    family = f"{PREFIX}{kind}_".upper()
    known = sorted(each for each in os.environ if each.startswith(family))
    there = f"Set are: {', '.join(known)}." if known else f"No {family}... is set."
    raise SettingsError(f"there is no {kind} {name!r}: set {variable} to its address. {there}")
