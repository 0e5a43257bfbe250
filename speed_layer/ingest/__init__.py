"""Ingest: from Kafka or a folder into a source's log, every record exactly once."""
