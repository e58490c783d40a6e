"""How a command reports that it failed."""

from __future__ import annotations

import click

from laneway.cli.statuses import ExitStatus


class Failure(click.ClickException):
    """The command failed. The message says what is wrong and what to do; it becomes one line."""


class Unfinished(Failure):
    """The change was accepted and is still in progress when the command ends."""

    exit_code = ExitStatus.UNFINISHED


def one_line(text: str) -> str:
    """Text on one line and free of control characters, which a terminal would obey."""
    words = "".join(char if char.isprintable() else " " for char in text).split()
    return " ".join(words)
