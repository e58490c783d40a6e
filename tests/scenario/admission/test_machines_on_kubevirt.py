"""Cluster API on KubeVirt: machines with vGPUs, from their template to a pool that is empty."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from laneway.simcluster.clusterapi.kubevirt.install import install
from support.capk import PREFIX, cluster, cluster_api, deployment, template
from support.databases import with_more
from support.kubectl import Kubectl
from support.worlds import World

Q4, RESOURCE = "NVIDIA A2-4Q", "nvidia.com/NVIDIA_A2-4Q"
NO_SURGE = {"maxSurge": 0, "maxUnavailable": 1}
pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def capk_installed(kubevirt_installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What every test of the scenarios finds, and the kinds of Cluster API and CAPK."""
    return with_more(kubevirt_installed, tmp_path_factory.mktemp("capk"), install)


@pytest.fixture
def beginning(capk_installed: Path) -> Path:
    return capk_installed


@pytest.fixture
async def world(cluster: Any, tmp_path: Path) -> AsyncIterator[World]:
    """Scheduler, KubeVirt, manager, Cluster API and CAPK; node1 has two vGPUs and node2 one."""
    world = World(cluster, tmp_path / "world")
    world.machine_capacity = True
    try:
        await world.start()
        for node, vgpus in (("node1", 2), ("node2", 1)):
            await world.add(node, "a2")
            for number in range(vgpus):
                await world.vgpu(f"{node}-00000800{4 + number}", Q4)
            await world.allocatable(node, RESOURCE, vgpus)
        async with cluster_api(cluster.client):
            yield world
    finally:
        await world.stop()


class Pool:
    """A MachineDeployment, and what a test waits for."""

    def __init__(self, admin: Kubectl, name: str = "gpu") -> None:
        self.admin = admin
        self.name = name

    async def machines(self, count: int, memory: str = "2Gi") -> list[Any]:
        """Its VMs, as soon as so many run, all of them of this size, and no others."""
        async with asyncio.timeout(60):
            while True:
                found = (await self.admin.get("virtualmachines"))["items"]
                sizes = [
                    one["spec"]["template"]["spec"]["domain"]["memory"]["guest"] for one in found
                ]
                if sizes == [memory] * count and all(_runs(one) for one in found):
                    return list(found)
                await asyncio.sleep(0.05)

    async def object(self) -> Any:
        return await self.admin.get("machinedeployment", self.name)

    async def capacity(self, **expected: str) -> None:
        """Wait until the annotations for the autoscaler are these, and no others."""
        wanted = {f"{PREFIX}{key.replace('_', '-')}": one for key, one in expected.items()}
        async with asyncio.timeout(60):
            while True:
                there = (await self.object())["metadata"].get("annotations", {})
                found = {key: one for key, one in there.items() if key.startswith(PREFIX)}
                if found == wanted:
                    return
                await asyncio.sleep(0.05)


def _runs(vm: Any) -> bool:
    return vm.get("status", {}).get("printableStatus") == "Running"


def of(name: str) -> dict[str, Any]:
    """A change of a deployment's template."""
    return {"template": {"spec": {"infrastructureRef": {"name": name}}}}


async def test_a_pool_from_its_template_to_the_last_machine(world: World, admin: Kubectl) -> None:
    for one in (*cluster(), template("gpu", RESOURCE)):
        await admin.apply(one)
    pool = Pool(admin)
    more = await admin.not_applied(deployment("gpu", 4, "gpu"))
    assert (
        f'The MachineDeployment "gpu" is invalid: spec.replicas: Invalid value: 4: {RESOURCE}: '
        "1 requested by each of 4 VMs, and there is enough for 3; node node1 has 2 free of 2; "
        "node node2 has 1 free of 1; no other node has any."
    ) in more

    spare = await admin.warned("create", "-f", "-", stdin=json.dumps(deployment("gpu", 3, "gpu")))
    assert f"the nodes lack 1 x {RESOURCE}" in spare
    vms = await pool.machines(3)
    assert {one["metadata"]["labels"]["cluster.x-k8s.io/role"] for one in vms} == {"worker"}
    await pool.capacity(cpu="2", memory="2Gi", gpu_type="nvidia.com/gpu", gpu_count="1")

    fourth = await admin.refused("scale", "machinedeployment", "gpu", "--replicas=4")
    assert (
        f"{RESOURCE}: 1 requested on one node; node node1 has 0 free of 2 (2 held by VM" in fourth
    )
    assert (await pool.object())["spec"]["replicas"] == 3

    await admin.apply(template("larger", RESOURCE, memory="3Gi"))
    change = json.dumps({"spec": of("larger")})
    begins = await admin.warned("patch", "machinedeployment", "gpu", "--type=merge", "-p", change)
    assert "The rolling update of its machines waits for room for a new machine" in begins
    rolling = {"strategy": {"type": "RollingUpdate", "rollingUpdate": NO_SURGE}}
    await admin.patch("machinedeployment", "gpu", rollout=rolling)
    rolled = await pool.machines(3, "3Gi")
    assert not {one["metadata"]["uid"] for one in vms} & {one["metadata"]["uid"] for one in rolled}
    await pool.capacity(cpu="2", memory="3Gi", gpu_type="nvidia.com/gpu", gpu_count="1")

    await admin.ok("scale", "machinedeployment", "gpu", "--replicas=0")
    await pool.machines(0)
    await pool.capacity(cpu="2", memory="3Gi", gpu_type="nvidia.com/gpu", gpu_count="1")
    # A person's value is left alone, and what is Laneway's goes with the devices.
    await admin.ok("annotate", "--overwrite", "machinedeployment", "gpu", f"{PREFIX}cpu=8")
    await admin.apply(template("plain"))
    await admin.patch("machinedeployment", "gpu", **of("plain"))
    await pool.capacity(cpu="8")


async def test_a_vm_of_several_vgpus_is_made_right_as_capk_makes_it(
    world: World, admin: Kubectl
) -> None:
    """Its template says nothing of displays: the first vGPU alone has one."""
    for one in cluster():
        await admin.apply(one)
    await admin.apply(template("two", RESOURCE, RESOURCE))
    await admin.apply(deployment("gpu", 1, "two", **NO_SURGE))
    [made] = await Pool(admin).machines(1)
    devices = made["spec"]["template"]["spec"]["domain"]["devices"]
    assert len({one["name"] for one in devices["gpus"]}) == 2
    shown = [one["virtualGPUOptions"]["display"]["enabled"] for one in devices["gpus"]]
    assert shown == [True, False]
    assert [one["name"] for one in devices["disks"]] == ["containervolume", "cloudinitvolume"]
    assert len(await world.opened(made["metadata"]["name"])) == 2
