"""The `braid` command: parses, calls, prints. Each group of commands has its own module here."""

import sys

from braid.errors import BraidError, CheckFailed

EXIT_CHECK_FAILED = 1
EXIT_BAD_INPUT = 2


def main() -> None:
    """Runs the command line; what a user can mend ends in one sentence and never in a traceback."""
    from braid.cli.app import app
    from braid.cli.output import print_error

    try:
        app()
    except CheckFailed as failure:
        print_error(str(failure))
        sys.exit(EXIT_CHECK_FAILED)
    except BraidError as error:
        print_error(str(error))
        sys.exit(EXIT_BAD_INPUT)
    except KeyboardInterrupt:
        print_error("interrupted")
        sys.exit(130)
