"""Processes that are started, found again, looked after and stopped."""
