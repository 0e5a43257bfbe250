"""The speed layer: what never stops. Ingest into the log, the streams of views, their folds, replays and versions."""
