"""Writes that these controllers have in common: statuses, finalizers, the end of an object."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from laneway.api import Condition, ObjectMeta, set_condition, timestamp
from laneway.core.raw import Json, JsonObject
from laneway.kube.client import Client
from laneway.kube.errors import ConflictError, NotFoundError
from laneway.kube.resource import KubeObject, Resource


async def create(
    client: Client, resource: Resource[KubeObject], body: JsonObject, namespace: str = ""
) -> None:
    """Make an object. Raises AlreadyExistsError, InvalidError."""
    kind = resource.kind or resource.type.__name__
    about = {"apiVersion": resource.api_version, "kind": kind}
    await client.create(resource, {**about, **body}, namespace)


async def write_status(
    client: Client, resource: Resource[KubeObject], obj: Any, *conditions: Condition, **fields: Json
) -> None:
    """Have an object's status say so; write nothing where it does. Fields are named as in JSON."""
    before: JsonObject = msgspec.to_builtins(obj.status)
    body: dict[str, Json] = {
        name: value for name, value in fields.items() if not _says(before.get(name), value)
    }
    now = timestamp(datetime.now(UTC))
    after: Sequence[Condition] = obj.status.conditions
    for one in conditions:
        after = set_condition(after, one, now)
    if list(after) != list(obj.status.conditions):
        body["conditions"] = [_whole(one) for one in after]
    if not body:
        return
    meta: ObjectMeta = obj.metadata
    patch = {"metadata": {"uid": meta.uid}, "status": body}
    with contextlib.suppress(ConflictError, NotFoundError):  # gone; its name perhaps reused
        await client.patch(resource, meta.name, patch, meta.namespace, subresource="status")


def _says(before: Json, wanted: Json) -> bool:
    if isinstance(before, dict) and isinstance(wanted, dict):
        return all(before.get(name) == value for name, value in wanted.items())
    return bool(before == wanted)


def _whole(one: Condition) -> JsonObject:
    """With the fields that Cluster API requires, empty ones as well."""
    return {"reason": one.status, "message": "", **msgspec.to_builtins(one)}


async def hold(
    client: Client, resource: Resource[KubeObject], meta: ObjectMeta, finalizer: str
) -> None:
    """Have an object wait for us when it is deleted."""
    if finalizer not in meta.finalizers:
        await _finalizers(client, resource, meta, [*meta.finalizers, finalizer])


async def let_go(
    client: Client, resource: Resource[KubeObject], meta: ObjectMeta, finalizer: str
) -> None:
    """Let an object go that waited for us."""
    if finalizer in meta.finalizers:
        left = [one for one in meta.finalizers if one != finalizer]
        with contextlib.suppress(NotFoundError):
            await _finalizers(client, resource, meta, left)


async def _finalizers(
    client: Client, resource: Resource[KubeObject], meta: ObjectMeta, finalizers: list[str]
) -> None:
    metadata = {"finalizers": finalizers, "resourceVersion": meta.resource_version}
    await client.patch(resource, meta.name, {"metadata": metadata}, meta.namespace)


async def remove(client: Client, resource: Resource[KubeObject], meta: ObjectMeta) -> None:
    """Delete an object, if it still is the one that is meant, and not on its way out."""
    if not meta.deletion_timestamp:
        with contextlib.suppress(ConflictError, NotFoundError):
            await client.delete(resource, meta.name, meta.namespace, uid=meta.uid)
