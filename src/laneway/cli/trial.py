"""A layout that only asks what the agent would do, and is deleted afterwards.

It is deleted in every case: after an answer, an error, a time limit or a signal. Its name is chosen
here and its creation always completes, so that the command knows at any moment what to delete.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator
from typing import Any

import click

from laneway.api import VGPULayout
from laneway.cli.connection import installed
from laneway.cli.errors import one_line
from laneway.kube.client import Client
from laneway.kube.errors import KubeError, NotFoundError
from laneway.kube.resource import served

PREFIX = "laneway-dry-run-"


async def make(client: Client, name: str, spec: dict[str, Any]) -> VGPULayout:
    """A new layout. Raises AlreadyExistsError."""
    resource = served(VGPULayout)
    identity = {"apiVersion": resource.api_version, "kind": resource.kind}
    with installed(resource.kind):
        return await client.create(resource, {**identity, "metadata": {"name": name}, "spec": spec})


@contextlib.asynccontextmanager
async def layout(client: Client, spec: dict[str, Any]) -> AsyncIterator[VGPULayout]:
    """A VGPULayout that changes nothing, as long as the block runs."""
    name = PREFIX + secrets.token_hex(6)
    made = asyncio.ensure_future(make(client, name, {**spec, "dryRun": True}))
    try:
        yield await asyncio.shield(made)
    finally:
        await asyncio.shield(asyncio.ensure_future(_remove(client, name, made)))


async def _remove(client: Client, name: str, made: asyncio.Future[VGPULayout]) -> None:
    await asyncio.wait({made})
    # Also after a failure: it may be that the answer alone got lost.
    try:
        await client.delete(served(VGPULayout), name)
    except NotFoundError:
        pass
    except KubeError as error:
        text = f"VGPULayout {name} of this dry run could not be deleted: {error}."
        text += f" To delete it: kubectl delete vgpulayout {name}"
        click.echo(one_line(f"laneway: warning: {text}"), err=True)
