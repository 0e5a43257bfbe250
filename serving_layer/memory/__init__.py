"""Views in memory: their states in blocks, followed commit by commit, within a number of bytes."""
