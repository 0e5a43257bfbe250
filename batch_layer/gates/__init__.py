"""Quality gates: whether a day may be published, judged by Great Expectations from one row of numbers about it."""
