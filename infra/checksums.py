"""The pinned checksums of all jars that set-up fetches: whether what came is exactly what Braid was tested with."""

import hashlib
import tempfile
from functools import cache
from pathlib import Path

from braid.runtime.installation import OWN_JARS

KINDS = ("*.jar", "*.tar.gz")
PINS = Path(__file__).with_name("jars.sha256")


@cache
def pinned() -> dict[str, dict[str, str]]:
    """Set -> file -> SHA-256, as `sha256sum` writes them."""
    sets: dict[str, dict[str, str]] = {}
    for line in PINS.read_text().splitlines():
        digest, _, path = line.partition("  ")
        name, _, file = path.partition("/")
        sets.setdefault(name, {})[file] = digest
    return sets


def differences(folder: Path, name: str) -> list[str]:
    """What is in the folder of a set and should not be, is missing, or has other bytes; Braid's own jars aside."""
    wanted = pinned().get(name, {})
    fetched = sorted(file for kind in KINDS for file in folder.glob(kind) if file.name not in OWN_JARS)
    found = {file.name: digest(file) for file in fetched}
    lines = [f"{file} is missing" for file in sorted(wanted.keys() - found.keys())]
    for file, value in found.items():
        if file not in wanted:
            lines.append(f"{file} is not one of the pinned jars")
        elif value != wanted[file]:
            lines.append(f"{file} has the checksum {value}, and {wanted[file]} is pinned")
    return lines


def digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def main() -> None:
    """Pins what the registry has for the versions in jars.py: for whoever moves to others and reads what changed."""
    from braid.infra.jars import OPTIONAL, PACKAGES, retrieve

    with tempfile.TemporaryDirectory() as folder:
        for number, sets in enumerate((PACKAGES, *({name: OPTIONAL[name]} for name in OPTIONAL))):
            retrieve(print, Path(folder, str(number)), sets)
        jars = [file for kind in KINDS for file in Path(folder).glob(f"*/*/{kind}")]
        jars.sort(key=lambda jar: (jar.parent.name, jar.name))
        PINS.write_text("".join(f"{digest(jar)}  {jar.parent.name}/{jar.name}\n" for jar in jars))


if __name__ == "__main__":
    main()
