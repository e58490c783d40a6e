"""A view that is shown again after every change, until a signal ends it.

A terminal gets it redrawn in place, on the screen that editors use, so that what was there before
comes back. Anything else gets the next view below the last: documents of JSON one after another,
YAML with `---` between.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Any

import click

from laneway.cli.output import View, rendered
from laneway.kube.client import Client
from laneway.kube.errors import ForbiddenError, GoneError, NotFoundError
from laneway.kube.resource import Resource

_SETTLE = 0.2
"""Seconds in which changes that belong together come in."""

Look = Callable[[], Awaitable[View]]


async def follow(
    client: Client, resources: Sequence[Resource[Any]], look: Look, output: str | None
) -> None:
    """Show what `look` finds, again after every change of these resources. Never returns."""
    changed = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for resource in resources:
            group.create_task(_watch(client, resource, changed))
        with screen(output) as show, _resized(changed):
            while True:
                changed.clear()
                show(await look())
                await changed.wait()
                await asyncio.sleep(_SETTLE)


async def _watch(client: Client, resource: Resource[Any], changed: asyncio.Event) -> None:
    """Set the event at every change; never for what is forbidden or not installed."""
    with contextlib.suppress(ForbiddenError, NotFoundError):
        while True:
            with contextlib.suppress(GoneError):
                version = ""
                async for page in client.list(resource):
                    version = page.resource_version
                changed.set()
                events = client.watch(resource, resource_version=version)
                async with contextlib.aclosing(events):
                    async for event in events:
                        if event.type != "BOOKMARK":
                            changed.set()


@contextlib.contextmanager
def _resized(changed: asyncio.Event) -> Iterator[None]:
    """Draw again when the terminal gets another size."""
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGWINCH, changed.set)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)


async def follow_events(
    events: AsyncIterator[Any], look: Callable[[], View], output: str | None
) -> None:
    """The same for something of this host, at every event."""
    changed = asyncio.Event()

    async def listen() -> None:
        async for _ in events:
            changed.set()

    async with asyncio.TaskGroup() as group:
        group.create_task(listen())
        with screen(output) as show, _resized(changed):
            while True:
                changed.clear()
                show(look())
                await changed.wait()
                await asyncio.sleep(_SETTLE)


@contextlib.contextmanager
def screen(output: str | None) -> Iterator[Callable[[View], None]]:
    """A way to show one view after another."""
    if output in (None, "wide") and sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
        from rich.console import Console  # noqa: PLC0415 - slow, and needed only here
        from rich.live import Live  # noqa: PLC0415 - as above
        from rich.text import Text  # noqa: PLC0415 - as above

        with Live(console=Console(), screen=True, auto_refresh=False) as live:
            yield lambda view: live.update(Text.from_ansi(rendered(view, output)), refresh=True)
        return
    last: list[str] = []

    def show(view: View) -> None:
        text = rendered(view, output)
        if [text] == last:
            return
        between = {"yaml": "---\n", "json": "", "name": ""}.get(output or "", "\n")
        click.echo((between if last else "") + text, nl=False)
        sys.stdout.flush()
        last[:] = [text]

    yield show
