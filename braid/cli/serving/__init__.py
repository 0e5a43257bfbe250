"""The commands that read: `query`, `tail`, `sql`, `serve` and `compare`."""
