"""Where a source's files lie: the folder to watch, and the pattern of names in it."""

from pathlib import Path

from braid.define.source import Source
from braid.errors import BraidError


def folder_of(source: Source) -> tuple[str, str]:
    """The folder to watch and the pattern of names in it; a folder that is not there is refused."""
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
