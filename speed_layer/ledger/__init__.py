"""The ledger: the proof that every place that ingest consumed is in the log or is a counted duplicate."""
