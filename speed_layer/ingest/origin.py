"""Where a source's files lie: the folder to watch, and the pattern of names in it."""

from pathlib import Path

from braid.define.derived.base import Derived
from braid.errors import BraidError
from braid.log.derived import PATTERN, DerivedPlaces
from braid.log.table import Log
from braid.runtime import documents


def folder_of(log: Log) -> tuple[str, str]:
    """The folder to watch and the pattern of names in it; a user's folder that is not there is refused."""
    source = log.source
    if isinstance(source, Derived):
        folder = DerivedPlaces(log).events
        documents.make_folder(folder)
        return folder, PATTERN
    head, _, pattern = str(source.files).rpartition("/")
    folder = head or "."
    if "://" not in folder:
        if not Path(folder).is_dir():
            raise BraidError(
                f"source {source.name!r}: there is no folder {folder!r} (seen from {Path.cwd()}): make it, or mend "
                f"files={source.files!r}."
            )
        folder = str(Path(folder).resolve())
    return folder, pattern or "*"
