"""A Spark standalone cluster on this machine: its files and its processes."""
