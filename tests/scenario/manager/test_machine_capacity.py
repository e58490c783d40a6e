"""What a manager says of sets of CAPK's machines, as templates and devices come and go."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from laneway.api import PCIDevice
from laneway.controllers.cluster import machine_capacity
from laneway.core.keys import ANNOTATION_CAPACITY
from laneway.kube.capk import KUBEVIRT_TEMPLATES
from laneway.kube.clusterapi import MACHINE_DEPLOYMENTS, MACHINE_SETS
from laneway.kube.resource import Resource, served
from laneway.simcluster.clusterapi.kubevirt.install import install
from support.capk import NAMESPACE, PREFIX, deployment, template

GPU = "nvidia.com/GA107GL_A2"


@pytest.fixture(autouse=True)
async def kinds(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    await install(world.client)
    monkeypatch.setattr(machine_capacity, "SOON_SECONDS", 0.01)


async def says(
    world: Any, resource: Resource[Any] = MACHINE_DEPLOYMENTS, **expected: str
) -> dict[str, str]:
    """Wait until the annotations for the autoscaler are these, and no others; gives all."""
    wanted = {f"{PREFIX}{key.replace('_', '-')}": one for key, one in expected.items()}
    async with asyncio.timeout(60):
        while True:
            found = (await world.client.get(resource, "gpu", NAMESPACE)).metadata.annotations
            if {key: one for key, one in found.items() if key.startswith(PREFIX)} == wanted:
                return dict(found)
            await asyncio.sleep(0.02)


async def make(world: Any, body: dict[str, Any]) -> Any:
    resources = (KUBEVIRT_TEMPLATES, MACHINE_DEPLOYMENTS, MACHINE_SETS)
    [resource] = [one for one in resources if one.type.__name__ == body["kind"]]
    return await world.client.create(resource, body, NAMESPACE)


async def test_a_template_and_its_devices_may_come_later(world: Any) -> None:
    await make(world, deployment("gpu", 0, "whole"))
    await world.leads(await world.manager(machine_capacity=True))
    await make(world, template("whole", GPU))
    await says(world, cpu="2", memory="2Gi")

    # Whether the device is a GPU is known once a node has one.
    name = "node1-000008000"
    about = {"apiVersion": "devices.harvesterhci.io/v1beta1", "kind": "PCIDevice"}
    await world.client.create(served(PCIDevice), {**about, "metadata": {"name": name}})
    status = {"vendorId": "10de", "classId": "0302", "resourceName": GPU}
    await world.client.patch(served(PCIDevice), name, {"status": status}, subresource="status")
    await says(world, cpu="2", memory="2Gi", gpu_type="nvidia.com/gpu", gpu_count="1")


async def test_a_machine_set_of_no_deployment_says_it_itself(world: Any) -> None:
    await make(world, template("vgpu", "nvidia.com/NVIDIA_A2-4Q"))
    parent = await make(world, deployment("parent", 0, "vgpu"))
    owner = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment"}
    owner |= {"name": "parent", "uid": parent.metadata.uid}
    single, owned = (deployment(one, 0, "vgpu") for one in ("gpu", "owned"))
    owned["metadata"]["ownerReferences"] = [owner | {"controller": True}]
    for one in (owned, single):
        await make(world, one | {"kind": "MachineSet"})
    await world.leads(await world.manager(machine_capacity=True))
    said = {"gpu_type": "nvidia.com/gpu", "gpu_count": "1"}
    await says(world, MACHINE_SETS, cpu="2", memory="2Gi", **said)
    found = await world.client.get(MACHINE_SETS, "owned", NAMESPACE)
    assert found.metadata.annotations == {}


async def test_without_the_option_nothing_is_said(world: Any) -> None:
    await make(world, template("vgpu", "nvidia.com/NVIDIA_A2-4Q"))
    await make(world, deployment("gpu", 0, "vgpu"))
    manager = await world.manager()
    await world.leads(manager)
    await world.rest(manager)
    assert ANNOTATION_CAPACITY not in await says(world)
