"""The `braid` command: parses, calls, prints. Each group of commands has its own module here."""

import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

from braid.errors import BraidError, CheckFailed

EXIT_CHECK_FAILED = 1
EXIT_BAD_INPUT = 2
# What nobody foresaw may be gone the next time: a scheduler that gives up on a failed check tries this again.
EXIT_DEFECT = 70


def main() -> None:
    """Runs the command line, here or in a standby that has Spark running."""
    from braid.cli.platform.forward import forwarded

    code = forwarded(sys.argv[1:])
    if code is not None:
        sys.exit(code)
    run(sys.argv[1:])


def run(arguments: Sequence[str]) -> None:
    """Runs a command here; what a user can mend ends in one sentence and never in a traceback."""
    from braid.cli.app import app
    from braid.cli.output import print_error

    try:
        app(list(arguments))
    except CheckFailed as failure:
        print_error(str(failure))
        sys.exit(EXIT_CHECK_FAILED)
    except BraidError as error:
        print_error(str(error))
        sys.exit(EXIT_BAD_INPUT)
    except ModuleNotFoundError as error:
        from braid.runtime.installation import missing_extra

        if (said := missing_extra(error.name)) is None:
            _defect()
        print_error(said)
        sys.exit(EXIT_BAD_INPUT)
    except KeyboardInterrupt:
        print_error("interrupted")
        sys.exit(130)
    except Exception:
        _defect()


def _defect() -> NoReturn:
    from braid.cli.output import print_error

    traceback.print_exc()
    print_error("this is a defect of Braid, and not yours to mend: report it with what is printed above.")
    sys.exit(EXIT_DEFECT)
