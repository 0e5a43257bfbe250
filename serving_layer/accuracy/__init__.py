"""How right streaming is, how soon, and why it differs: compared, explained, kept and shown."""

from serving_layer.accuracy.report.history import accuracy_summary

__all__ = ["accuracy_summary"]
