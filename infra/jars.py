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
from collections.abc import Callable
from pathlib import Path

from braid.installation import OWN_JAR, jars_dir
from infra.preflight import java_command

DELTA_VERSION = "4.0.0"
SPARK_VERSION = "4.0.0"
KAFKA_VERSION = "4.1.1"

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

PACKAGES = {
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

JAVA_SOURCES = Path(__file__).with_name("java")


def stamp() -> str:
    """What the fetched jars belong to: another set of packages is fetched anew."""
    return repr((PACKAGES, SHIPPED_WITH_SPARK))


def are_fetched(folder: Path | None = None) -> bool:
    mark = (folder or jars_dir()) / "fetched"
    return mark.is_file() and mark.read_text() == stamp()


def java_sources() -> list[Path]:
    return sorted(JAVA_SOURCES.rglob("*.java"))


def own_stamp() -> bytes:
    """What Braid's own jar belongs to. It is the jar's comment: neither is there without the other."""
    text = "".join(source.read_text() for source in java_sources()) + stamp()
    return hashlib.sha256(text.encode()).hexdigest().encode()


def are_compiled(folder: Path | None = None) -> bool:
    try:
        with zipfile.ZipFile((folder or jars_dir()) / "spark" / OWN_JAR) as jar:
            return jar.comment == own_stamp()
    except (FileNotFoundError, zipfile.BadZipFile):
        return False


def ivy_module() -> str:
    """The Ivy file: one configuration per set, so that each resolves its own version of kafka-clients."""
    configurations = "".join(f'<conf name="{name}"/>' for name in PACKAGES)
    dependencies = []
    for name, packages in PACKAGES.items():
        shipped = SHIPPED_WITH_SPARK if name == "spark" else ()
        excludes = "".join(f'<exclude org="{org}" module="{module}"/>' for org, module in shipped)
        dependencies += [
            f'<dependency org="{org}" name="{artifact}" rev="{rev}" conf="{name}->default">{excludes}</dependency>'
            for org, artifact, rev in packages
        ]
    return (
        '<ivy-module version="2.0"><info organisation="braid" module="jars"/>'
        f"<configurations>{configurations}</configurations>"
        f"<dependencies>{''.join(dependencies)}</dependencies></ivy-module>"
    )


def fetch(say: Callable[[str], None], folder: Path | None = None) -> None:
    """Fetches all sets into `folder`; safe to repeat, complete only once its stamp is written."""
    import pyspark

    folder = folder or jars_dir()
    folder.mkdir(parents=True, exist_ok=True)
    (ivy,) = (Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar")
    with tempfile.TemporaryDirectory() as scratch:
        module = Path(scratch) / "ivy.xml"
        module.write_text(ivy_module())
        command = [
            java_command(), "-jar", str(ivy), "-ivy", str(module), "-confs", *PACKAGES,
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
    (folder / "fetched").write_text(stamp())


def compile_classes(folder: Path | None = None) -> None:
    """Braid's own classes as one jar, beside those of Delta that they are compiled against."""
    import pyspark

    jars = (folder or jars_dir()) / "spark"
    hadoop = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-*.jar")
    path = os.pathsep.join(map(str, (*jars.glob("delta-storage-*.jar"), *hadoop)))
    with tempfile.TemporaryDirectory(dir=jars) as scratch:
        command = [
            java_command(), "-m", "jdk.compiler/com.sun.tools.javac.Main", "--release", "17",
            "-cp", path, "-d", f"{scratch}/classes", *map(str, java_sources()),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(
                "Braid cannot be set up: its Java classes could not be compiled. It needs a JDK, not only a runtime: "
                "install one (Debian: `apt-get install openjdk-17-jdk-headless`), point JAVA_HOME at it, and run "
                f"`make setup` again.\n{done.stdout}{done.stderr}"
            )
        draft = _archive(Path(scratch))
        # In one step: a Spark that runs goes on with the jar that it has opened.
        draft.replace(jars / OWN_JAR)


def _archive(scratch: Path) -> Path:
    draft, classes = scratch / OWN_JAR, scratch / "classes"
    with zipfile.ZipFile(draft, "w") as archive:
        archive.comment = own_stamp()
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
    if not are_fetched():
        _fetch_with_progress()
    if not are_compiled():
        compile_classes()


def _fetch_with_progress() -> None:
    width = 70
    live = sys.stdout.isatty()

    def say(text: str) -> None:
        if live:
            print(f"\r  {text:<{width}.{width}}", end="", flush=True)

    print(f"Fetching the Spark packages and the Kafka broker into {jars_dir()} (about a minute)", flush=True)
    fetch(say)
    counts = ", ".join(f"{len(list((jars_dir() / name).glob('*.jar')))} for {name}" for name in PACKAGES)
    print(f"\r{'':<{width + 2}}\r  done: {counts}" if live else f"  done: {counts}")


if __name__ == "__main__":
    main()
