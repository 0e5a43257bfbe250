"""Becomes the command that it is given, after asking the kernel to end it together with the one who started it.

Run as a file, between fork and exec: code that runs in a fork of a process with threads can hang for ever.
Only Linux knows this; elsewhere a child outlives a supervisor that was killed with -9.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(parent: int, command: list[str]) -> None:
    if sys.platform == "linux":
        # Nothing gentler is certain, and what runs under a supervisor survives being killed.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            sys.exit("the supervisor ended before its child began")
    # Python ignores these for itself, and a command would inherit that.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.exit(f"cannot run {command[0]}: {error.strerror}")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
