"""Puts the kinds of Rancher on an API server, as far as machine pools need them.

Rancher makes the definition of a machine configuration from the flags of its driver: a field for
each, all texts but switches; a field of another name is dropped when an object is stored.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

import msgspec

from laneway.api import ObjectMeta
from laneway.kube import rancher
from laneway.kube.client import Client
from laneway.kube.errors import AlreadyExistsError
from laneway.kube.resource import Resource

_TEXTS = (
    "cloudConfig",
    "clusterId",
    "clusterName",
    "clusterType",
    "cpuCount",
    "cpuModel",
    "diskBus",
    "diskInfo",
    "diskSize",
    "imageName",
    "keyPairName",
    "kubeconfigContent",
    "memorySize",
    "networkData",
    "networkInfo",
    "networkModel",
    "networkName",
    "networkType",
    "reservedMemorySize",
    "sshPassword",
    "sshPort",
    "sshPrivateKeyPath",
    "sshUser",
    "userData",
    "vgpuInfo",
    "vmAffinity",
    "vmNamespace",
)
_SWITCHES = ("cpuPinning", "enableEfi", "enableSecureBoot", "enableTpm", "isolateEmulatorThread")
_OF_LANEWAY = ("hostDeviceInfo",)
"""What Laneway's driver has in addition to Harvester's."""
_ANY = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


class _Named(msgspec.Struct, frozen=True):
    """A definition, as far as it is read back."""

    metadata: ObjectMeta = ObjectMeta()


_CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", False, _Named)


async def install(client: Client) -> None:
    """Create what is missing. Raises KubeError. A server serves a new kind a moment later."""
    for crd in definitions():
        with contextlib.suppress(AlreadyExistsError):
            await client.create(_CRDS, crd)


def definitions() -> Iterable[dict[str, Any]]:
    """The definitions that a management cluster has."""
    yield _crd(rancher.GUEST_CLUSTERS, {"spec": _ANY, "status": _ANY})
    yield _crd(rancher.HARVESTER_CONFIGS, _fields(_TEXTS))
    yield _crd(rancher.LANEWAY_CONFIGS, _fields((*_TEXTS, *_OF_LANEWAY)))
    for machines in rancher.INFRA_MACHINES.values():
        yield _crd(machines, {"spec": _ANY, "status": _ANY})


def _fields(texts: Iterable[str]) -> dict[str, Any]:
    switch, text = ({"type": kind, "nullable": True} for kind in ("boolean", "string"))
    return {
        **dict.fromkeys(_SWITCHES, switch),
        **dict.fromkeys(texts, text),
        "common": _ANY,
    }


def _crd(resource: Resource[Any], fields: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "properties": fields}
    version = {"name": resource.version, "served": True, "storage": True}
    return {
        "metadata": {"name": str(resource)},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced",
            "names": {
                "kind": resource.kind,
                "plural": resource.plural,
                "singular": resource.kind.lower(),
            },
            "versions": [{**version, "schema": {"openAPIV3Schema": schema}}],
        },
    }
