"""A command's conversation with the API server, and the message for each way in which it fails.

^C, SIGTERM and SIGHUP cancel the conversation where it waits, so that a command removes the objects
that it made for its own use before it ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

import click

from laneway.changes.answered import denial
from laneway.changes.errors import (
    ChangeError,
    NotInstalledError,
    OvertakenError,
    TooLateError,
    UnfinishedError,
)
from laneway.cli import interrupts
from laneway.cli.cluster_options import ClusterChoice
from laneway.cli.errors import Failure, Unfinished, one_line
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

_LONGER = "see --timeout"


def ask(
    work: Callable[[Client], Coroutine[Any, Any, R]], cluster: ClusterChoice, interrupted: str = ""
) -> R:
    """The answer of `work`. Raises Failure, and Abort when a signal ends it.

    `interrupted`: what the command prints then; nothing where `work` prints it, or changes nothing.
    """
    _show_warnings()
    return asyncio.run(_conversation(work, cluster, interrupted))


def namespace_of(cluster: ClusterChoice) -> str:
    """The namespace that a command is about. Raises Failure."""
    if cluster.namespace is not None:
        return cluster.namespace
    try:
        return config.load(cluster.kubeconfig, cluster.context).namespace
    except KubeError as error:
        raise failure(error) from error


async def _conversation(
    work: Callable[[Client], Coroutine[Any, Any, R]], cluster: ClusterChoice, interrupted: str
) -> R:
    try:
        return await interrupts.interruptible(_asked(work, cluster))
    except asyncio.CancelledError:
        interrupts.say(interrupted)
        raise click.Abort from None
    except KubeError as error:
        raise failure(error) from error
    except ChangeError as error:
        raise unmade(error) from error


class _Warnings(logging.Handler):
    """Prints what the server warns of as kubectl does, and without the server's name."""

    def emit(self, record: logging.LogRecord) -> None:
        words = record.args[-1] if isinstance(record.args, tuple) and record.args else record.msg
        click.echo(one_line(f"Warning: {words}"), err=True)


def _show_warnings() -> None:
    log = logging.getLogger(WARNINGS)
    log.propagate = False
    log.handlers = [_Warnings(logging.WARNING)]


async def _asked(work: Callable[[Client], Coroutine[Any, Any, R]], cluster: ClusterChoice) -> R:
    # A user waits for the answer: a server that is away is reported at once.
    found = config.load(cluster.kubeconfig, cluster.context)
    async with Client(found, connect_delays=()) as client:
        return await work(client)


def failure(error: KubeError, changed: str = "") -> Failure:
    """What went wrong, and what to do about it where that is not plain.

    `changed`: what the command had changed before.
    """
    found = _failure(error, "" if changed else "; nothing was changed")
    return Failure(f"{found.message.rstrip('.')}. {changed}") if changed else found


def _failure(error: KubeError, nothing: str) -> Failure:
    match error:
        case UnauthorizedError():
            return Failure(
                f"the API server does not accept your credentials: {error}. Log in again, or "
                "choose another kubeconfig or context"
            )
        case ForbiddenError() if words := denial(error):
            return Failure(f"refused{nothing}. {words.rstrip('.')}")
        case ForbiddenError():
            return Failure(
                f"the API server does not allow you to do this: {error}. Ask an administrator "
                "for a role that allows it"
            )
        case UnreachableError():
            return Failure(
                f"{error}. Check that the API server runs, and that --kubeconfig, --context or "
                "KUBECONFIG names the right one"
            )
        case _:
            return Failure(str(error))


def unmade(error: ChangeError) -> Failure:
    """What went wrong with a change, with the options of a command that help."""
    match error:
        case TooLateError():
            return Failure(error.hinting(_LONGER))
        case UnfinishedError(why=TooLateError() as late, further=further):
            return Unfinished(f"{late.hinting(_LONGER)}. {further}")
        case UnfinishedError():
            return Unfinished(str(error))
        case OvertakenError():
            return Failure(f"{error}; run the command again")
        case _:
            return Failure(str(error))


@contextlib.contextmanager
def installed(kind: str) -> Iterator[None]:
    """Tell a kind that the server does not know from an object that does not exist.

    For requests to a collection: what these do not find is the collection.
    """
    try:
        yield
    except NotFoundError:
        raise Failure(str(NotInstalledError(kind))) from None
