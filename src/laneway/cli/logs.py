"""Logging of the long-running commands, on stderr.

A collector gets one JSON object per line; a person at a terminal gets aligned text. Both carry the
fields that a record was given by `extra`, and both put times in UTC.
"""

from __future__ import annotations

import logging
import sys
import time
from typing import Any

from laneway.core.phrases import line as printable

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def configure(level: str = "info", form: str | None = None) -> None:
    """Send every record of at least `level` to stderr; replaces what was configured before.

    `form`: text or json; left out, text at a terminal and otherwise JSON.
    """
    json = form == "json" if form else not sys.stderr.isatty()
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_json_formatter() if json else _ReadableFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # One line per request at info would bury everything else.
    access = logging.NOTSET if level == "debug" else logging.WARNING
    logging.getLogger("aiohttp.access").setLevel(access)


def _json_formatter() -> logging.Formatter:
    from pythonjsonlogger.json import JsonFormatter  # noqa: PLC0415 - not needed at a terminal

    formatter = JsonFormatter(
        "{asctime}{levelname}{name}{message}",
        style="{",
        datefmt="%Y-%m-%dT%H:%M:%SZ",
        rename_fields={"asctime": "time", "levelname": "level", "name": "logger"},
    )
    formatter.converter = time.gmtime
    return formatter


class _ReadableFormatter(logging.Formatter):
    """`12:34:56 INFO    laneway.host.scan: text  key=value`.

    What others wrote neither begins a line nor reaches the terminal as a control character.
    """

    converter = staticmethod(time.gmtime)

    def __init__(self) -> None:
        super().__init__("{asctime} {levelname:<7} {name}: {message}", "%H:%M:%S", style="{")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        line = super().formatMessage(record)
        extra = {key: value for key, value in vars(record).items() if key not in _STANDARD}
        return printable("  ".join([line, *(f"{key}={value}" for key, value in extra.items())]))

    def formatException(self, ei: Any) -> str:  # noqa: N802 - logging's name
        return "\n".join(map(printable, super().formatException(ei).split("\n")))
