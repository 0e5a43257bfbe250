"""The commands of the speed layer: ingest, streams, plans and new versions of views."""
