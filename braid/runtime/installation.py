"""Where set-up put what Braid runs on: its jars and the archive of Java classes."""

import sys
from pathlib import Path

from braid.errors import BraidError

# Braid's own Java classes, compiled by set-up.
OWN_JAR = "braid.jar"


def jars_dir() -> Path:
    """Inside the virtual environment: one set of pinned versions, found from any folder."""
    return Path(sys.prefix) / "share" / "braid" / "jars"


def class_archive() -> Path:
    """The archive of Java classes that Spark starts from; set-up makes it, and nothing depends on it."""
    return jars_dir().with_name("classes.jsa")


def optional_dir(name: str) -> Path:
    """Beside the others: a set that not everybody needs."""
    return jars_dir().with_name(f"jars-{name}")


def jars(name: str) -> list[Path]:
    """The jars of one set ("spark" or "kafka", or an optional one such as "s3")."""
    found = sorted((jars_dir() / name).glob("*.jar")) or sorted((optional_dir(name) / name).glob("*.jar"))
    if not found:
        fix = "`make setup`" if name in ("spark", "kafka") else f"`make {name}`"
        raise BraidError(f"no {name} jars in {jars_dir().parent}: run {fix} to fetch them.")
    return found
