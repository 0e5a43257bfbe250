"""Where the files of a source lie, and where they lay when they were first read: their places are numbered by that.

Spark knows files by their whole paths, and notes those that it has read in its checkpoint. A folder that was moved has
none of them: every file would be read again, under a place of its own.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from urllib.parse import unquote, urlsplit

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from braid.errors import BraidError
from braid.log.table import Log
from braid.runtime import documents

# Beside the log, whose places it explains. Hidden, as Delta sees it: VACUUM leaves it alone.
RECORD = "_braid_folder.json"
# Which of a query's sources the files of a folder are, and the inbox.
FILES, INBOX = 0, 1


@dataclass(frozen=True)
class WatchedFolder:
    """The folder that was known when a source was first read, and the one that its files were last read in."""

    first: str
    now: str

    def named(self, path: Column) -> Column:
        """A file's path as it would be if its folder had never been moved."""
        if self.first == self.now:
            return path
        present = _shown(self.now)
        rest = F.substring(path, F.lit(len(present) + 1), F.length(path))
        return F.when(
            F.startswith(path, F.lit(present)), F.concat(F.lit(_shown(self.first)), rest)
        ).otherwise(path)


def known(log: Log, present: str) -> WatchedFolder:
    """What is recorded; of a log of old, where Spark has read its files, if it has read none in the present folder."""
    text = documents.read(f"{log.table}/{RECORD}")
    if text is not None:
        return WatchedFolder(**json.loads(text))
    noted = {_folder_of(path) for path in _noted(log.checkpoint, FILES)}
    was = present if not noted or present in noted else min(noted)
    return WatchedFolder(was, was)


def refuse_moved(log: Log, present: str) -> None:
    """Before anything is read; the first time, the folder is recorded."""
    folder = known(log, present)
    if folder.now != present:
        raise BraidError(
            f"the files of source {log.source.name!r} were read in {folder.now}, and its folder is {present} now: "
            f"they would be read a second time. Move them back, or see what `braid recover {log.source.name}` says."
        )
    documents.write(f"{log.table}/{RECORD}", json.dumps(asdict(folder)))


def move(spark: SparkSession, log: Log, present: str) -> None:
    """Files are known in the present folder as they were in the one before. May be stopped, and done again."""
    folder = known(log, present)
    _note_anew(spark, log.checkpoint, FILES, folder.now, present)
    documents.write(f"{log.table}/{RECORD}", json.dumps(asdict(replace(folder, now=present))))


def move_inbox(spark: SparkSession, log: Log) -> None:
    """What is in an inbox was put there by Braid, under names of its own: a home that was moved goes on with it."""
    for old in {path.rpartition("/batch-")[0] for path in _noted(log.checkpoint, INBOX)} - {
        _plain(log.inbox)
    }:
        _note_anew(spark, log.checkpoint, INBOX, old, _plain(log.inbox))


def _note_anew(spark: SparkSession, checkpoint: str, source: int, old: str, new: str) -> None:
    for file, lines in _notes(checkpoint, source):
        changed = [_renamed(line, old, new, lambda path: _encoded(spark, path)) for line in lines]
        if changed != lines:
            # First: a text without a checksum is read, one with another's is not.
            folder, _, name = file.rpartition("/")
            documents.remove(f"{folder}/.{name}.crc")
            documents.write(file, "\n".join(changed))


def _renamed(line: str, old: str, new: str, encoded: Callable[[str], str]) -> str:
    """A line of Spark's notes, about the same file in another folder."""
    if not line.startswith("{"):
        return line
    note = json.loads(line)
    if not _plain(note["path"]).startswith(f"{old}/"):
        return line
    depth = _address(old)[1].count("/")
    rest = urlsplit(note["path"]).path.split("/")[depth + 1 :]
    host, path = _address(new)
    note["path"] = "/".join([host + encoded(path), *rest])
    return json.dumps(note, separators=(",", ":"))


def _encoded(spark: SparkSession, path: str) -> str:
    """As Hadoop writes it in a URI, which is not quite as Python does."""
    return str(spark._jvm.java.net.URI(None, None, path, None).getRawPath())  # type: ignore[union-attr]


def _noted(checkpoint: str, source: int) -> Iterator[str]:
    """The paths of files that Spark has read."""
    for _, lines in _notes(checkpoint, source):
        yield from (_plain(json.loads(line)["path"]) for line in lines if line.startswith('{"path"'))


def _notes(checkpoint: str, source: int) -> Iterator[tuple[str, list[str]]]:
    folder = f"{checkpoint}/sources/{source}"
    for name in documents.names(folder):
        yield f"{folder}/{name}", (documents.read(f"{folder}/{name}") or "").split("\n")


def _folder_of(path: str) -> str:
    """Without the parts of it that are values of a partition."""
    parts = path.split("/")[:-1]
    while parts and "=" in parts[-1]:
        parts.pop()
    return "/".join(parts)


def _plain(uri: str) -> str:
    """A path of this machine without its scheme, and as people write it; what is elsewhere keeps its address."""
    parts = urlsplit(uri)
    if not parts.scheme:
        return uri
    address = "" if parts.scheme == "file" else f"{parts.scheme}://{parts.netloc}"
    return address + unquote(parts.path)


def _address(folder: str) -> tuple[str, str]:
    """What comes before the path in a URI, and the path."""
    if "://" not in folder:
        return "file://", folder
    scheme, rest = folder.split("://", 1)
    host, _, path = rest.partition("/")
    return f"{scheme}://{host}", f"/{path}"


def _shown(folder: str) -> str:
    """A folder as a column of paths has it."""
    return folder if "://" in folder else f"file:{folder}"
