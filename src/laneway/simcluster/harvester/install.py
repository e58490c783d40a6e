"""Puts Harvester's kinds on an API server: settings, images, key pairs, and networks of VMs.

Networks are the kind of the Network Plumbing Working Group, which Harvester uses. There is an image
and a network, so that a machine can be made.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import msgspec

from laneway.api import ObjectMeta
from laneway.core.raw import JsonObject
from laneway.kube.client import Client
from laneway.kube.errors import AlreadyExistsError, NotFoundError
from laneway.kube.resource import Resource


class Plain(msgspec.Struct, frozen=True, rename="camel"):
    """An object, as far as it is read back."""

    metadata: ObjectMeta = ObjectMeta()
    status: JsonObject = {}


GROUP = "harvesterhci.io"
SETTINGS = Resource(GROUP, "v1beta1", "settings", False, Plain, "Setting")
IMAGES = Resource(GROUP, "v1beta1", "virtualmachineimages", True, Plain, "VirtualMachineImage")
KEY_PAIRS = Resource(GROUP, "v1beta1", "keypairs", True, Plain, "KeyPair")
NETWORKS = Resource(
    "k8s.cni.cncf.io",
    "v1",
    "network-attachment-definitions",
    True,
    Plain,
    "NetworkAttachmentDefinition",
)
KINDS = (SETTINGS, IMAGES, KEY_PAIRS, NETWORKS)
VERSION = "v1.8.0"
"""Of the Harvester that this is taken for."""
NAMESPACE = "default"
IMAGE, NETWORK = "ubuntu", "vlan1"
CLASS = "longhorn-ubuntu"
"""The storage class of the image."""
STORAGE_CLASSES = Resource("storage.k8s.io", "v1", "storageclasses", False, Plain, "StorageClass")
_CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", False, Plain)
_ANY = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_TEXT = {"type": "string"}
_SERVED_SECONDS = 60.0


async def install(client: Client) -> None:
    """Create what is missing. Raises KubeError, and TimeoutError if the kinds are never served."""
    for kind in KINDS:
        with contextlib.suppress(AlreadyExistsError):
            await client.create(_CRDS, _definition(kind))
    async with asyncio.timeout(_SERVED_SECONDS):
        await make(client, SETTINGS, "server-version", value=VERSION)
        await make(client, IMAGES, IMAGE)
        status = {"status": {"storageClassName": CLASS}}
        await client.patch(IMAGES, IMAGE, status, NAMESPACE, subresource="status")
        await make(client, NETWORKS, NETWORK, spec={"config": "{}"})
        await make(client, STORAGE_CLASSES, CLASS, provisioner="driver.longhorn.io")


async def make(client: Client, resource: Resource[Any], name: str, **fields: Any) -> None:
    """Create an object that may exist. A new kind is served a moment after its definition."""
    about = {"apiVersion": resource.api_version, "kind": resource.kind}
    body = {**about, "metadata": {"name": name}, **fields}
    while True:
        try:
            await client.create(resource, body, NAMESPACE if resource.namespaced else "")
        except AlreadyExistsError:
            return
        except NotFoundError:
            await asyncio.sleep(0.05)
        else:
            return


def _definition(kind: Resource[Any]) -> dict[str, Any]:
    properties: dict[str, Any] = {"spec": _ANY, "status": _ANY}
    if kind is SETTINGS:
        properties = {"value": _TEXT, "default": _TEXT, "status": _ANY}
    version = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
    }
    if kind is not NETWORKS and kind is not SETTINGS:
        version["subresources"] = {"status": {}}
    return {
        "metadata": {"name": str(kind)},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "names": {
                "kind": kind.kind,
                "plural": kind.plural,
                "singular": kind.kind.lower(),
            },
            "versions": [version],
        },
    }
