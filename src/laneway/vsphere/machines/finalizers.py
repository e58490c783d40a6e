"""The finalizers by which objects wait for us, which are CAPV's own.

So a cluster can change from CAPV to Laneway and back, and no finalizer is left behind.
"""

from __future__ import annotations

import contextlib
from typing import Any

from laneway.kube.capv import GROUP
from laneway.kube.client import Client
from laneway.kube.errors import NotFoundError
from laneway.kube.resource import KubeObject, Resource, T

VM = f"vspherevm.{GROUP}"
MACHINE = f"vspheremachine.{GROUP}"
CLUSTER = f"vspherecluster.{GROUP}"


async def held(client: Client, resource: Resource[T], obj: KubeObject, finalizer: str) -> T:
    """The object, which now waits for us. Raises ConflictError when it has changed meanwhile."""
    return await _write(client, resource, obj, [*_meta(obj).finalizers, finalizer])


async def remove_finalizer(client: Client, resource: Resource[T], obj: T, finalizer: str) -> None:
    """Nothing of the object is left with us. Raises ConflictError."""
    rest = [one for one in _meta(obj).finalizers if one != finalizer]
    with contextlib.suppress(NotFoundError):
        await _write(client, resource, obj, rest)


async def _write(
    client: Client, resource: Resource[T], obj: KubeObject, finalizers: list[str]
) -> T:
    meta = _meta(obj)
    body = {"metadata": {"resourceVersion": meta.resource_version, "finalizers": finalizers}}
    return await client.patch(resource, meta.name, body, meta.namespace)


def _meta(obj: Any) -> Any:
    return obj.metadata
