"""What is installed: where set-up put jars and the archive of Java classes, and which extra a package belongs to."""

import importlib.util
import sys
from pathlib import Path

from braid.errors import BraidError

# Module that is imported -> the extra of Braid that installs it.
EXTRAS = {
    **dict.fromkeys(("pyspark", "py4j", "delta", "kafka"), "engine"),
    **dict.fromkeys(("airflow", "pendulum"), "airflow"),
    **dict.fromkeys(("great_expectations", "pandas"), "gates"),
    **dict.fromkeys(("fastapi", "fastapi_swagger", "uvicorn", "starlette", "anyio", "plotly"), "serve"),
    **dict.fromkeys(("psycopg", "apprise"), "sinks"),
}
# Braid's own Java classes, compiled by set-up.
OWN_JAR = "braid.jar"
# Another name than the other one's: executors keep both in one folder.
S3_JAR = "braid-s3.jar"
OWN_JARS = (OWN_JAR, S3_JAR)


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
        fix = "`braid setup`" if name in ("spark", "kafka") else f"`braid setup {name}`"
        raise BraidError(f"no {name} jars in {jars_dir().parent}: run {fix} to fetch them.")
    return found


def require(*packages: str) -> None:
    """Before anything is begun: refuses a command that would need what is not installed, with the extra to install."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise BraidError(missing_extra(package) or f"{package} is not installed.")


def missing_extra(module: str | None) -> str | None:
    """What to say to somebody whose command needs a module that is not installed; None if it is no one's we know."""
    package = (module or "").partition(".")[0]
    extra = EXTRAS.get(package)
    if extra is None:
        return None
    return f"this needs {package}, which is in Braid's extra {extra!r}: run `pip install 'braid[{extra}]'`."
