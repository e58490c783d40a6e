"""A view that is shown again after every change, until `q` or a signal ends it.

A terminal gets it redrawn in place, on the screen that editors use, so that what was there before
comes back. Anything else gets the next view below the last: documents of JSON one after another,
YAML with `---` between.

Once there is a view, a server that goes away ends nothing: the last view stays, with the reason why
it may be out of date, until the server is back. Anything else that goes wrong ends the command.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import termios
import tty
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from typing import Any

import click
import msgspec

from laneway.changes import watching
from laneway.cli.errors import one_line
from laneway.cli.output import View, rendered, warn
from laneway.kube.client import Client
from laneway.kube.errors import ForbiddenError, NotFoundError, UnreachableError
from laneway.kube.resource import KubeObject, Resource

_SETTLE = 0.2
"""Seconds in which changes that belong together come in."""

Look = Callable[[], Awaitable[View]]


async def follow(
    client: Client, resources: Sequence[Resource[KubeObject]], look: Look, output: str | None
) -> None:
    """Show what `look` finds, again after every change of these resources, until `q` is typed."""
    changed = asyncio.Event()
    seen: View | None = None

    async def kept() -> View:
        nonlocal seen
        try:
            seen = await look()
        except UnreachableError as error:
            if seen is None:
                raise
            stale = f"{error}; this may be out of date"
            asyncio.get_running_loop().call_later(watching.AGAIN_SECONDS, changed.set)
            return msgspec.structs.replace(seen, warnings=(*seen.warnings, stale))
        return seen

    watches = (_watch(client, resource, changed) for resource in resources)
    await _together(_draw(kept, changed, output), *watches)


async def _draw(look: Look, changed: asyncio.Event, output: str | None) -> None:
    """Show one view after another; ends when `q` is typed."""
    with screen(output) as show, _resized(changed), _quit_key(changed) as quits:
        while not quits.is_set():
            changed.clear()
            show(await look())
            await changed.wait()
            await asyncio.sleep(_SETTLE)


async def _together(first: Coroutine[Any, Any, None], *others: Coroutine[Any, Any, None]) -> None:
    """Run all of it until the first ends or one part fails, and fail as that one does."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in others]
            await first
            for task in tasks:
                task.cancel()
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None


async def _watch(client: Client, resource: Resource[KubeObject], changed: asyncio.Event) -> None:
    """Set the event at every change; never for what is forbidden or not installed."""

    def away(_: UnreachableError) -> None:
        changed.set()  # The look that follows says so, unless the server is back.

    with contextlib.suppress(ForbiddenError, NotFoundError):
        async with contextlib.aclosing(watching.states(client, resource, away)) as found:
            async for _ in found:
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


@contextlib.contextmanager
def _quit_key(changed: asyncio.Event) -> Iterator[asyncio.Event]:
    """Set when `q` is typed at the terminal; never in the background or without a terminal."""
    quits = asyncio.Event()
    terminal = _foreground_terminal()
    if terminal is None:
        yield quits
        return
    loop = asyncio.get_running_loop()

    def read() -> None:
        keys = os.read(terminal, 64)
        if not keys:
            loop.remove_reader(terminal)
        elif b"q" in keys:
            quits.set()
            changed.set()

    before = termios.tcgetattr(terminal)
    tty.setcbreak(terminal)
    loop.add_reader(terminal, read)
    try:
        yield quits
    finally:
        loop.remove_reader(terminal)
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _foreground_terminal() -> int | None:
    """Standard input, if it is a terminal that this process may read and set."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return None
    with contextlib.suppress(OSError):
        if os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp():
            return sys.stdin.fileno()
    return None


async def follow_events(
    events: AsyncIterator[Any], look: Callable[[], View], output: str | None
) -> None:
    """The same for something of this host, at every event."""
    changed = asyncio.Event()

    async def listen() -> None:
        async for _ in events:
            changed.set()

    async def view() -> View:
        return look()

    await _together(_draw(view, changed, output), listen())


@contextlib.contextmanager
def screen(output: str | None) -> Iterator[Callable[[View], None]]:
    """A way to show one view after another."""
    if (
        output in (None, "wide")
        and sys.stdout
        and sys.stdout.isatty()
        and os.environ.get("TERM") != "dumb"
    ):
        from rich.console import Console  # noqa: PLC0415 - slow, and needed only here
        from rich.live import Live  # noqa: PLC0415 - as above
        from rich.text import Text  # noqa: PLC0415 - as above

        with Live(console=Console(), screen=True, auto_refresh=False) as live:

            def draw(view: View) -> None:
                notes = "".join(f"{one_line(why)}\n" for why in view.warnings)
                live.update(Text.from_ansi(notes + rendered(view, output)), refresh=True)

            yield draw
        return
    last: list[str] = []
    warned: list[str] = []

    def show(view: View) -> None:
        if warned != [*view.warnings]:
            warn(view)
            warned[:] = view.warnings
        text = rendered(view, output)
        if [text] == last:
            return
        between = {"yaml": "---\n", "json": "", "name": ""}.get(output or "", "\n")
        click.echo((between if last else "") + text, nl=False)
        last[:] = [text]

    yield show
