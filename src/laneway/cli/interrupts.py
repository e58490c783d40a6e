"""Signals that end a command where it waits, and what it prints then."""

from __future__ import annotations

import contextlib
import signal

import click

from laneway.cli.errors import one_line

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def say(words: str) -> None:
    """Tell that a signal ended the command, and what that means; nothing where it means nothing."""
    # After a SIGHUP no reader may be there.
    with contextlib.suppress(OSError):
        if words:
            click.echo(f"laneway: interrupted{one_line(words)}", err=True)
