"""What other processes on this machine can see of one that a test has started."""

import psutil


def command_lines(pid: int) -> dict[str, list[str]]:
    """Of a process and all that it started: name -> words. Some of them end while they are looked at."""
    found: dict[str, list[str]] = {}
    family = psutil.Process(pid)
    for process in (family, *family.children(recursive=True)):
        try:
            found.setdefault(process.name(), []).extend(process.cmdline())
        except psutil.Error:
            continue
    return found
