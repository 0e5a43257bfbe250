"""Why served numbers differ from a recompute: every group judged, every difference with its cause."""
