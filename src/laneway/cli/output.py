"""The two forms of what a command found: text for people, JSON for programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
import msgspec


def output_option(about: str) -> Callable[[Any], Any]:
    """The option `-o`; its value is `table` or `json`."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["table", "json"]),
        default="table",
        show_default=True,
        help=about,
    )


def print_json(value: object) -> None:
    """Print a value, indented."""
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2))
