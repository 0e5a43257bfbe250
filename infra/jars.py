"""Fetches the Java packages of Spark and the embedded broker, with PySpark's Ivy, and compiles Braid's own classes.

They live inside the virtual environment, so they are found from any folder, belong to one set of pinned
versions, and vanish with it. Nothing is looked up when Spark starts.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from braid.infra.preflight import java_command
from braid.runtime.installation import OWN_JAR, jars, jars_dir, optional_dir

DELTA_VERSION = "4.0.0"
SPARK_VERSION = "4.0.0"
KAFKA_VERSION = "4.1.1"
# What Spark is built with.
HADOOP_VERSION = "3.4.1"
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
    ("org.apache.spark", "spark-tags_2.13"),
)

PACKAGES: Sets = {
    "spark": (
        ("io.delta", "delta-spark_2.13", DELTA_VERSION),
        ("org.apache.spark", "spark-sql-kafka-0-10_2.13", SPARK_VERSION),
    ),
    "kafka": (
        ("org.apache.kafka", "kafka_2.13", KAFKA_VERSION),
        # Kafka logs through SLF4J 1.7 and brings no binding: without one its errors are lost.
        ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.24.3"),
    ),
}

# Fetched only by those who ask for them: `python -m braid.infra.jars s3`.
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
}
# What these need is shipped with Spark, or is in the set itself.
ALONE = ("hadoop-aws", "spark-hadoop-cloud_2.13")
LEFT_OUT = {
    "spark": SHIPPED_WITH_SPARK,
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

JAVA_SOURCES = Path(__file__).with_name("java")
S3_SOURCES = Path(__file__).with_name("java_s3")
# Another name than the other one's: executors keep both in one folder.
S3_JAR = "braid-s3.jar"


def stamp(packages: Sets = PACKAGES) -> str:
    """What the fetched jars belong to: another set of packages is fetched anew."""
    return repr((packages, [LEFT_OUT.get(name) for name in packages]))


def are_fetched(folder: Path | None = None, packages: Sets = PACKAGES) -> bool:
    mark = (folder or jars_dir()) / "fetched"
    return mark.is_file() and mark.read_text() == stamp(packages)


def java_sources() -> list[Path]:
    return sorted(JAVA_SOURCES.rglob("*.java"))


def own_stamp(sources: Sequence[Path] | None = None) -> bytes:
    """What Braid's own jar belongs to. It is the jar's comment: neither is there without the other."""
    found = java_sources() if sources is None else sources
    text = "".join(source.read_text() for source in found) + stamp()
    return hashlib.sha256(text.encode()).hexdigest().encode()


def are_compiled(folder: Path | None = None) -> bool:
    return _has_comment((folder or jars_dir()) / "spark" / OWN_JAR, own_stamp())


def _has_comment(jar: Path, comment: bytes) -> bool:
    try:
        with zipfile.ZipFile(jar) as opened:
            return opened.comment == comment
    except (FileNotFoundError, zipfile.BadZipFile):
        return False


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
            f'transitive="{str(artifact not in ALONE).lower()}">{"" if artifact in ALONE else excludes}</dependency>'
            for org, artifact, rev in packages
        ]
    return (
        '<ivy-module version="2.0"><info organisation="braid" module="jars"/>'
        f"<configurations>{configurations}</configurations>"
        f"<dependencies>{''.join(dependencies)}</dependencies></ivy-module>"
    )


def fetch(say: Callable[[str], None], folder: Path | None = None, sets: Sets = PACKAGES) -> None:
    """Fetches the sets into `folder`; safe to repeat, complete only once its stamp is written."""
    import pyspark

    folder = folder or jars_dir()
    folder.mkdir(parents=True, exist_ok=True)
    (ivy,) = (Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar")
    with tempfile.TemporaryDirectory() as scratch:
        module = Path(scratch) / "ivy.xml"
        module.write_text(ivy_module(sets))
        command = [
            java_command(), "-jar", str(ivy), "-ivy", str(module), "-confs", *sets,
            "-retrieve", f"{folder}/[conf]/[artifact]-[revision](-[classifier]).[ext]", "-sync",
        ]  # fmt: skip
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=scratch
        ) as process:
            assert process.stdout is not None
            output = _follow(process.stdout, say)
    if process.returncode != 0 or any("UNRESOLVED" in line for line in output):
        raise SystemExit(
            "Braid cannot be set up: the Java packages could not be fetched. Check the network and run "
            "`make setup` again; it goes on where it stopped.\n" + "".join(output[-25:])
        )
    (folder / "fetched").write_text(stamp(sets))


def compile_classes(folder: Path | None = None) -> None:
    """Braid's own classes as one jar, beside those of Delta that they are compiled against."""
    target = (folder or jars_dir()) / "spark"
    _compile(java_sources(), target.glob("delta-storage-*.jar"), target, OWN_JAR)


