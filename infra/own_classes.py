"""Braid's own Java classes, compiled at set-up against the jars that were fetched, and whether they are up to date."""

import hashlib
import os
import subprocess
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from braid.errors import BraidError
from braid.infra.jars import OPTIONAL, are_fetched, stamp
from braid.infra.preflight import java_command
from braid.runtime.installation import OWN_JAR, S3_JAR, jars, jars_dir, optional_dir

JAVA_SOURCES = Path(__file__).with_name("java")
S3_SOURCES = Path(__file__).with_name("java_s3")
# What of Spark's own jars they are compiled against.
SHIPPED = (
    "hadoop-client-*", "avro-1*", "jackson-*", "scala-library-*", "spark-co*", "spark-sql-api_*", "spark-sql_*",
    "spark-catalyst_*",
)  # fmt: skip


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


def compile_classes(folder: Path | None = None) -> None:
    """Braid's own classes as one jar, beside those of Delta that they are compiled against."""
    target = (folder or jars_dir()) / "spark"
    _compile(java_sources(), target.glob("delta-storage-*.jar"), target, OWN_JAR)


def _compile(sources: Sequence[Path], against: Iterable[Path], target: Path, name: str) -> None:
    import pyspark

    shipped = Path(pyspark.__file__).parent / "jars"
    used = (jar for name in SHIPPED for jar in shipped.glob(name))
    path = os.pathsep.join(map(str, (*against, *used)))
    with tempfile.TemporaryDirectory(dir=target) as scratch:
        command = [
            java_command(), "-m", "jdk.compiler/com.sun.tools.javac.Main", "--release", "17",
            "-cp", path, "-d", f"{scratch}/classes", *map(str, sources),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BraidError(
                "Braid cannot be set up: its Java classes could not be compiled. It needs a JDK, not only a runtime: "
                "install one (Debian: `apt-get install openjdk-17-jdk-headless`), point JAVA_HOME at it, and run "
                f"`braid setup` again.\n{done.stdout}{done.stderr}"
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
