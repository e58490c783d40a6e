"""Objects as they are now and after every change, however often the API server goes away."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from typing import Any

from laneway.kube.client import Client
from laneway.kube.errors import GoneError, UnreachableError
from laneway.kube.resource import Resource

AGAIN_SECONDS = 1.0
"""Until a server that has gone away is asked again."""


async def states(
    client: Client,
    resource: Resource[Any],
    away: Callable[[UnreachableError], None],
    name: str = "",
    namespace: str = "",
) -> AsyncGenerator[Any | None, None]:
    """The object of a name now, and after every change; None while there is none.

    Without a name, any object at every change of the collection. `away` is told each time that the
    server cannot be reached.
    """
    only = f"metadata.name={name}" if name else ""
    while True:
        try:
            version, found = "", None
            async for page in client.list(resource, namespace, field_selector=only):
                version = page.resource_version
                found = next(iter(page.items), found)
            yield found
            events = client.watch(
                resource, namespace, resource_version=version, field_selector=only
            )
            async with contextlib.aclosing(events):
                async for event in events:
                    if event.type != "BOOKMARK":
                        yield None if event.type == "DELETED" else event.object
        except GoneError:
            continue
        except UnreachableError as error:
            away(error)
            await asyncio.sleep(AGAIN_SECONDS)
