"""Small text files at a path or URI, read and replaced whole, without Spark.

The one way to reach what lies beside the tables: deployments, checkpoints, inboxes, records of drivers, and the
commits of Delta tables. What is on this machine is read by Python alone, and everything else by Arrow's file systems.
"""

import os
import shutil
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from braid.errors import BraidError


def read(uri: str) -> str | None:
    """The document's text; None if there is none."""
    with _explained(uri, "read"):
        try:
            return _bytes(uri).decode()
        except FileNotFoundError:
            return None


def write(uri: str, text: str) -> None:
    """Replaces the document in one step, and makes its folder: a reader sees the old text or the new one."""
    with _explained(uri, "written"), _opened(uri) as stream:
        stream.write(text.encode())


def write_lines(uri: str, lines: Iterable[str]) -> int:
    """The same for as many lines as there are, one after the other; how many."""
    with _explained(uri, "written"), _opened(uri) as stream:
        return sum(stream.write(line.encode() + b"\n") > 0 for line in lines)


def create(uri: str, text: str) -> bool:
    """Writes a document that is not there yet, whole or not at all; False when there is one, which stays as it is.

    Only on this machine: a hard link is refused by the kernel when its name is taken, and Arrow cannot ask that of an
    object store.
    """
    with _explained(uri, "written"):
        path = _local(uri)
        if path is None:
            raise NotImplementedError("only a local disk is known to refuse a name that is taken")
        draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
        try:
            draft.write_bytes(text.encode())
            os.link(draft, path)
        except FileExistsError:
            return False
        finally:
            draft.unlink(missing_ok=True)
        return True


def is_local(uri: str) -> bool:
    return _local(uri) is not None


def local_path(uri: str) -> Path:
    """Where a document of this machine lies."""
    path = _local(uri)
    if path is None:
        raise ValueError(f"{uri} is not on this machine")
    return path


def exists(uri: str) -> bool:
    """Whether there is such a file or folder."""
    path = _local(uri)
    if path is not None:
        return path.exists()
    with _explained(uri, "read"):
        system, place = _remote(uri)
        return bool(system.get_file_info(place).type.name != "NotFound")


def names(uri: str) -> list[str]:
    """The names in a folder, sorted, without hidden ones; none when there is no such folder."""
    with _explained(uri, "listed"):
        return sorted(name for name, _ in _listed(uri) if not name.startswith("."))


def changed(uri: str) -> str:
    """When a file, or the newest one in a folder, was last changed; an empty text when it is not there."""
    with _explained(uri, "read"):
        times = [seconds for _, seconds in _listed(uri)]
        if not times and (seconds := _changed(uri)) is not None:
            times = [seconds]
    return datetime.fromtimestamp(max(times), UTC).isoformat() if times else ""


def make_folder(uri: str) -> None:
    with _explained(uri, "made"):
        path = _local(uri)
        if path is not None:
            path.mkdir(parents=True, exist_ok=True)
            return
        system, place = _remote(uri)
        system.create_dir(place, recursive=True)


def move_folder(old: str, new: str) -> None:
    """An object store moves file by file: whoever is stopped within it does it again."""
    with _explained(old, f"moved to {new}"):
        path, target = _local(old), _local(new)
        if path is not None and target is not None:
            os.replace(path, target)
            return
        from pyarrow.fs import FileSelector

        system, place = _remote(old)
        _, there = _remote(new)
        for entry in system.get_file_info(FileSelector(place, recursive=True)):
            if entry.is_file:
                system.move(entry.path, there + entry.path.removeprefix(place))
        system.delete_dir(place)


def remove(uri: str) -> None:
    """Deletes a document; one that is not there is as good."""
    with _explained(uri, "deleted"):
        path = _local(uri)
        if path is not None:
            path.unlink(missing_ok=True)
            return
        system, place = _remote(uri)
        try:
            system.delete_file(place)
        except FileNotFoundError:
            return


def remove_folder(uri: str) -> None:
    """Deletes a folder with all that is in it; one that is not there is as good."""
    with _explained(uri, "deleted"):
        path = _local(uri)
        if path is not None:
            shutil.rmtree(path, ignore_errors=not path.exists())
            return
        system, place = _remote(uri)
        system.delete_dir_contents(place, missing_dir_ok=True)


def _bytes(uri: str) -> bytes:
    path = _local(uri)
    if path is not None:
        return path.read_bytes()
    system, place = _remote(uri)
    with system.open_input_stream(place, compression=None) as stream:
        return bytes(stream.readall())


@contextmanager
def _opened(uri: str) -> Iterator[Any]:
    """What is written there is seen when all of it has been, and not before."""
    path = _local(uri)
    if path is not None:
        with _draft(path) as stream:
            yield stream
        return
    # An object store shows an object when its upload has ended, even if that broke off: it begins when all is there.
    whole = BytesIO()
    yield whole
    system, place = _remote(uri)
    with system.open_output_stream(place, compression=None) as stream:
        stream.write(whole.getvalue())


@contextmanager
def _draft(path: Path) -> Iterator[Any]:
    path.parent.mkdir(parents=True, exist_ok=True)
    # A name of its own for each writer, hidden: a draft that a killed one leaves is in nobody's way.
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with draft.open("wb") as stream:
            yield stream
        os.replace(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def _changed(uri: str) -> float | None:
    path = _local(uri)
    if path is not None:
        return path.stat().st_mtime if path.is_file() else None
    system, place = _remote(uri)
    nanoseconds = system.get_file_info(place).mtime_ns
    return nanoseconds / 1e9 if nanoseconds is not None else None


def _listed(uri: str) -> list[tuple[str, float]]:
    """(name, when it was changed in seconds) of what is in a folder."""
    path = _local(uri)
    if path is not None:
        return [(entry.name, entry.stat().st_mtime) for entry in os.scandir(path)] if path.is_dir() else []
    from pyarrow.fs import FileSelector

    system, place = _remote(uri)
    # S3 has no folders: what is a file has nothing below it.
    entries = system.get_file_info(FileSelector(place, allow_not_found=True))
    return [(entry.base_name, (entry.mtime_ns or 0) / 1e9) for entry in entries]


def _local(uri: str) -> Path | None:
    """The path of what lies on this machine: most documents do, and importing Arrow for them would take longer."""
    if "://" not in uri:
        return Path(uri)
    parts = urlsplit(uri)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


def _remote(uri: str) -> tuple[Any, str]:
    scheme, rest = uri.split("://", 1)
    bucket, _, path = rest.partition("/")
    credentials = tuple(sorted(item for item in os.environ.items() if item[0].startswith("AWS_")))
    system, place = _file_system(scheme, bucket, credentials)
    return system, "/".join(filter(None, (place, path)))


@lru_cache(maxsize=8)
def _file_system(scheme: str, bucket: str, credentials: tuple[tuple[str, str], ...]) -> tuple[Any, str]:
    """Kept: to make one may ask the store where a bucket is. Those who may use it can change within a process."""
    from pyarrow.fs import FileSystem

    # Hadoop's name for what everybody else calls s3.
    system, place = FileSystem.from_uri(f"{'s3' if scheme == 's3a' else scheme}://{bucket}")
    return system, str(place)


@contextmanager
def _explained(uri: str, what: str) -> Iterator[None]:
    """A file system's complaint as one sentence; Arrow's own errors are kinds of these."""
    try:
        yield
    except (OSError, ValueError, NotImplementedError) as error:
        raise BraidError(
            f"{uri} cannot be {what}: {error}. See that BRAID_HOME is right, that its storage can be reached, and "
            "that it is yours to use."
        ) from None
