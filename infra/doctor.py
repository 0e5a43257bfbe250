"""Examines this machine and installation: each check says what it found and how to mend it."""

import os
import tempfile
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from pathlib import Path

from braid.errors import BraidError
from braid.infra import brokers
from braid.infra.brokers import embedded_cluster
from braid.infra.checksums import differences
from braid.infra.jars import DELTA_VERSION, PACKAGES, SPARK_VERSION, are_fetched
from braid.infra.own_classes import are_compiled, s3_is_complete
from braid.infra.preflight import Requirement, check_disk, check_java, check_python
from braid.infra.services.service import port_is_taken
from braid.runtime import documents, spark_cluster
from braid.runtime.installation import OWN_JAR, jars_dir, optional_dir
from braid.runtime.kafka import client
from braid.runtime.object_store import is_s3
from braid.runtime.settings import Settings

RUNNING_GIB = 1
KAFKA_TIMEOUT_MS = 3_000
PINNED = {"pyspark": SPARK_VERSION, "delta-spark": DELTA_VERSION}


def examine(settings: Settings) -> list[Requirement]:
    checks = [check_python(), check_java(), check_versions(), check_jars()]
    if settings.home_is_local:
        home = settings.local_home()
        checks += [check_disk(str(home), RUNNING_GIB), check_writable(home)]
    elif is_s3(settings.home):
        checks += [check_s3_jars(), check_store(settings)]
    return [*checks, *check_master(settings), *check_broker(settings)]


def check_versions() -> Requirement:
    """Spark and Delta must be the very pair whose jars were fetched."""
    found = {}
    for package in PINNED:
        try:
            found[package] = installed_version(package)
        except PackageNotFoundError:
            found[package] = "missing"
    detail = ", ".join(f"{package} {version}" for package, version in found.items())
    return Requirement(
        "versions",
        found == PINNED,
        detail,
        "Run `pip install 'braid[engine]'` in this environment: it installs this pair.",
    )


def check_jars(folder: Path | None = None) -> Requirement:
    folder = folder or jars_dir()
    detail = f"{len(list(folder.glob('*/*.jar')))} jars in {folder}"
    if not are_fetched(folder):
        return Requirement("jars", False, detail, "Run `braid setup`: it fetches what is missing.")
    if damaged := [line for name in PACKAGES for line in differences(folder / name, name)]:
        fix = f"Remove {folder} and run `braid setup`: it fetches the pinned ones."
        return Requirement("jars", False, "; ".join(damaged), fix)
    own = folder / "spark" / OWN_JAR
    if not are_compiled(folder):
        found = f"{own} is older than its source" if own.is_file() else f"{own} is missing"
        return Requirement(
            "jars",
            False,
            found,
            "Run `braid setup`: it compiles Braid's own classes.",
        )
    return Requirement("jars", True, detail)


def check_writable(home: Path) -> Requirement:
    existing = home
    while not existing.exists():
        existing = existing.parent
    name = "write permission"
    if not (existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)):
        fix = "Give yourself permission to write there, or set BRAID_HOME to a folder of yours."
        return Requirement(name, False, f"cannot write to {home}", fix)
    try:
        _link_within(existing)
    except OSError as error:
        fix = "Commits could be lost on such a disk: set BRAID_HOME to a folder on another one."
        return Requirement(name, False, f"the disk at {home} has no hard links ({error.strerror})", fix)
    return Requirement(name, True, f"can write to {home}")


def _link_within(folder: Path) -> None:
    """What every commit does: a file under a second name."""
    with tempfile.TemporaryDirectory(dir=folder, prefix=".braid-doctor-") as scratch:
        draft = Path(scratch, "draft")
        draft.touch()
        os.link(draft, Path(scratch, "commit"))


def check_s3_jars() -> Requirement:
    found, folder = s3_is_complete(), optional_dir("s3")
    detail = f"packages for S3 in {folder}" if found else f"no packages for S3, or older ones, in {folder}"
    return Requirement("packages for S3", found, detail, "Run `braid setup s3`: it fetches them.")


def check_store(settings: Settings) -> Requirement:
    """Whether the store answers, and lets this user list what is in its home."""
    try:
        documents.names(settings.home)
    except BraidError as error:
        fix = "Mend that, AWS_REGION, AWS_ENDPOINT_URL or the keys in AWS's variables."
        return Requirement("store", False, str(error), fix)
    where = os.environ.get("AWS_ENDPOINT_URL") or os.environ.get("AWS_REGION") or "its default region"
    return Requirement("store", True, f"{settings.home} can be listed at {where}")


def check_own_kafka(settings: Settings) -> Requirement:
    """A cluster that Braid does not run: whether it answers, and lets this user in."""
    from kafka import KafkaAdminClient

    try:
        with client(settings, KafkaAdminClient, KAFKA_TIMEOUT_MS) as admin:
            found = admin.describe_cluster()["cluster_id"]
    except BraidError as error:
        return Requirement(
            "broker", False, str(error), "Mend that, or unset BRAID_KAFKA_BOOTSTRAP for the embedded broker."
        )
    who = f" to user {settings.kafka_user!r}" if settings.kafka_user else ""
    how = settings.kafka_security
    return Requirement("broker", True, f"cluster {found} answers{who} on {settings.bootstrap} ({how})")


def check_master(settings: Settings) -> list[Requirement]:
    """Of a cluster: whether its master answers. Whether it lets an application in is asked by each one that starts."""
    if not spark_cluster.is_cluster(settings):
        return []
    try:
        spark_cluster.require_master(settings)
    except BraidError as error:
        fix = "Run `braid cluster start`, mend BRAID_SPARK_MASTER, or unset it."
        return [Requirement("spark", False, str(error), fix)]
    return [Requirement("spark", True, f"a master answers on {settings.spark_master}")]


def check_broker(settings: Settings) -> list[Requirement]:
    if not settings.uses_embedded_broker:
        return [check_own_kafka(settings)]
    if not settings.home_is_local:
        found = "none: the embedded one needs a BRAID_HOME on this machine, and BRAID_KAFKA_BOOTSTRAP names no other"
        return [Requirement("broker", True, found)]
    cluster = embedded_cluster(settings)
    present = brokers.status(cluster)
    if present.running:
        fix = "Run `braid broker stop`, then `braid broker start`."
        pids = ", ".join(str(node.pid) for node in present.nodes if node.pid)
        detail = f"embedded, process {pids} on {present.bootstrap}"
        return [
            Requirement("ports", True, "held by the broker"),
            Requirement("broker", present.answers, detail, fix),
        ]
    ports = [port for node in cluster.nodes for port in (node.port, node.controller_port)]
    taken = [str(port) for port in ports if port_is_taken(port)]
    free = f"{', '.join(map(str, ports[:-1]))} and {ports[-1]} are free"
    found = f"{', '.join(taken)} taken by another process" if taken else free
    fix = "Stop the process that holds the port, or set BRAID_KAFKA_PORT and BRAID_KAFKA_CONTROLLER_PORT."
    return [
        Requirement("ports", not taken, found, fix),
        Requirement("broker", not taken, "embedded, not running (`braid broker start` starts it)", fix),
    ]
