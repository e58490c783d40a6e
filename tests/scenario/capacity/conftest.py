"""Devices, VMs and pods without a controller: objects as a test writes them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from laneway.api import CoreNode, PCIDeviceClaim, USBDeviceClaim, VGPUDevice
from laneway.kube.kubevirt import INSTANCES, VIRTUAL_MACHINES
from laneway.kube.pods import PODS
from laneway.kube.resource import Resource, served
from laneway.simcluster.kubevirt.install import install
from support.commands import Laneway, shell

SMALL, CARD = "nvidia.com/NVIDIA_A2-2Q", "nvidia.com/AD104GL_L4"
READY = {"type": "Advertised", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
NAMESPACE = "default"


class Objects:
    """Makes objects."""

    small, card = SMALL, CARD

    def __init__(self, client: Any) -> None:
        self.client = client

    async def put(self, resource: Resource[Any], name: str, **parts: Any) -> None:
        """Create an object and write its status."""
        status = parts.pop("status", None)
        meta = {"name": name, **parts.pop("metadata", {})}
        kind = resource.kind or resource.type.__name__
        body = {"apiVersion": resource.api_version, "kind": kind, "metadata": meta, **parts}
        namespace = NAMESPACE if resource.namespaced else ""
        await self.client.create(resource, body, namespace)
        if status is not None:
            await self.status(resource, name, **status)

    async def status(self, resource: Resource[Any], name: str, **status: Any) -> None:
        namespace = NAMESPACE if resource.namespaced else ""
        body = {"status": status}
        # Instances have no subresource: KubeVirt's own parts are the only ones that write them.
        sub = "" if resource is INSTANCES else "status"
        await self.client.patch(resource, name, body, namespace, subresource=sub)

    async def node(self, name: str, *, cordoned: bool = False, **labels: str) -> None:
        spec = {"unschedulable": True} if cordoned else {}
        await self.put(served(CoreNode), name, metadata={"labels": labels}, spec=spec)

    async def vgpus(self, node: str, count: int, owner: str = "") -> None:
        """Mediated devices; `owner` is a VM that has all of them."""
        for number in range(count):
            allocation = {"namespace": NAMESPACE, "pod": f"{owner}-x", "virtualMachine": owner}
            await self.put(
                served(VGPUDevice),
                f"{node}-00000800{number}",
                metadata={"labels": {"nodename": node}},
                spec={"nodeName": node, "enabled": True, "vGPUTypeName": "NVIDIA A2-2Q"},
                status={
                    "vGPUStatus": "vGPUConfigured",
                    "configureVGPUTypeName": "NVIDIA A2-2Q",
                    "framework": "mdev",
                    "resourceName": SMALL,
                    "conditions": [READY],
                    **({"allocation": allocation} if owner else {}),
                },
            )

    async def claim(self, node: str, name: str, **status: Any) -> None:
        """A card that is claimed."""
        reported = {"resourceName": CARD, "conditions": [READY], **status}
        spec = {"address": "0000:17:00.0", "nodeName": node, "userName": "admin"}
        await self.put(served(PCIDeviceClaim), f"{node}-{name}", spec=spec, status=reported)

    async def usb_claim(self, node: str, name: str) -> None:
        reported = {"nodeName": node, "resourceName": f"kubevirt.io/{name}", "conditions": [READY]}
        await self.put(served(USBDeviceClaim), name, spec={"userName": "admin"}, status=reported)

    async def vm(
        self, name: str, resources: Sequence[str], *, running: bool = False, **meta: Any
    ) -> None:
        domain = {"devices": _devices(resources)}
        spec = {"running": running, "template": {"spec": {"domain": domain}}}
        await self.put(VIRTUAL_MACHINES, name, metadata=meta, spec=spec)

    async def instance(
        self, name: str, resources: Sequence[str], phase: str, node: str = ""
    ) -> None:
        spec = {"domain": {"devices": _devices(resources)}}
        status = {"phase": phase, "nodeName": node}
        await self.put(INSTANCES, name, spec=spec, status=status)

    async def pod(self, name: str, resource: str, node: str, phase: str = "Running") -> None:
        limits = {"limits": {resource: "1"}, "requests": {resource: "1"}}
        container = {"name": "c", "image": "i", "resources": limits}
        spec = {"nodeName": node, "containers": [container]}
        await self.put(PODS, name, spec=spec, status={"phase": phase})


def _devices(resources: Sequence[str]) -> dict[str, Any]:
    asked = [{"name": f"d{n}", "deviceName": one} for n, one in enumerate(resources)]
    return {"hostDevices": asked, "disks": [], "interfaces": []}


@pytest.fixture
def bare(cluster: Any) -> Objects:
    """A cluster without KubeVirt."""
    return Objects(cluster.client)


@pytest.fixture
async def objects(kubevirt_installed: Path, bare: Objects) -> Objects:
    """A cluster with KubeVirt's kinds."""
    await install(bare.client)
    return bare


@pytest.fixture
def laneway(tmp_path: Path) -> Laneway:
    """Runs a command against the cluster."""
    real = "LANEWAY_REALAPI" in os.environ
    return shell(os.environ.get("KUBECONFIG", "") if real else str(tmp_path / "kubeconfig"))
