"""Fetches the Java packages of Spark and the embedded broker, with PySpark's Ivy.

They live inside the virtual environment, so they are found from any folder, belong to one set of pinned
versions, and vanish with it. Nothing is looked up when Spark starts.
"""

import subprocess
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path

from braid.errors import BraidError
from braid.infra import checksums
from braid.infra.preflight import java_command
from braid.runtime.installation import jars_dir

DELTA_VERSION = "4.3.1"
SPARK_VERSION = "4.1.1"
# The Kafka connector needs it, and the registry has none for Spark 4.1: the classes of this one serve it as they are.
TOKEN_PROVIDER_VERSION = "4.0.0"
KAFKA_VERSION = "4.1.1"
# What Spark is built with.
HADOOP_VERSION = "3.4.2"
# The last one that adds no checksums of its own to each upload, which stores other than Amazon's may refuse.
AWS_VERSION = "2.29.52"

Sets = dict[str, tuple[tuple[str, str, str], ...]]

# Spark ships these itself; a second copy on its class path could only differ.
SHIPPED_WITH_SPARK = (
    ("org.apache.hadoop", "*"),
    ("org.scala-lang", "*"),
    ("org.slf4j", "*"),
    ("org.lz4", "*"),
    ("org.xerial.snappy", "*"),
    ("org.antlr", "*"),
    ("com.google.code.findbugs", "*"),
    ("com.fasterxml.jackson.core", "*"),
    ("org.apache.logging.log4j", "*"),
    ("org.apache.parquet", "*"),
    ("org.roaringbitmap", "*"),
    ("io.airlift", "*"),
    ("com.github.luben", "*"),
    ("org.apache.spark", "spark-tags_2.13"),
)

PACKAGES: Sets = {
    "spark": (
        ("io.delta", "delta-spark_4.1_2.13", DELTA_VERSION),
        ("org.apache.spark", "spark-sql-kafka-0-10_2.13", SPARK_VERSION),
        ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", TOKEN_PROVIDER_VERSION),
    ),
    "kafka": (
        ("org.apache.kafka", "kafka_2.13", KAFKA_VERSION),
        # Kafka logs through SLF4J 1.7 and brings no binding: without one its errors are lost.
        ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.24.3"),
    ),
}

# Fetched only by those who ask for them: `braid setup s3`.
OPTIONAL: Sets = {
    # In parts: the bundle of AWS's whole SDK that Hadoop names as its dependency is half a gigabyte.
    "s3": (
        ("org.apache.hadoop", "hadoop-aws", HADOOP_VERSION),
        ("org.apache.spark", "spark-hadoop-cloud_2.13", SPARK_VERSION),
        ("software.amazon.awssdk", "s3", AWS_VERSION),
        ("software.amazon.awssdk", "s3-transfer-manager", AWS_VERSION),
        ("software.amazon.awssdk", "sts", AWS_VERSION),
    ),
    # An S3 store in a folder, for the tests.
    "s3proxy": (("org.gaul", "s3proxy", "4.1.0"),),
    # A schema registry, for the tests: a whole program, packed.
    "registry": (("io.apicurio", "apicurio-registry-app", "3.0.9"),),
}
# What is not a jar but an archive of a program: it needs nothing else, so nobody asks what it says that it needs.
PACKED = ("apicurio-registry-app",)
WITHOUT_POMS = (
    '<ivysettings><settings defaultResolver="public"/><resolvers>'
    '<ibiblio name="public" m2compatible="true" usepoms="false"/></resolvers></ivysettings>'
)
# What these need is shipped with Spark, or is in the set itself.
ALONE = ("hadoop-aws", "spark-hadoop-cloud_2.13", "spark-token-provider-kafka-0-10_2.13", *PACKED)
LEFT_OUT = {
    # The connector asks for a token provider of its own version, which is not to be had.
    "spark": (*SHIPPED_WITH_SPARK, ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13")),
    "s3": (*SHIPPED_WITH_SPARK, ("io.netty", "*"), ("org.apache.httpcomponents", "*"), ("commons-codec", "*"),
           ("commons-logging", "*")),
    # Other clouds, which it can also stand before.
    "s3proxy": (
        *((org, "*") for org in ("com.azure", "com.google.cloud", "com.google.http-client", "com.google.auth",
          "com.google.api", "com.google.apis", "com.google.api-client", "com.google.oauth-client", "io.grpc",
          "com.google.protobuf", "com.github.openstack4j.core", "com.github.openstack4j.core.connectors",
          "com.squareup.okhttp3", "org.apache.sshd", "io.opencensus")),
    ),
}  # fmt: skip


def stamp(packages: Sets = PACKAGES) -> str:
    """What the fetched jars belong to: another set of packages is fetched anew."""
    return repr((packages, [LEFT_OUT.get(name) for name in packages]))


def are_fetched(folder: Path | None = None, packages: Sets = PACKAGES) -> bool:
    mark = (folder or jars_dir()) / "fetched"
    return mark.is_file() and mark.read_text() == stamp(packages)


def ivy_module(sets: Sets = PACKAGES) -> str:
    """The Ivy file: one configuration per set, so that each resolves its own version of kafka-clients."""
    configurations = "".join(f'<conf name="{name}"/>' for name in sets)
    dependencies = []
    for name, packages in sets.items():
        excludes = "".join(
            f'<exclude org="{org}" module="{module}"/>' for org, module in LEFT_OUT.get(name, ())
        )
        dependencies += [
            f'<dependency org="{org}" name="{artifact}" rev="{rev}" conf="{name}->default" '
            f'transitive="{str(artifact not in ALONE).lower()}">'
            f"{'' if artifact in ALONE else excludes}{_archive(artifact)}</dependency>"
            for org, artifact, rev in packages
        ]
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/extra"><info organisation="braid" module="jars"/>'
        f"<configurations>{configurations}</configurations>"
        f"<dependencies>{''.join(dependencies)}</dependencies></ivy-module>"
    )


