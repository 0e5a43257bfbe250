"""`braid doctor` and `braid version`: is this machine ready, and what is installed."""

import platform
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version

import typer

from braid.cli.output import Json, console, mark, print_json
from braid.define.codec import braid_version
from braid.runtime.settings import current_settings

PACKAGES = (
    "pyspark",
    "delta-spark",
    "kafka-python",
    "apache-airflow",
    "great-expectations",
    "duckdb",
    "deltalake",
)


def register(app: typer.Typer) -> None:
    app.command()(doctor)
    app.command()(version)


def doctor(json: Json = False) -> None:
    """Check this machine: Java, versions, jars, ports, disk, permissions, broker; and say how to mend each.

    Exit code 2 when something has to be mended first.
    """
    from rich.table import Table

    from braid.infra.doctor import examine

    checks = examine(current_settings())
    healthy = all(check.ok for check in checks)
    if json:
        shown = [check._asdict() | {"fix": None if check.ok else check.fix} for check in checks]
        print_json({"ok": healthy, "checks": shown})
    else:
        table = Table("check", "", "found", "how to mend it", title="braid doctor", title_justify="left")
        for check in checks:
            table.add_row(check.name, mark(check.ok), check.detail, "" if check.ok else check.fix)
        console.print(table)
    if not healthy:
        raise typer.Exit(2)


def _installed(package: str) -> str:
    try:
        return installed_version(package)
    except PackageNotFoundError:
        return "not installed"


def version(json: Json = False) -> None:
    """Print the versions of Braid and of what it runs on."""
    versions = {"braid": braid_version(), "python": platform.python_version()}
    versions |= {name: _installed(name) for name in PACKAGES}
    if json:
        print_json(versions)
    else:
        console.print("\n".join(f"{name} {value}" for name, value in versions.items()), highlight=False)
