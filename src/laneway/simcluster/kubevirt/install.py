"""Puts KubeVirt's kinds on an API server, and the object by which it is configured.

What is there already is left as it is: it may be a real KubeVirt's, or changed by a person.
"""

from __future__ import annotations

import asyncio
import contextlib

import msgspec

from laneway.api import ObjectMeta
from laneway.kube.client import Client
from laneway.kube.errors import AlreadyExistsError, NotFoundError
from laneway.kube.kubevirt import KUBEVIRTS, MIGRATIONS
from laneway.kube.resource import Resource
from laneway.simcluster.definitions import install_missing
from laneway.simcluster.kubevirt.objects import INSTANCES, VMS

NAMESPACE = "harvester-system"
NAME = "kubevirt"
_FEATURE_GATES = ["HostDevices", "GPU"]
_SERVED_SECONDS = 60.0


class _Named(msgspec.Struct, frozen=True):
    """Any object, as far as it is read back."""

    metadata: ObjectMeta = ObjectMeta()


_NAMESPACES = Resource("", "v1", "namespaces", False, _Named)


async def install(client: Client) -> None:
    """Create what is missing. Raises KubeError, and TimeoutError if the kinds are never served."""
    names = [str(kind) for kind in (VMS, INSTANCES, MIGRATIONS, KUBEVIRTS)]
    await install_missing(client, __package__, names)
    with contextlib.suppress(AlreadyExistsError):
        await client.create(_NAMESPACES, {"metadata": {"name": NAMESPACE}})
    developer = {"featureGates": _FEATURE_GATES}
    body = {
        "apiVersion": KUBEVIRTS.api_version,
        "kind": KUBEVIRTS.kind,
        "metadata": {"name": NAME},
        "spec": {"configuration": {"developerConfiguration": developer}},
    }
    async with asyncio.timeout(_SERVED_SECONDS):
        while True:
            try:
                await client.create(KUBEVIRTS, body, NAMESPACE)
            except AlreadyExistsError:
                return
            except NotFoundError:
                await asyncio.sleep(0.05)  # a new kind is served a moment after its definition
            else:
                break
    status = {"status": {"phase": "Deployed"}}
    await client.patch(KUBEVIRTS, NAME, status, NAMESPACE, subresource="status")