def _archive(artifact: str) -> str:
    packed = f'<artifact name="{artifact}" type="tar.gz" ext="tar.gz" m:classifier="all"/>'
    return packed if artifact in PACKED else ""


def fetch(say: Callable[[str], None], folder: Path | None = None, sets: Sets = PACKAGES) -> None:
    """Fetches the sets into `folder` and verifies them; safe to repeat, complete only once its stamp is written."""
    folder = folder or jars_dir()
    retrieve(say, folder, sets)
    _verify(folder, sets)
    for packed in folder.glob("*/*.tar.gz"):
        with tarfile.open(packed) as archive:
            archive.extractall(folder / "program", filter="data")
    (folder / "fetched").write_text(stamp(sets))


def retrieve(say: Callable[[str], None], folder: Path, sets: Sets) -> None:
    """What the registry has under these names and versions."""
    import pyspark

    folder.mkdir(parents=True, exist_ok=True)
    (ivy,) = (Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar")
    with tempfile.TemporaryDirectory() as scratch:
        module = Path(scratch) / "ivy.xml"
        module.write_text(ivy_module(sets))
        command = [
            java_command(), "-jar", str(ivy), "-ivy", str(module), "-confs", *sets,
            "-retrieve", f"{folder}/[conf]/[artifact]-[revision](-[classifier]).[ext]", "-sync",
        ]  # fmt: skip
        if all(artifact in PACKED for packages in sets.values() for _, artifact, _ in packages):
            (Path(scratch) / "settings.xml").write_text(WITHOUT_POMS)
            command += ["-settings", f"{scratch}/settings.xml"]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=scratch
        ) as process:
            assert process.stdout is not None
            output = _follow(process.stdout, say)
    if process.returncode != 0 or any("UNRESOLVED" in line for line in output):
        raise BraidError(
            "Braid cannot be set up: the Java packages could not be fetched. Check the network and run "
            "`braid setup` again; it goes on where it stopped.\n" + "".join(output[-25:])
        )


def _verify(folder: Path, sets: Sets) -> None:
    """Nothing is used that was not tested: a jar with other bytes than the pinned ones is taken away again."""
    wrong = {name: found for name in sets if (found := checksums.differences(folder / name, name))}
    if not wrong:
        return
    for name in wrong:
        for jar in (folder / name).glob("*.jar"):
            jar.unlink()
    said = "; ".join(line for lines in wrong.values() for line in lines)
    raise BraidError(
        f"Braid cannot be set up: what was fetched is not what is pinned: {said}. Remove those files from Ivy's cache "
        f"({Path.home() / '.ivy2'}) and run `braid setup` again; if it stays so, the registry serves other files."
    )


def _follow(lines: object, say: Callable[[str], None]) -> list[str]:
    seen: list[str] = []
    downloaded = 0
    for line in lines:  # type: ignore[attr-defined]
        seen.append(line)
        if "[SUCCESSFUL" in line and "!" in line:
            downloaded += 1
            say(f"{downloaded} jars: {line.split('!')[-1].split('(')[0].strip()}")
    return seen