def _compile(sources: Sequence[Path], against: Iterable[Path], target: Path, name: str) -> None:
    import pyspark

    hadoop = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-*.jar")
    path = os.pathsep.join(map(str, (*against, *hadoop)))
    with tempfile.TemporaryDirectory(dir=target) as scratch:
        command = [
            java_command(), "-m", "jdk.compiler/com.sun.tools.javac.Main", "--release", "17",
            "-cp", path, "-d", f"{scratch}/classes", *map(str, sources),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(
                "Braid cannot be set up: its Java classes could not be compiled. It needs a JDK, not only a runtime: "
                "install one (Debian: `apt-get install openjdk-17-jdk-headless`), point JAVA_HOME at it, and run "
                f"`make setup` again.\n{done.stdout}{done.stderr}"
            )
        draft = _archive(Path(scratch), own_stamp(sources))
        # In one step: a Spark that runs goes on with the jar that it has opened.
        draft.replace(target / name)


def _archive(scratch: Path, comment: bytes) -> Path:
    draft, classes = scratch / OWN_JAR, scratch / "classes"
    with zipfile.ZipFile(draft, "w") as archive:
        archive.comment = comment
        for compiled in sorted(classes.rglob("*.class")):
            archive.write(compiled, compiled.relative_to(classes))
    return draft


def _follow(lines: object, say: Callable[[str], None]) -> list[str]:
    seen: list[str] = []
    downloaded = 0
    for line in lines:  # type: ignore[attr-defined]
        seen.append(line)
        if "[SUCCESSFUL" in line and ".jar" in line:
            downloaded += 1
            say(f"{downloaded} jars: {line.split('!')[-1].split('(')[0].strip()}")
    return seen


def main() -> None:
    """Without arguments the sets that everybody needs; otherwise the optional ones that are named."""
    if not sys.argv[1:] and not are_fetched():
        _fetch_with_progress(jars_dir(), PACKAGES, "the Spark packages and the Kafka broker")
    if not sys.argv[1:] and not are_compiled():
        compile_classes()
    for name in sys.argv[1:]:
        if name not in OPTIONAL:
            raise SystemExit(f"{name!r} is no set of packages: there are {', '.join(OPTIONAL)}.")
        only = {name: OPTIONAL[name]}
        # A folder of its own: what is fetched together is all that is in its folder.
        if not are_fetched(optional_dir(name), only):
            _fetch_with_progress(optional_dir(name), only, f"the packages for {name}")
    if "s3" in sys.argv[1:]:
        compile_s3()


def s3_sources() -> list[Path]:
    return sorted(S3_SOURCES.rglob("*.java"))


def s3_is_complete() -> bool:
    """Whether the packages for S3 are those of this version, and commits to it are compiled."""
    jar = optional_dir("s3") / "s3" / S3_JAR
    fetched = are_fetched(optional_dir("s3"), {"s3": OPTIONAL["s3"]})
    return fetched and _has_comment(jar, own_stamp(s3_sources()))


def compile_s3() -> None:
    """Commits to S3, compiled against what was fetched for it."""
    folder, sources = optional_dir("s3") / "s3", s3_sources()
    if not s3_is_complete():
        _compile(
            sources, (*jars("spark"), *(jar for jar in jars("s3") if jar.name != S3_JAR)), folder, S3_JAR
        )


def _fetch_with_progress(folder: Path, sets: Sets, what: str) -> None:
    width = 70
    live = sys.stdout.isatty()

    def say(text: str) -> None:
        if live:
            print(f"\r  {text:<{width}.{width}}", end="", flush=True)

    print(f"Fetching {what} into {folder} (about a minute)", flush=True)
    fetch(say, folder, sets)
    counts = ", ".join(f"{len(list((folder / name).glob('*.jar')))} for {name}" for name in sets)
    print(f"\r{'':<{width + 2}}\r  done: {counts}" if live else f"  done: {counts}")


if __name__ == "__main__":
    main()
