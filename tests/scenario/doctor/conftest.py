"""Clusters to examine, Harvester's controller played by the test, and a person at a shell."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from laneway.api import PCIDevice, PCIDeviceClaim, VGPUDevice
from laneway.controllers.doctor.harvester import DAEMON_SET, HOOKS, NAMESPACE
from laneway.controllers.doctor.objects import DAEMON_SETS, WorkloadObject
from laneway.controllers.takeover import steps
from laneway.core import keys
from laneway.kube.kubevirt import KUBEVIRTS
from laneway.kube.resource import served
from support.worlds import SimNode, World

IMAGE = "rancher/harvester-pcidevices:v1.8.1"
SELECTOR = {"app.kubernetes.io/name": "harvester-pcidevices-controller"}


@pytest.fixture
def beginning(kubevirt_installed: Path) -> Path:
    """Every test finds KubeVirt's kinds."""
    return kubevirt_installed


class Harvester:
    """Harvester's controller in the cluster, as far as others can see it; nothing of it works."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.task: asyncio.Task[None] | None = None

    async def start(self, nodes: int = 1) -> None:
        """Its DaemonSet, with the cluster's controller for such, and its webhooks."""
        container = {"name": "agent", "image": IMAGE}
        template = {"metadata": {"labels": SELECTOR}, "spec": {"containers": [container]}}
        meta = {"name": DAEMON_SET}
        spec = {"selector": {"matchLabels": SELECTOR}, "template": template}
        await self.client.create(
            DAEMON_SETS,
            {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": meta, "spec": spec},
            NAMESPACE,
        )
        for resource, name in HOOKS:
            await self.client.create(resource, self.configuration(resource.kind, name))
        await self._say(nodes)
        self.task = asyncio.create_task(self._place(nodes))

    @staticmethod
    def configuration(kind: str, name: str) -> dict[str, Any]:
        hook = {
            "name": "pcidevices.harvesterhci.io",
            "failurePolicy": "Ignore",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {
                "service": {"namespace": NAMESPACE, "name": "pcidevices-webhook", "port": 443},
                "caBundle": "Q0E=",
            },
        }
        return {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": name, "labels": {"kept": "yes"}},
            "webhooks": [hook],
        }

    async def daemon_set(self) -> WorkloadObject:
        found: WorkloadObject = await self.client.get(DAEMON_SETS, DAEMON_SET, NAMESPACE)
        return found

    async def _place(self, nodes: int) -> None:
        """What the cluster's DaemonSet controller does: pods only where the selector is met."""
        while True:
            found = await self.daemon_set()
            parked = bool(found.spec.template.spec.node_selector)
            if found.status.observed_generation != found.metadata.generation:
                await self._say(0 if parked else nodes)
            await asyncio.sleep(0.05)  # no watch: the embedded server has no such controller

    async def _say(self, nodes: int) -> None:
        found = await self.daemon_set()
        status = {
            "observedGeneration": found.metadata.generation,
            "desiredNumberScheduled": nodes,
            "currentNumberScheduled": nodes,
            "numberMisscheduled": 0,
            "numberReady": nodes,
        }
        await self.client.patch(
            DAEMON_SETS, DAEMON_SET, {"status": status}, NAMESPACE, subresource="status"
        )

    async def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self.task

    # ---- its objects

    async def owns(
        self, world: World, node: SimNode, claims: Sequence[str] = (), vgpus: Sequence[str] = ()
    ) -> None:
        """Have everything look as if Harvester's controller had done it, and Laneway never was."""
        await world.kill_agent(node)
        shutil.rmtree(node.folder / "state", ignore_errors=True)
        for name in claims:
            device = await self.client.get(served(PCIDevice), name)
            path = f"/sys/bus/pci/devices/{device.status.address}/driver_override"
            node.host.write(path, "\n")  # it gave vfio-pci the model's ids instead
            driver = device.metadata.annotations[keys.ANNOTATION_DRIVER]
            await self._only(
                PCIDeviceClaim,
                name,
                {"kernelDriverToUnbind": driver, "passthroughEnabled": True},
            )
            await self._only(
                PCIDevice,
                name,
                {
                    "address": device.status.address,
                    "vendorId": device.status.vendor_id,
                    "deviceId": device.status.device_id,
                    "classId": device.status.class_id,
                    "iommuGroup": device.status.iommu_group,
                    "nodeName": device.status.node_name,
                    "resourceName": device.status.resource_name,
                    "description": device.status.description,
                    "kernelDriverInUse": "vfio-pci",
                },
            )
        for name in vgpus:
            vgpu = await self.client.get(served(VGPUDevice), name)
            await self._only(
                VGPUDevice,
                name,
                {
                    "vGPUStatus": "vGPUConfigured",
                    "uuid": vgpu.status.uuid,
                    "configureVGPUTypeName": vgpu.status.configure_vgpu_type_name,
                    "availableTypes": dict(vgpu.status.available_types),
                },
            )
            if vgpu.status.framework == "vendor-vfio":  # Others never had a claim.
                reported = {"kernelDriverToUnbind": "nvidia", "passthroughEnabled": True}
                await self._only(PCIDeviceClaim, name, reported)
        annotations = {"annotations": {keys.ANNOTATION_PERMITTED: None}}
        await self.client.patch(KUBEVIRTS, "kubevirt", {"metadata": annotations}, NAMESPACE)

    async def _only(self, kind: Any, name: str, status: dict[str, Any]) -> None:
        """A status of exactly these fields."""
        old = msgspec_names(await self.client.get(served(kind), name))
        nothing = {field: None for field in old if field not in status}
        await self.client.patch(
            served(kind), name, {"status": nothing | status}, subresource="status"
        )


def msgspec_names(obj: Any) -> list[str]:
    """The JSON names of all fields that a status can have."""
    return list(type(obj.status).__struct_encode_fields__)


@pytest.fixture
async def harvester(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Harvester]:
    monkeypatch.setattr(steps, "LOOK_SECONDS", 0.05)  # what is played here is done at once
    played = Harvester(cluster.client)
    yield played
    await played.stop()


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], list[tuple[str, str]]]:
    """Every write to a simulated host from now on, and every program that is run there."""

    def begin(host: Any) -> list[tuple[str, str]]:
        seen: list[tuple[str, str]] = []
        write, within, run = host.write, host.write_within, host.run

        def written(path: str, data: str) -> None:
            seen.append((path, data))
            write(path, data)

        async def written_within(path: str, data: str, seconds: float) -> None:
            seen.append((path, data))
            await within(path, data, seconds)

        async def ran(argv: Any, seconds: float) -> Any:
            if not _asks(argv):
                seen.append((argv[0], " ".join(argv[1:])))
            return await run(argv, seconds)

        monkeypatch.setattr(host, "write", written)
        monkeypatch.setattr(host, "write_within", written_within)
        monkeypatch.setattr(host, "run", ran)
        return seen

    return begin


def _asks(argv: Any) -> bool:
    """Whether a program only reads."""
    return any(
        word.startswith("--query") or word in ("-q", "-lgi", "-lci", "-lgip") for word in argv
    )


@pytest.fixture
def kubeconfig(tmp_path: Path) -> str:
    assert "LANEWAY_REALAPI" not in os.environ
    return str(tmp_path / "kubeconfig")
