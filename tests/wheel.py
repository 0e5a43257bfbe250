"""The wheel as somebody gets it: built from what is in the repository, and installed into an environment of its own."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
# What is not in a checkout: made by set-up, tests and tools.
MADE = shutil.ignore_patterns("__pycache__", "*.egg-info")
PARTS = ("braid", "batch_layer", "speed_layer", "serving_layer", "pyproject.toml", "README.md", "LICENSE")


def outside() -> dict[str, str]:
    """The environment of a shell that knows nothing of this checkout."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("BRAID_", "PYTHON", "VIRTUAL_"))
    }
    return kept | {"COLUMNS": "200"}


def build(folder: Path) -> Path:
    """Built from a copy: setuptools leaves its own folders where it builds, and finds them there the next time."""
    source = folder / "source"
    source.mkdir()
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, source / part, ignore=MADE)
        else:
            shutil.copy(ROOT / part, source)
    _run(
        BIN / "uv",
        "build",
        "--quiet",
        "--wheel",
        "--no-build-isolation",
        "--python",
        sys.executable,
        "--out-dir",
        folder,
        source,
    )
    (wheel,) = folder.glob("*.whl")
    return wheel


def install(wheel: Path, extras: str, folder: Path) -> Path:
    """The program of an environment with these extras: the versions of the lock file, which set-up has in its cache."""
    _run(BIN / "uv", "venv", "--quiet", "--python", sys.executable, folder)
    wanted = f"braid{f'[{extras}]' if extras else ''} @ file://{wheel}"
    _run(
        BIN / "uv", "pip", "install", "--quiet", "--offline", "--python", folder / "bin" / "python",
        "--constraint", ROOT / "requirements.lock", wanted,
    )  # fmt: skip
    return folder / "bin" / "braid"


def _run(*command: str | Path) -> None:
    done = subprocess.run(command, env=outside(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
