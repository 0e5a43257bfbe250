"""Checks definitions with Spark before a stream runs them: every SQL text is compiled, every lookup is read."""
