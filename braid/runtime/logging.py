"""Structured logging: one event a line, with its values as fields, for people or for machines."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, Literal

_ROOT = "braid"


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S.%f")[:-3]
        fields = " ".join(f"{k}={v}" for k, v in getattr(record, "fields", {}).items())
        line = f"{when} {record.levelname.lower():7} {record.getMessage()}"
        return f"{line}  {fields}" if fields else line


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created, UTC).isoformat()
        base = {
            "time": when,
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        }
        return json.dumps(base | getattr(record, "fields", {}), default=str)


class Logger:
    """A logger whose calls take fields: `log.info("batch committed", batch=7, rows=1000)`."""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(f"{_ROOT}.{name}")

    def debug(self, event: str, **fields: Any) -> None:
        self._logger.debug(event, extra={"fields": fields})

    def info(self, event: str, **fields: Any) -> None:
        self._logger.info(event, extra={"fields": fields})

    def warning(self, event: str, **fields: Any) -> None:
        self._logger.warning(event, extra={"fields": fields})

    def error(self, event: str, **fields: Any) -> None:
        self._logger.error(event, extra={"fields": fields})


def configure(level: str, style: Literal["text", "json"]) -> None:
    """Logs go to stderr, so that stdout stays what was asked for."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if style == "json" else _Text())
    logger = logging.getLogger(_ROOT)
    logger.handlers = [handler]
    logger.setLevel(level.upper())
    logger.propagate = False
