"""Waiting for an agent's answer to a desired state.

An answer belongs to a generation of the object, so an older answer never counts. Waiting ends with
the answer or with the time limit. If the API server goes away meanwhile, the wait goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from typing import Any, TypeVar

from laneway.changes.errors import ChangeError, TooLateError
from laneway.changes.listening import SILENT, Listener
from laneway.changes.watching import states
from laneway.kube.client import Client
from laneway.kube.errors import UnreachableError
from laneway.kube.resource import Resource
from laneway.views.answers import Answer

T = TypeVar("T", bound=Any)


async def awaited(
    client: Client,
    resource: Resource[T],
    name: str,
    answer: Callable[[T], Answer],
    *,
    node: str,
    seconds: float,
    listener: Listener = SILENT,
) -> tuple[T, Answer]:
    """The object with its final answer. Raises TooLateError when none comes in time.

    `node`: whose agent has to answer.
    """
    last = Answer("none")
    try:
        async with (
            asyncio.timeout(seconds),
            contextlib.aclosing(_states(client, resource, name, listener)) as found,
        ):
            async for obj in found:
                last = answer(obj)
                if last.final:
                    return obj, last
                listener.progress(last.words or f"waiting for the agent of {node}")
    except TimeoutError:
        raise TooLateError(last, node, seconds) from None
    raise AssertionError("an endless watch has ended")


async def _states(
    client: Client, resource: Resource[T], name: str, listener: Listener
) -> AsyncGenerator[T, None]:
    """The object now, and after every change."""

    def away(error: UnreachableError) -> None:
        listener.progress(f"{error}; asking again")

    async with contextlib.aclosing(states(client, resource, away, name)) as found:
        async for obj in found:
            if obj is None:
                raise ChangeError(f"{resource.kind} {name} was deleted meanwhile")
            try:
                decoded = resource.decode(obj)
            except ValueError as error:
                raise ChangeError(str(error)) from None
            yield decoded
