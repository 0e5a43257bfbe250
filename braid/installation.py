"""Where set-up put what Braid runs on, and which version this is."""

import sys
from importlib.metadata import version
from pathlib import Path

from braid.errors import BraidError

# Braid's own Java classes, compiled by set-up.
OWN_JAR = "braid.jar"


def braid_version() -> str:
    return version("braid")


def jars_dir() -> Path:
    """Inside the virtual environment: one set of pinned versions, found from any folder."""
    return Path(sys.prefix) / "share" / "braid" / "jars"


def jars(name: str) -> list[Path]:
    """The jars of one set ("spark" or "kafka")."""
    found = sorted((jars_dir() / name).glob("*.jar"))
    if not found:
        raise BraidError(f"no {name} jars in {jars_dir() / name}: run `make setup` to fetch them.")
    return found
