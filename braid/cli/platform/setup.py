"""`braid setup`: what pip does not install, fetched and made once for each environment."""

from pathlib import Path
from typing import Annotated

import typer

from braid.cli.output import console, say
from braid.errors import BraidError

SETS = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[SET]...",
        help="Also an optional set of packages: s3; for Braid's own tests s3proxy and registry.",
    ),
]


def setup(sets: SETS = None) -> None:
    """Fetch the jars of Spark, Delta and the embedded broker into this environment, once; then all works offline.

    Each jar is compared with its pinned checksum, Braid's own classes are compiled, and an archive of Java classes
    is made, from which Spark starts sooner. What is there already is left as it is.
    """
    from braid.infra import class_archive
    from braid.infra.jars import OPTIONAL, PACKAGES, are_fetched
    from braid.infra.own_classes import are_compiled, compile_classes, compile_s3
    from braid.runtime.installation import jars_dir, optional_dir

    for name in sets or ():
        if name not in OPTIONAL:
            raise BraidError(f"{name!r} is no set of packages: there are {', '.join(OPTIONAL)}.")
    _require_machine()
    if not are_fetched():
        _fetch(jars_dir(), tuple(PACKAGES), "the packages of Spark and the Kafka broker")
    if not are_compiled():
        compile_classes()
    if not class_archive.is_made():
        say("Archiving Java classes, so that Spark starts sooner (half a minute)")
        if reason := class_archive.make():
            say(f"  none was made ({reason}): Spark starts without it, more slowly")
    for name in sets or ():
        # A folder of its own: what is fetched together is all that is in its folder.
        if not are_fetched(optional_dir(name), {name: OPTIONAL[name]}):
            _fetch(optional_dir(name), (name,), f"the packages for {name}")
    if "s3" in (sets or ()):
        compile_s3()
    say(f"Braid is set up: {len(list(jars_dir().glob('*/*.jar')))} jars in {jars_dir()}")


def _require_machine() -> None:
    from braid.infra.preflight import check_compiler, check_disk, check_java
    from braid.runtime.installation import jars_dir

    java = check_java()
    checks = [java, *([check_compiler()] if java.ok else []), check_disk(str(jars_dir()), 1)]
    if wrong := [f"{check.detail}. {check.fix}" for check in checks if not check.ok]:
        raise BraidError("Braid cannot be set up: " + " ".join(wrong))


def _fetch(folder: Path, names: tuple[str, ...], what: str) -> None:
    from braid.infra.jars import OPTIONAL, PACKAGES, fetch

    say(f"Fetching {what} into {folder} (about a minute)")
    sets = {name: (PACKAGES | OPTIONAL)[name] for name in names}
    with console.status("asking for them") as bar:
        try:
            fetch(bar.update, folder, sets)
        except OSError as error:
            reason = f"{folder} cannot be written ({error.strerror})"
            raise BraidError(f"{reason}: install Braid into an environment of your own.") from None
    counts = ", ".join(f"{len(list((folder / name).iterdir()))} for {name}" for name in names)
    say(f"  done, and each has its pinned checksum: {counts}")
