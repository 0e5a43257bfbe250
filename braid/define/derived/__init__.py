"""Sources whose events Braid makes from the events of other sources, as values."""
