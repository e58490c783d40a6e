"""What a takeover changes, as it was: one ConfigMap, written before anything is changed.

The record is complete before the first change, and what it holds is never replaced by something
that a takeover has changed already. So an interrupted takeover begins again, and loses nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from laneway.api import ObjectMeta
from laneway.controllers.doctor.harvester import HOOKS, NAMESPACE, PARKED, RECORD
from laneway.controllers.doctor.objects import WorkloadObject
from laneway.core.raw import JsonObject, members
from laneway.kube.client import Client
from laneway.kube.errors import NotFoundError
from laneway.kube.resource import KubeObject, Resource

_DAEMON_SET = "daemonset.json"
_OF_SERVER = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "managedFields",
    "selfLink",
)


class ConfigMap(msgspec.Struct, frozen=True, kw_only=True):
    """A ConfigMap: text by key."""

    metadata: ObjectMeta = ObjectMeta()
    data: Mapping[str, str] = {}


CONFIG_MAPS = Resource("", "v1", "configmaps", True, ConfigMap, "ConfigMap")


class Untouched(msgspec.Struct, frozen=True):
    """An object as the server has it, field by field."""

    metadata: ObjectMeta
    raw: JsonObject


async def read(client: Client) -> ConfigMap | None:
    """The record, if there is one."""
    try:
        return await client.get(CONFIG_MAPS, RECORD, NAMESPACE)
    except NotFoundError:
        return None


async def save(client: Client, data: Mapping[str, str]) -> None:
    """Add to the record, or begin it. Raises ConflictError when another client does so, too."""
    stored = await read(client)
    if stored is None:
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": RECORD},
            "data": dict(data),
        }
        await client.create(CONFIG_MAPS, body, NAMESPACE)
    elif any(stored.data.get(key) != text for key, text in data.items()):
        meta = {"resourceVersion": stored.metadata.resource_version}
        body = {"metadata": meta, "data": dict(data)}
        await client.patch(CONFIG_MAPS, RECORD, body, NAMESPACE)


async def untouched(client: Client, resource: Resource[KubeObject], name: str) -> Untouched | None:
    """An object with all of its fields, if it is there."""
    try:
        raw = msgspec.json.decode(await client.raw(resource.path("", name)))
    except NotFoundError:
        return None
    return Untouched(msgspec.convert(raw["metadata"], ObjectMeta), raw)


def of_daemon_set(daemon_set: WorkloadObject) -> dict[str, str]:
    """What is changed of the DaemonSet, as it was without a takeover."""
    selector = dict(daemon_set.spec.template.spec.node_selector or {})
    selector.pop(PARKED, None)
    reported = {"nodeSelector": selector, "images": [*_images(daemon_set)]}
    return {_DAEMON_SET: msgspec.json.encode(reported).decode()}


def _images(daemon_set: WorkloadObject) -> list[str]:
    return [one.image for one in daemon_set.spec.template.spec.containers]


def of_hook(resource: Resource[KubeObject], found: Untouched) -> dict[str, str]:
    """A webhook configuration that is to be removed, so that it can be made again."""
    meta = {
        key: value for key, value in members(found.raw["metadata"]).items() if key not in _OF_SERVER
    }
    body = {**found.raw, "metadata": meta}
    return {_key(resource): msgspec.json.encode(body).decode()}


def hooks(stored: ConfigMap) -> list[tuple[Resource[KubeObject], JsonObject]]:
    """The webhook configurations of the record."""
    return [
        (resource, msgspec.json.decode(stored.data[_key(resource)]))
        for resource, _ in HOOKS
        if _key(resource) in stored.data
    ]


def _key(resource: Resource[KubeObject]) -> str:
    return f"{resource.kind.lower()}.json"
