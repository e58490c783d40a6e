"""Waiting for an agent's answer to a desired state, and printing its progress meanwhile.

An answer belongs to a generation of the object, so an older answer never counts. Waiting ends with
the answer or with the time limit. Until then the words of the object are printed as they change,
each with the seconds since the change was written. If the API server goes away meanwhile, the
command waits for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable
from typing import Any, TypeVar

import click

from laneway.cli.errors import Failure, one_line
from laneway.cli.watching import states
from laneway.kube.client import Client
from laneway.kube.errors import UnreachableError
from laneway.kube.resource import Resource
from laneway.views.answers import Answer

T = TypeVar("T", bound=Any)


class TooLate(Failure):
    """No final answer came in time."""


async def awaited(
    client: Client,
    resource: Resource[T],
    name: str,
    answer: Callable[[T], Answer],
    *,
    node: str,
    seconds: float,
    quiet: bool = False,
) -> tuple[T, Answer]:
    """The object with its final answer. Raises TooLate when none comes in time.

    `node`: whose agent has to answer. `quiet`: nothing is printed meanwhile.
    """
    teller = _Teller(quiet=quiet)
    last = Answer("none")
    try:
        async with (
            asyncio.timeout(seconds),
            contextlib.aclosing(_states(client, resource, name, teller)) as states,
        ):
            async for obj in states:
                last = answer(obj)
                if last.final:
                    return obj, last
                teller.tell(last.words or f"waiting for the agent of {node}")
    except TimeoutError:
        raise TooLate(_late(last, node, seconds)) from None
    raise AssertionError("an endless watch has ended")


def _late(last: Answer, node: str, seconds: float) -> str:
    if last.kind == "none":
        return (
            f"no agent answered within {seconds:.0f} s: the agent of node {node} does not run, or "
            "cannot reach the API server. To see what runs there: kubectl get pods -A -o wide "
            f"--field-selector spec.nodeName={node}"
        )
    return f"not finished within {seconds:.0f} s (see --timeout). Last: {last.words}"


async def _states(
    client: Client, resource: Resource[T], name: str, teller: _Teller
) -> AsyncGenerator[T, None]:
    """The object now, and after every change."""

    def away(error: UnreachableError) -> None:
        teller.tell(f"{error}; asking again")

    async with contextlib.aclosing(states(client, resource, away, name)) as found:
        async for obj in found:
            if obj is None:
                raise Failure(f"{resource.kind} {name} was deleted meanwhile")
            try:
                decoded = resource.decode(obj)
            except ValueError as error:
                raise Failure(str(error)) from None
            yield decoded


def tell(seconds: float, words: str) -> None:
    """Print what goes on, so many seconds after the wait began."""
    click.echo(f"{seconds:6.1f} s  {one_line(words)}")


class _Teller:
    """Prints words when they differ from the last; owns when the wait began."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._began = time.monotonic()
        self._told = ""

    def tell(self, words: str) -> None:
        if words != self._told and not self._quiet:
            tell(time.monotonic() - self._began, words)
        self._told = words
