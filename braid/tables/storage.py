"""Small files at any path or URI, through the file systems that Spark itself uses."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from braid.runtime.object_store import is_s3

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Storage:
    """Reads, lists and moves what lies beside the tables: checkpoints, inboxes, records of drivers."""

    def __init__(self, spark: "SparkSession") -> None:
        self._jvm: Any = spark._jvm
        self._gateway: Any = spark.sparkContext._gateway
        self._conf = spark._jsc.hadoopConfiguration()

    def exists(self, uri: str) -> bool:
        if "://" not in uri:
            return Path(uri).exists()
        system, path = self._open(uri)
        return bool(system.exists(path))

    def names(self, uri: str) -> list[str]:
        """The names in a folder, sorted; none when there is no such folder."""
        system, path = self._open(uri)
        if not system.exists(path):
            return []
        return sorted(entry.getPath().getName() for entry in system.listStatus(path))

    def glance(self, uri: str) -> str | None:
        """The text of a file that is written once and whole; None when it is not there. Local ones without Java."""
        if "://" not in uri:
            try:
                return Path(uri).read_text()
            except FileNotFoundError:
                return None
        return self.read(uri) if self.exists(uri) else None

    def changed(self, uri: str) -> str:
        """When a file, or the newest one in a folder, was last changed; an empty text when it is not there."""
        system, path = self._open(uri)
        if not system.exists(path):
            return ""
        newest = max((entry.getModificationTime() for entry in system.listStatus(path)), default=0)
        return datetime.fromtimestamp(newest / 1000, UTC).isoformat()

    def read(self, uri: str) -> str:
        """The file's text; OSError where it cannot be read whole (missing, or its checksum does not fit)."""
        from py4j.protocol import Py4JJavaError

        system, path = self._open(uri)
        try:
            stream = system.open(path)
            try:
                return bytes(stream.readAllBytes()).decode()
            finally:
                stream.close()
        except Py4JJavaError as error:
            raise OSError(f"cannot read {uri}: {error.java_exception.getMessage()}") from None

    def write(self, uri: str, text: str) -> None:
        """Replaces the file in one step: a reader sees the old text or the new one."""
        system, path = self._open(uri)
        if is_s3(uri):
            # An object is there when its upload has ended, and until then the one before it.
            self._create(system, path, text)
            return
        _, draft = self._open(f"{uri}.draft")
        self._create(system, draft, text)
        options = self._jvm.org.apache.hadoop.fs.Options.Rename
        overwrite = self._gateway.new_array(options, 1)
        overwrite[0] = options.OVERWRITE
        context = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(system.getUri(), self._conf)
        context.rename(draft, path, overwrite)

    def _create(self, system: Any, path: Any, text: str) -> None:
        stream = system.create(path, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    def make_folder(self, uri: str) -> None:
        system, path = self._open(uri)
        system.mkdirs(path)

    def move(self, old: str, new: str) -> None:
        system, path = self._open(old)
        if not system.rename(path, self._open(new)[1]):
            raise OSError(f"cannot move {old} to {new}")

    def _open(self, uri: str) -> tuple[Any, Any]:
        path = self._jvm.org.apache.hadoop.fs.Path(uri)
        return path.getFileSystem(self._conf), path
