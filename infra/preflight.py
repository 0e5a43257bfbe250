"""What this machine must have before anything is installed: Python, a JDK and disk space.

Run as a script by `make setup`, with whatever Python the machine has, so it uses only the standard
library and syntax that an old interpreter can read far enough to say that it is too old.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from typing import NamedTuple

PYTHON = (3, 11)
JAVA_MAJORS = (17, 21)
FREE_GIB = 4


class Requirement(NamedTuple):
    """One requirement: whether it holds, what was found, and how to mend it."""

    name: str
    ok: bool
    detail: str
    fix: str = ""


def check_python(version: "tuple[int, ...]" = tuple(sys.version_info[:3])) -> Requirement:
    found = ".".join(map(str, version))
    wanted = ".".join(map(str, PYTHON))
    fix = f"Install Python {wanted} or newer and run `make PYTHON=/path/to/python3 ...`."
    if tuple(version) < PYTHON:
        return Requirement("python", False, f"Python {found} is too old", fix)
    if importlib.util.find_spec("ensurepip") is None:
        return Requirement(
            "python", False, f"Python {found} lacks venv", "Debian: `apt-get install python3-venv`."
        )
    return Requirement("python", True, f"Python {found}", fix)


def java_command(environment: "dict[str, str] | None" = None) -> str:
    """The java to run: JAVA_HOME wins over PATH, as it does for Spark."""
    environment = dict(os.environ) if environment is None else environment
    home = environment.get("JAVA_HOME")
    return os.path.join(home, "bin", "java") if home else "java"


def java_major(version_text: str) -> int | None:
    """The major version in the output of `java -version` ("1.8.0" is 8), or None."""
    found = re.search(r'version "(?:1\.)?(\d+)', version_text)
    return int(found.group(1)) if found else None


def check_java(environment: "dict[str, str] | None" = None) -> Requirement:
    environment = dict(os.environ) if environment is None else environment
    command = java_command(environment)
    where = f"JAVA_HOME={environment['JAVA_HOME']}" if environment.get("JAVA_HOME") else "PATH"
    fix = "Install a JDK 17 (Debian: `apt-get install openjdk-17-jdk-headless`) and point JAVA_HOME at it."
    if shutil.which(command, path=environment.get("PATH")) is None:
        return Requirement("java", False, f"no java found through {where} (looked for {command})", fix)
    try:
        answer = subprocess.run(
            [command, "-version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Requirement("java", False, f"{command} does not run: {error}", fix)
    major = java_major(answer.stderr + answer.stdout)
    if major not in JAVA_MAJORS:
        found = f"Java {major}" if major else "a Java of unknown version"
        return Requirement("java", False, f"{found} found through {where}, but Spark needs 17 (or 21)", fix)
    return Requirement("java", True, f"Java {major} through {where}", fix)


def check_compiler(environment: "dict[str, str] | None" = None) -> Requirement:
    """Set-up compiles Braid's own classes; what runs them later can be a runtime alone."""
    environment = dict(os.environ) if environment is None else environment
    asked = [java_command(environment), "--describe-module", "jdk.compiler"]
    answer = subprocess.run(asked, capture_output=True, env=environment, timeout=60, check=False)
    fix = "Install a JDK 17 (Debian: `apt-get install openjdk-17-jdk-headless`) and point JAVA_HOME at it."
    if answer.returncode != 0:
        return Requirement("compiler", False, "this Java is a runtime without a compiler", fix)
    return Requirement("compiler", True, "a JDK with its compiler", fix)


def check_disk(path: str = ".", needed_gib: float = FREE_GIB) -> Requirement:
    existing = os.path.abspath(path)
    while not os.path.exists(existing):
        existing = os.path.dirname(existing)
    free = shutil.disk_usage(existing).free / 2**30
    detail = f"{free:.1f} GiB free at {existing} (needs {needed_gib:g})"
    return Requirement(
        "disk", free >= needed_gib, detail, "Free some disk space, or clone Braid onto a larger disk."
    )


def main() -> int:
    java = check_java()
    checks = [check_python(), java, *([check_compiler()] if java.ok else []), check_disk()]
    failed = [check for check in checks if not check.ok]
    for check in failed:
        print(f"Braid cannot be set up: {check.detail}. {check.fix}", file=sys.stderr)
    return 2 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
