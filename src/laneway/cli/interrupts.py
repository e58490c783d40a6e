"""Signals that end a command where it waits, and what it prints then."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

import click

from laneway.cli.errors import one_line

R = TypeVar("R")

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


async def interruptible(work: Coroutine[Any, Any, R]) -> R:
    """The result of `work`; a signal cancels it where it waits."""
    task = asyncio.ensure_future(work)
    # Python's own way could raise in the middle of the event loop's work.
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, task.cancel)
    return await task


def say(words: str) -> None:
    """Tell that a signal ended the command, and what that means; nothing where it means nothing."""
    # After a SIGHUP no reader may be there.
    with contextlib.suppress(OSError):
        if words:
            click.echo(f"laneway: interrupted{one_line(words)}", err=True)
