"""A layout that only asks what the agent would do, and is deleted afterwards.

It is deleted in every case: after an answer, an error, a time limit or a cancellation. Its name is
chosen here and its creation always completes, so that it is known at any moment what to delete.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import msgspec

from laneway.api import LayoutGpu, VGPULayout
from laneway.changes.errors import installed
from laneway.changes.listening import SILENT, Listener
from laneway.changes.waiting import awaited
from laneway.controllers.devices.layout import NOT_LATER
from laneway.core.layout.desired import USED
from laneway.core.refusals import GpuNotReady, HoldersUnknown
from laneway.kube.client import Client
from laneway.kube.errors import KubeError, NotFoundError
from laneway.kube.resource import served
from laneway.views.answers import Answer, entry_of, of_layout
from laneway.views.gpus import Gpu

PREFIX = "laneway-dry-run-"

_PASSING = {kind.__name__ for kind in (*USED, GpuNotReady, HoldersUnknown)}
"""Reasons that may go away by themselves."""


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """What the agent of a node would do with a GPU."""

    steps: Sequence[str] = ()
    """In their order; none where the GPU is as desired already."""
    fits: Mapping[str, int] = {}
    """How many vGPUs of each profile have room now."""
    fits_afterwards: Mapping[str, int] = {}
    refusals: Sequence[str] = ()
    """Why the agent would not do it; empty where it would."""
    passing: bool = False
    """Whether what it is refused for may go away by itself."""


async def make(
    client: Client, name: str, spec: Mapping[str, Any], *, dry_run: bool = False
) -> VGPULayout:
    """A new layout. Raises AlreadyExistsError.

    `dry_run`: only ask the server, with its webhooks.
    """
    resource = served(VGPULayout)
    identity = {"apiVersion": resource.api_version, "kind": resource.kind}
    body = {**identity, "metadata": {"name": name}, "spec": spec}
    with installed(resource.kind):
        return await client.create(resource, body, dry_run=dry_run)


@contextlib.asynccontextmanager
async def layout(
    client: Client, spec: Mapping[str, Any], listener: Listener = SILENT
) -> AsyncIterator[VGPULayout]:
    """A VGPULayout that changes nothing, as long as the block runs."""
    name = PREFIX + secrets.token_hex(6)
    made = asyncio.ensure_future(make(client, name, {**spec, "dryRun": True}))
    try:
        yield await asyncio.shield(made)
    finally:
        await asyncio.shield(asyncio.ensure_future(_remove(client, name, made, listener)))


async def _remove(
    client: Client, name: str, made: asyncio.Future[VGPULayout], listener: Listener
) -> None:
    await asyncio.wait({made})
    # Also after a failure: it may be that the answer alone got lost.
    try:
        await client.delete(served(VGPULayout), name)
    except NotFoundError:
        pass
    except KubeError as error:
        text = f"VGPULayout {name} of this dry run could not be deleted: {error}."
        listener.warning(f"{text} To delete it: kubectl delete vgpulayout {name}")


async def ask(
    client: Client,
    gpu: Gpu,
    spec: Mapping[str, Any],
    *,
    seconds: float,
    listener: Listener = SILENT,
) -> Trial:
    """What the agent would do for a layout of this spec. Raises TooLateError."""
    async with layout(client, spec, listener) as made:
        return await answered(client, gpu, made, seconds=seconds)


async def answered(client: Client, gpu: Gpu, made: VGPULayout, *, seconds: float) -> Trial:
    """The answer to a layout that only asks."""
    name, generation = made.metadata.name, made.metadata.generation
    found, _ = await awaited(
        client,
        served(VGPULayout),
        name,
        lambda layout: of_layout(entry_of(layout, gpu.name, generation)),
        node=gpu.node,
        seconds=seconds,
    )
    return trial_of(next(entry for entry in found.status.gpus if entry.name == gpu.name))


def trial_of(entry: LayoutGpu) -> Trial:
    """What an entry with a final answer says."""
    answer = of_layout(entry)
    refused = answer.kind == "refused"
    return Trial(
        steps=entry.steps,
        fits=entry.fits,
        fits_afterwards=entry.fits_afterwards,
        refusals=(refusal_words(answer),) if refused else (),
        passing=refused and passing(answer),
    )


def refusal_words(answer: Answer) -> str:
    """Why an agent refuses, without a layout's advice about itself."""
    return answer.words.removesuffix(NOT_LATER).rstrip(" ;")


def passing(answer: Answer) -> bool:
    """Whether what was refused may be possible later, without any other change."""
    return answer.reason in _PASSING
