"""Small text documents at a path or URI, read and replaced whole, without Spark."""

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
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
    with _explained(uri, "written"):
        path = _local(uri)
        if path is not None:
            _replace(path, text.encode())
            return
        system, place = _remote(uri)
        # An object store shows an object when its upload has ended, and until then the one before it.
        with system.open_output_stream(place, compression=None) as stream:
            stream.write(text.encode())


def names(uri: str) -> list[str]:
    """The names in a folder, sorted, without hidden ones; none when there is no such folder."""
    with _explained(uri, "listed"):
        return sorted(name for name in _listed(uri) if not name.startswith("."))


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


def _replace(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # A name of its own for each writer, hidden: a draft that a killed one leaves is in nobody's way.
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        draft.write_bytes(content)
        os.replace(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def _listed(uri: str) -> list[str]:
    path = _local(uri)
    if path is not None:
        return os.listdir(path) if path.is_dir() else []
    from pyarrow.fs import FileSelector

    system, place = _remote(uri)
    return [entry.base_name for entry in system.get_file_info(FileSelector(place, allow_not_found=True))]


def _local(uri: str) -> Path | None:
    """The path of what lies on this machine: most documents do, and importing Arrow for them would take longer."""
    if "://" not in uri:
        return Path(uri)
    parts = urlsplit(uri)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


def _remote(uri: str) -> tuple[Any, str]:
    from pyarrow.fs import FileSystem

    scheme, rest = uri.split("://", 1)
    # Hadoop's name for what everybody else calls s3.
    system, place = FileSystem.from_uri(f"{'s3' if scheme == 's3a' else scheme}://{rest}")
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
