"""Benchmarks: each is a program of its own that measures one promise of the platform and says what was wanted."""
