"""The speed layer: what never stops. Today that is ingest, with its ledger and its quarantine."""
