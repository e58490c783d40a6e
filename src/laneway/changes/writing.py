"""Storing a desired state, waiting until it is applied, and restoring the last where it is refused.

A change that fails leaves nothing behind that changes the hardware later: what the agent refuses is
undone, unless the object has changed since. Only a change that may wait until it is possible stays.
"""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from laneway.changes.errors import ChangeError, TooLateError, UnfinishedError
from laneway.changes.listening import SILENT, Listener
from laneway.changes.waiting import awaited
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
    """A change of one object's spec that is decided on."""

    resource: Resource[KubeObject]
    plural: str
    """As kubectl takes it."""
    name: str
    gpu: Gpu
    """As it was before."""
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

    @property
    def cancelling(self) -> str:
        """How to cancel it, in words."""
        if self.changes:
            return f"To cancel: {self.cancel}"
        return "The object had this desired state before."

    @property
    def going_on(self) -> str:
        """What goes on once it is stored."""
        return (
            f"The agent of {self.gpu.node} goes on with {self.title}. To watch: kubectl get "
            f"{self.plural} {self.name} --watch. {self.cancelling}"
        )


class Waiting(NamedTuple):
    """How to wait for the answer to a change."""

    seconds: int
    """0: not at all."""
    when_possible: bool
    """Leave a refused change in the object, for the agent to apply once it is possible."""
    look: Callable[[], Awaitable[Gpu]]
    """The GPU as it is now."""


class Outcome(NamedTuple):
    """What came of a change."""

    state: Literal["stored", "done", "later", "unchanged", "refused"]
    """`stored`: not waited for. `later`: refused now, and stays for later. `unchanged`: refused,
    and the object was the same before. `refused`: refused and undone, which `words` says."""
    answer: Answer = Answer("none")
    words: str = ""
    """Of a change that was refused and undone: what there is now."""


async def applied(
    client: Client,
    change: Change,
    write: Callable[[], Awaitable[Any]],
    answer: Callable[[Any, int], Answer],
    *,
    waiting: Waiting,
    listener: Listener = SILENT,
) -> Outcome:
    """Store a change and wait until it is applied. Raises UnfinishedError where it takes longer.

    `answer`: how far the agent is with a generation of the object.
    """
    stored = await store(change, write, listener)
    if not waiting.seconds:
        return Outcome("stored")
    generation = stored.metadata.generation
    try:
        _, given = await awaited(
            client,
            change.resource,
            change.name,
            lambda found: answer(found, generation),
            node=change.gpu.node,
            seconds=waiting.seconds,
            listener=listener,
        )
    except asyncio.CancelledError:
        listener.interrupted(change.going_on)
        raise
    except TooLateError as error:
        raise UnfinishedError(error, change.going_on) from error
    if given.kind != "refused":
        return Outcome("done", given)
    listener.refused(given)
    if waiting.when_possible:
        return Outcome("later", given)
    if not change.changes:
        return Outcome("unchanged", given)
    words = await _taken_back(client, change, stored.metadata, waiting, listener)
    return Outcome("refused", given, words)


async def store(
    change: Change, write: Callable[[], Awaitable[Any]], listener: Listener = SILENT
) -> Any:
    """What the server stored. A cancellation waits for its answer, to know what there is."""
    writing = asyncio.ensure_future(write())
    try:
        return await asyncio.shield(writing)
    except asyncio.CancelledError:
        await asyncio.wait({writing})
        if writing.cancelled() or writing.exception() is None:
            listener.interrupted(change.going_on)
        raise
    except UnreachableError as error:
        raise ChangeError(
            f"{error}. Whether {change.title} was changed is not known. {change.cancelling}"
        ) from None


async def _taken_back(
    client: Client, change: Change, written: Any, waiting: Waiting, listener: Listener
) -> str:
    """Go back after a refusal that came after the write; gives what there is now."""
    back = asyncio.ensure_future(restored(client, change, written))
    try:
        problem = await asyncio.shield(back)
    except asyncio.CancelledError:
        # The change would stay in the object if the task ended in the middle of this.
        await asyncio.wait({back})
        listener.interrupted(f"It was {_went_back(change, back.result())}")
        raise
    words = _went_back(change, problem)
    return words if problem else f"{words}{await _partly(change.gpu, waiting)}"


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
    except (ChangeError, KubeError) as error:
        return f". Whether a part of the change was made is not known: {error}"
    if (was := _state(before)) == (is_now := _state(now)):
        return ", and the GPU was not changed"
    return f". A part of the change was made: the GPU was {was}, and is {is_now} now"


def _state(gpu: Gpu) -> str:
    carried, _ = profiles(gpu)
    functions = f"{len(gpu.device.status.vf_addresses)} virtual functions"
    mode = gpu.device.status.mode or "an unknown mode"
    return f"in {mode} with {functions} and {counts(carried) or 'no vGPU'}"


async def restored(client: Client, change: Change, written: Any) -> str:
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


def in_force(spec: dict[str, Any], *, found: dict[str, Any], refused: bool) -> dict[str, Any]:
    """What is in force for an object's fields: their values, or what exists where they are refused.

    The way back never restores a refused desired state, which could change the hardware later.
    """
    return {key: found[key] for key in spec} if refused else spec
