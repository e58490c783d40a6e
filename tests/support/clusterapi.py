"""A cluster with simulated Cluster API, and a test in the place of the infrastructure provider."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from laneway.api import ObjectMeta
from laneway.kube.client import Client
from laneway.kube.informer import Informer
from laneway.kube.resource import Resource
from laneway.simcluster.clusterapi import objects

SECONDS = 60.0
NAMESPACE = "default"


class Plain(msgspec.Struct, frozen=True, kw_only=True):
    """Any object, as JSON."""

    metadata: ObjectMeta = ObjectMeta()
    spec: Mapping[str, Any] = {}
    status: Mapping[str, Any] = {}
    data: Mapping[str, str] = {}


def plain(known: Resource[Any]) -> Resource[Plain]:
    """A resource whose objects are seen as they are."""
    kind = known.kind or known.type.__name__
    return Resource(known.group, known.version, known.plural, known.namespaced, Plain, kind)


MACHINES = plain(objects.MACHINES)
SETS = plain(objects.SETS)
DEPLOYMENTS = plain(objects.DEPLOYMENTS)
CLUSTERS = plain(objects.CLUSTERS)
VSPHERE_MACHINES = plain(objects.VSPHERE_MACHINES)
VSPHERE_CLUSTERS = plain(objects.VSPHERE_CLUSTERS)
TEMPLATES = plain(objects.VSPHERE_TEMPLATES)
VSPHERE_VMS = plain(objects.VSPHERE_VMS)
SECRETS = plain(objects.SECRETS)


class Watched:
    """All objects of a resource, and waiting for what is to become of them."""

    def __init__(self, client: Client, resource: Resource[Plain]) -> None:
        self.informer = Informer(client, resource)
        self._changed = asyncio.Event()
        self.informer.subscribe(lambda _old, _new: self._changed.set())

    @property
    def all(self) -> list[Plain]:
        return sorted(self.informer.store, key=lambda one: one.metadata.name)

    async def until(self, holds: Callable[[list[Plain]], bool]) -> list[Plain]:
        """All of them, as soon as they are as a test expects."""
        try:
            async with asyncio.timeout(SECONDS):
                while not holds(self.all):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"it never came true of {self.all}") from None
        return self.all

    async def first(self, holds: Callable[[Plain], object]) -> Plain:
        """The first of them by name, as soon as it is as a test expects."""
        return (await self.until(lambda all_: bool(all_) and bool(holds(all_[0]))))[0]


class Provider:
    """The infrastructure provider, as far as a test plays it."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def cluster(self, name: str = "c1") -> None:
        """The VSphereCluster is there."""
        await self._patch(VSPHERE_CLUSTERS, name, {"initialization": {"provisioned": True}})

    async def powered_on(self, machine: Plain, gpus: int = 0, address: str = "192.0.2.9") -> None:
        """A VSphereMachine's VM is on, has its devices and an address."""
        name = machine.metadata.name
        spec = {"spec": {"providerID": f"vsphere://{name}"}}
        await self.client.patch(VSPHERE_MACHINES, name, spec, NAMESPACE)
        seat = {"asked": "10de:1eb8", "state": "InUse", "host": "esx1"}
        status = {
            "conditions": [_condition("PCIDevicesReady", "True", "InUse")],
            "initialization": {"provisioned": True},
            "addresses": [{"type": "InternalIP", "address": address}],
            "pciDevices": [seat] * gpus,
        }
        await self._patch(VSPHERE_MACHINES, name, status)

    async def lost(self, machine: Plain, message: str) -> None:
        """A machine's device is gone while its VM is on."""
        status = {
            "pciDevices": [{"asked": "10de:1eb8", "state": "Missing"}],
            "conditions": [
                _condition(kind, "False", "PCIDevicesMissing", message)
                for kind in ("PCIDevicesReady", "Ready")
            ],
        }
        await self._patch(VSPHERE_MACHINES, machine.metadata.name, status)

    async def _patch(self, resource: Resource[Plain], name: str, status: dict[str, Any]) -> None:
        await self.client.patch(resource, name, {"status": status}, NAMESPACE, subresource="status")


def _condition(kind: str, status: str, reason: str, message: str = "") -> dict[str, Any]:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": "2026-11-22T00:00:00Z",
    }


def cluster(name: str = "c1") -> dict[str, Any]:
    ref = {"apiGroup": objects.VSPHERE_CLUSTERS.group, "kind": "VSphereCluster", "name": name}
    return {"metadata": {"name": name}, "spec": {"infrastructureRef": ref}}


def vsphere_cluster(name: str = "c1") -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"server": "vcenter.example.com"}}


def template(name: str, *devices: dict[str, Any]) -> dict[str, Any]:
    spec = {
        "template": "ubuntu",
        "numCPUs": 4,
        "memoryMiB": 8192,
        "network": {"devices": [{"networkName": "VM Network", "dhcp4": True}]},
        "pciDevices": list(devices),
    }
    return {"metadata": {"name": name}, "spec": {"template": {"spec": spec}}}


def deployment(name: str, of: str, replicas: int = 1, **more: Any) -> dict[str, Any]:
    group = objects.VSPHERE_TEMPLATES.group
    ref = {"apiGroup": group, "kind": "VSphereMachineTemplate", "name": of}
    machine = {"clusterName": "c1", "bootstrap": {}, "infrastructureRef": ref, "version": "v1.34.2"}
    return {
        "metadata": {"name": name},
        "spec": {
            "clusterName": "c1",
            "replicas": replicas,
            "selector": {"matchLabels": {"pool": name}},
            "template": {"metadata": {"labels": {"pool": name}}, "spec": machine},
            **more,
        },
    }
