"""Worked examples: one file a domain, sources and views as values."""
