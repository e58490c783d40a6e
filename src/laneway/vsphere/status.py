"""Writes the status of objects of CAPV's, by server-side apply, and only when it is another.

What Laneway says is Laneway's (`laneway-vsphere`), and what it no longer says goes. CAPV's own
definitions do not know the list of devices, nor a machine's failure domain, and refuse an apply
with them: there they are left out.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from laneway.api import Condition
from laneway.kube.client import Client, PatchType
from laneway.kube.errors import ApiError
from laneway.kube.resource import Resource, T

FIELD_MANAGER = "laneway-vsphere"
AGAIN_SECONDS = 600.0
"""When a definition that did not know the list may be another one."""
_DEVICES = "pciDevices"
_UNKNOWN = "field not declared in schema"


async def apply(
    client: Client,
    resource: Resource[T],
    obj: T,
    status: Mapping[str, Any],
    *,
    manager: str = FIELD_MANAGER,
) -> T:
    """Have the status of an object be this, as far as it is `manager`'s. Raises ConflictError."""
    meta: Any = obj.metadata
    written = {name: value for name, value in status.items() if value not in ("", [], None)}
    if not written:
        return obj
    identity = {"name": meta.name, "uid": meta.uid}
    if resource.namespaced:
        identity["namespace"] = meta.namespace
    body = {
        "apiVersion": resource.api_version,
        "kind": resource.kind or resource.type.__name__,
        "metadata": identity,
        "status": written,
    }
    return await client.patch(
        resource,
        meta.name,
        body,
        meta.namespace,
        patch_type=PatchType.APPLY,
        subresource="status",
        field_manager=manager,
        force=True,
    )


class Statuses:
    """Applies a status with the fields of Laneway's own, as far as the definition knows them."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._plain: dict[str, float] = {}
        """The kinds whose definitions do not know these, and when that is tried again."""

    def is_plain(self, resource: Resource[T]) -> bool:
        """Whether the definition of a kind did not know these fields when it was last asked."""
        return time.monotonic() < self._plain.get(str(resource), 0.0)

    async def apply(
        self,
        resource: Resource[T],
        obj: T,
        status: Mapping[str, Any],
        devices: Sequence[Any],
        failure_domain: str = "",
    ) -> T:
        """Have the status of an object be this. Raises ConflictError."""
        own = {_DEVICES: [*devices], "failureDomain": failure_domain}
        if any(own.values()) and not self.is_plain(resource):
            try:
                return await apply(self._client, resource, obj, {**status, **own})
            except ApiError as error:
                if _UNKNOWN not in error.message:
                    raise
                self._plain[str(resource)] = time.monotonic() + AGAIN_SECONDS
        return await apply(self._client, resource, obj, status)


def as_json(conditions: Sequence[Condition]) -> list[dict[str, Any]]:
    """Conditions with every field that must be there.

    A generation is only written where there is one: `kubectl wait` takes 0 for long out of date.
    """
    return [{"message": "", **msgspec.to_builtins(one)} for one in conditions]


async def show_devices(
    client: Client, resource: Resource[T], obj: T, devices: Sequence[object]
) -> None:
    """Have the status list the devices, where the definition has room for it."""
    meta = obj.metadata
    body = {"status": {_DEVICES: msgspec.to_builtins(list(devices)) or None}}
    await client.patch(
        resource,
        meta.name or "",
        body,
        meta.namespace or "",
        subresource="status",
        field_manager=FIELD_MANAGER,
    )
