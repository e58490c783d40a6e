"""A command's conversation with the API server, and how each way in which it can fail is told.

^C, SIGTERM and SIGHUP cancel the conversation where it waits, so that what a command has put up for
its own use is taken down again before the command ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

import click

from laneway.cli import interrupts
from laneway.cli.errors import Failure, one_line
from laneway.kube import config
from laneway.kube.client import Client
from laneway.kube.connection import WARNINGS
from laneway.kube.errors import (
    ForbiddenError,
    KubeError,
    NotFoundError,
    UnauthorizedError,
    UnreachableError,
)

R = TypeVar("R")

kubeconfig_option = click.option(
    "--kubeconfig",
    metavar="PATH",
    help="How to reach the API server. Default: $KUBECONFIG, ~/.kube/config, or a pod's service "
    "account.",
)

_DENIED = "denied the request:"
"""As API servers introduce what an admission webhook says."""


def ask(
    work: Callable[[Client], Coroutine[Any, Any, R]], kubeconfig: str | None, interrupted: str = ""
) -> R:
    """The answer of `work`. Raises Failure, and Abort when a signal ends it.

    `interrupted`: what a person is told then; nothing where `work` tells it, or changes nothing.
    """
    _show_warnings()
    return asyncio.run(_conversation(work, kubeconfig, interrupted))


async def _conversation(
    work: Callable[[Client], Coroutine[Any, Any, R]], kubeconfig: str | None, interrupted: str
) -> R:
    task = asyncio.ensure_future(_asked(work, kubeconfig))
    # Python's own way could raise in the middle of the event loop's work.
    loop = asyncio.get_running_loop()
    for number in interrupts.SIGNALS:
        loop.add_signal_handler(number, task.cancel)
    try:
        return await task
    except asyncio.CancelledError:
        interrupts.say(interrupted)
        raise click.Abort from None
    except KubeError as error:
        raise failure(error) from error


class _Warnings(logging.Handler):
    """Prints what the server warns of as kubectl does, and without the server's name."""

    def emit(self, record: logging.LogRecord) -> None:
        words = record.args[-1] if isinstance(record.args, tuple) and record.args else record.msg
        click.echo(one_line(f"Warning: {words}"), err=True)


def _show_warnings() -> None:
    log = logging.getLogger(WARNINGS)
    log.propagate = False
    log.handlers = [_Warnings(logging.WARNING)]


async def _asked(work: Callable[[Client], Coroutine[Any, Any, R]], kubeconfig: str | None) -> R:
    # A person who waits for an answer is told at once that there is no server.
    async with Client(config.load(kubeconfig), connect_delays=()) as client:
        return await work(client)


def failure(error: KubeError) -> Failure:
    """What went wrong, and what to do about it where that is not plain."""
    match error:
        case UnauthorizedError():
            return Failure(
                f"the API server does not accept your credentials: {error}. Log in again, or name "
                "another kubeconfig"
            )
        case ForbiddenError() if _DENIED in error.message:
            words = error.message.partition(_DENIED)[2].strip().rstrip(".")
            return Failure(f"refused; nothing was changed. {words}")
        case ForbiddenError():
            return Failure(
                f"the API server does not let you do this: {error}. Ask for a role that allows it"
            )
        case UnreachableError():
            return Failure(
                f"{error}. Is it up, and is it the one that you mean? --kubeconfig, or KUBECONFIG, "
                "says which is asked"
            )
        case _:
            return Failure(str(error))


@contextlib.contextmanager
def installed(kind: str) -> Iterator[None]:
    """Tell a kind that the server does not know from an object that is not there.

    For requests to a collection: whatever these do not find is the collection.
    """
    try:
        yield
    except NotFoundError:
        raise Failure(
            f"this cluster has no kind {kind}: install what Laneway defines, with: laneway crds | "
            "kubectl apply --server-side -f -"
        ) from None
