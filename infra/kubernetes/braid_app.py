"""Braid's command line as the program of a Spark application: its arguments are those of `braid`."""

import sys

from braid.cli import main

if __name__ == "__main__":
    sys.argv[0] = "braid"
    main()
