"""Storing a desired state, waiting until it is applied, and restoring the last where it is refused.

A command that fails leaves nothing behind that changes the hardware later: it undoes a change that
the agent refuses, unless the object has changed since. Only `--when-possible` keeps
such a change. A command that ends while the agent still works, by a signal or a time limit, says
that the work goes on, how to watch it and how to cancel it.
"""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

import click
import msgspec

from laneway.cli import asking, interrupts, progress
from laneway.cli.errors import Failure, Unfinished, one_line
from laneway.kube.client import Client, PatchType
from laneway.kube.errors import (
    ConflictError,
    InvalidError,
    KubeError,
    NotFoundError,
    UnreachableError,
)
from laneway.kube.resource import KubeObject, Resource
from laneway.views.answers import Answer
from laneway.views.gpus import Gpu
from laneway.views.profiles import counts
from laneway.views.vgpus import profiles

_ATTEMPTS = 5
"""To delete an object whose status its agent is writing meanwhile."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A change of one object's spec that a command has decided on."""

    resource: Resource[KubeObject]
    plural: str
    """As kubectl takes it."""
    name: str
    gpu: Gpu
    """As it was when the command began."""
    before: Mapping[str, Any] | None
    """The fields that change, as they were in force; None: the object did not exist."""
    changes: bool = True
    """Whether the object differs from what it was."""

    @property
    def cancel(self) -> str:
        """The command that goes back to what was in force before."""
        if self.before is None:
            return f"kubectl delete {self.plural} {self.name}"
        body = shlex.quote(json.dumps({"spec": dict(self.before)}))
        return f"kubectl patch {self.plural} {self.name} --type merge -p {body}"

    @property
    def title(self) -> str:
        return f"{self.resource.kind} {self.name}"


class Waiting(NamedTuple):
    """How a command waits for the answer to its change."""

    seconds: int
    """0: not at all."""
    when_possible: bool
    look: Callable[[], Awaitable[Gpu]]
    """The GPU as it is now."""


async def applied(
    client: Client,
    change: Change,
    write: Callable[[], Awaitable[Any]],
    answer: Callable[[Any, int], Answer],
    waiting: Waiting,
) -> Answer | None:
    """Store a change and wait until it is applied; None where the command does not wait.

    `answer`: how far the agent is with a generation of the object. Raises Failure where it was
    refused, and Unfinished where the time was over before.
    """
    stored = await _stored(change, asyncio.ensure_future(write()))
    if not waiting.seconds:
        click.echo(one_line(f"Stored in {change.title}. {_cancelling(change)}"))
        return None
    generation = stored.metadata.generation
    try:
        _, given = await progress.awaited(
            client,
            change.resource,
            change.name,
            lambda found: answer(found, generation),
            node=change.gpu.node,
            seconds=waiting.seconds,
        )
    except asyncio.CancelledError:
        _interrupted(change)
        raise
    except progress.TooLate as error:
        raise Unfinished(f"{error}. {_going_on(change)}") from None
    if given.kind != "refused":
        return given
    for words in asking.told(given, advise=change.changes and not waiting.when_possible):
        click.echo(one_line(words), err=True)
    if waiting.when_possible:
        words = f"Not possible yet; the agent applies it once it is possible. {_cancelling(change)}"
        click.echo(one_line(words))
        return None
    raise await _taken_back(client, change, stored.metadata, waiting)


async def _stored(change: Change, write: asyncio.Future[Any]) -> Any:
    """What the server stored. An interruption waits for its answer, to know what there is."""
    try:
        return await asyncio.shield(write)
    except asyncio.CancelledError:
        await asyncio.wait({write})
        if write.cancelled() or write.exception() is None:
            _interrupted(change)
        raise
    except UnreachableError as error:
        raise Failure(
            f"{error}. Whether {change.title} was changed is not known. {_cancelling(change)}"
        ) from None


def _interrupted(change: Change) -> None:
    interrupts.say(f". {_going_on(change)}")


def _going_on(change: Change) -> str:
    return (
        f"The agent of {change.gpu.node} goes on with {change.title}. To watch: kubectl get "
        f"{change.plural} {change.name} --watch. {_cancelling(change)}"
    )


def _cancelling(change: Change) -> str:
    return (
        f"To cancel: {change.cancel}"
        if change.changes
        else "The object had this desired state before."
    )


async def _taken_back(client: Client, change: Change, written: Any, waiting: Waiting) -> Failure:
    """Go back after a refusal that came after the write; gives how the command ends."""
    if not change.changes:
        return Failure(
            f"refused; {change.title} had this desired state before the command, and is unchanged"
        )
    back = asyncio.ensure_future(_back(client, change, written))
    try:
        problem = await asyncio.shield(back)
    except asyncio.CancelledError:
        # The change would stay in the object if the command ended in the middle of this.
        await asyncio.wait({back})
        interrupts.say(f". It was {_went_back(change, back.result())}")
        raise
    words = _went_back(change, problem)
    return Failure(words if problem else f"{words}{await _partly(change.gpu, waiting)}")


def _went_back(change: Change, problem: str) -> str:
    if problem:
        return (
            f"refused, and {change.title} could not be restored: {problem}. It still has the new "
            f"desired state. To restore it: {change.cancel}"
        )
    done = "was removed again" if change.before is None else "is as before"
    return f"refused; {change.title} {done}"


async def _partly(before: Gpu, waiting: Waiting) -> str:
    """What of the change had been made when it was refused, as far as objects show it."""
    try:
        now = await waiting.look()
    except (Failure, KubeError) as error:
        return f". Whether a part of the change was made is not known: {error}"
    if (was := _state(before)) == (is_now := _state(now)):
        return ", and the GPU was not changed"
    return f". A part of the change was made: the GPU was {was}, and is {is_now} now"


def _state(gpu: Gpu) -> str:
    carried, _ = profiles(gpu)
    functions = f"{len(gpu.device.status.vf_addresses)} virtual functions"
    mode = gpu.device.status.mode or "an unknown mode"
    return f"in {mode} with {functions} and {counts(carried) or 'no vGPU'}"


async def _back(client: Client, change: Change, written: Any) -> str:
    """Restore what was in force; gives why it could not be, empty when it is done."""
    try:
        if change.before is None:
            await _removed(client, change, written)
        else:
            test = {"op": "test", "path": "/metadata/generation", "value": written.generation}
            fields = [
                {"op": "add", "path": f"/spec/{key}", "value": value}
                for key, value in change.before.items()
            ]
            body = [test, *fields]
            await client.patch(change.resource, change.name, body, patch_type=PatchType.JSON)
    except NotFoundError:
        return ""
    except InvalidError as error:
        return f"another program may have changed it meanwhile: {error}"
    except KubeError as error:
        return str(error)
    return ""


async def _removed(client: Client, change: Change, written: Any) -> None:
    """Delete what the command made, unless it has changed since."""
    for attempt in range(_ATTEMPTS):
        found = await client.get(change.resource, change.name)
        metadata = found.metadata
        if (metadata.uid, metadata.generation) != (written.uid, written.generation):
            raise KubeError("another program changed it meanwhile")
        try:
            await client.delete(
                change.resource,
                change.name,
                uid=metadata.uid,
                resource_version=metadata.resource_version,
            )
        except ConflictError:
            if attempt == _ATTEMPTS - 1:
                raise
            continue
        return
