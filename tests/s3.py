"""A real S3 store in a folder of this machine, S3Proxy, which `make s3` fetches."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from braid.infra.preflight import java_command
from braid.runtime.installation import optional_dir
from tests.conftest import free_port
from tests.waiting import until

BUCKET = "braid"
SECRET = "a-secret-of-the-store"


@dataclass(frozen=True)
class Store:
    """Where it answers, and what a process must know of it."""

    address: str

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AWS_ACCESS_KEY_ID": "braid",
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": self.address,
            # This machine has no role that could be asked for.
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def files(self) -> Any:
        from pyarrow.fs import S3FileSystem

        host = self.address.removeprefix("http://")
        return S3FileSystem(
            access_key="braid", secret_key=SECRET, endpoint_override=host, scheme="http", region="us-east-1",
            allow_bucket_creation=True,
        )  # fmt: skip


@contextmanager
def s3_store(folder: Path) -> Iterator[Store]:
    jars = [optional_dir(name) / name for name in ("s3", "s3proxy")]
    if not all(any(found.glob("*.jar")) for found in jars):
        pytest.skip("needs the packages for S3: `make s3` fetches them")
    (folder / "data").mkdir(parents=True)
    port = free_port()
    settings = {
        "s3proxy.endpoint": f"http://127.0.0.1:{port}",
        "s3proxy.authorization": "aws-v2-or-v4",
        "s3proxy.identity": "braid",
        "s3proxy.credential": SECRET,
        "jclouds.provider": "filesystem-nio2",
        "jclouds.filesystem.basedir": folder / "data",
    }
    config = folder / "s3proxy.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    quiet = folder / "logback.xml"
    quiet.write_text('<configuration><root level="WARN"/></configuration>')
    command = [java_command(), "-Xmx256m", f"-Dlogback.configurationFile={quiet}", "-cp", f"{jars[1]}/*"]
    process = subprocess.Popen(
        [*command, "org.gaul.s3proxy.Main", "--properties", str(config)], env=os.environ
    )
    try:
        store = Store(f"http://127.0.0.1:{port}")
        until(lambda: _has_bucket(store) or process.poll() is not None, 60)
        assert process.poll() is None, "S3Proxy did not start"
        yield store
    finally:
        process.terminate()
        process.wait(30)


def _has_bucket(store: Store) -> bool:
    try:
        store.files().create_dir(BUCKET)
    except OSError:
        return False
    return True
