"""Logging of the long-running commands, on stderr.

A collector gets one JSON object per line; a person at a terminal gets aligned text. Both carry the
fields that a record was given by `extra`, and both put times in UTC.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from typing import Any

import click

LEVELS = ("debug", "info", "warning", "error")

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def level_option(default: str = "info") -> Callable[[Any], Any]:
    """The option that chooses the level; its value is for `configure`."""
    return click.option(
        "--log-level",
        type=click.Choice(LEVELS),
        default=default,
        show_default=True,
        help="What to log on stderr.",
    )


def configure(level: str = "info", json: bool | None = None) -> None:
    """Send every record of at least `level` to stderr; replaces what was configured before.

    `json` left out means: JSON unless stderr is a terminal.
    """
    if json is None:
        json = not sys.stderr.isatty()
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_json_formatter() if json else _ReadableFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # One line per request at info is the business of a debug session only.
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
    """`12:34:56 INFO    laneway.host.scan: text  key=value`."""

    converter = staticmethod(time.gmtime)

    def __init__(self) -> None:
        super().__init__("{asctime} {levelname:<7} {name}: {message}", "%H:%M:%S", style="{")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        line = super().formatMessage(record)
        extra = {key: value for key, value in vars(record).items() if key not in _STANDARD}
        return "  ".join([line, *(f"{key}={value}" for key, value in extra.items())])
