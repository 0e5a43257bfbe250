"""The HTTP API: routes, access, errors, formats and live events."""
