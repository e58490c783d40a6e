"""What goes on while a command changes something, as it is printed.

Progress is printed as it changes, each line with the seconds since the change was written.
"""

from __future__ import annotations

import time

import click

from laneway.changes.listening import Listener
from laneway.cli import interrupts
from laneway.cli.errors import one_line


class Printer(Listener):
    """Prints what goes on; owns when the wait began."""

    def __init__(self, *, quiet: bool = False) -> None:
        """`quiet`: no progress."""
        self._quiet = quiet
        self._began = time.monotonic()
        self._told = ""

    def progress(self, words: str) -> None:
        if words != self._told and not self._quiet:
            tell(time.monotonic() - self._began, words)
        self._told = words

    def warning(self, words: str) -> None:
        click.echo(one_line(f"laneway: warning: {words}"), err=True)

    def interrupted(self, words: str) -> None:
        interrupts.say(f". {words}")


def tell(seconds: float, words: str) -> None:
    """Print what goes on, so many seconds after the wait began."""
    click.echo(f"{seconds:6.1f} s  {one_line(words)}")
