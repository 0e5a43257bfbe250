"""Alerts on merged numbers: judged, kept with what they are based on, corrected, and sent until they arrive."""
