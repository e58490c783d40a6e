"""From Harvester's controller to Laneway and back, while a machine runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from laneway.api import PCIDeviceClaim, VGPUDevice, find_condition
from laneway.controllers.doctor.harvester import NAMESPACE, PARKED, RECORD
from laneway.controllers.doctor.objects import MUTATING, VALIDATING, Asking
from laneway.controllers.takeover import record, steps
from laneway.core import keys
from laneway.core.pci import PciAddress
from laneway.host.scan import scan
from laneway.kube.client import Client
from laneway.kube.config import load
from laneway.kube.errors import NotFoundError, UnreachableError
from laneway.kube.kubevirt import ANNOTATION_ADMITTED, KUBEVIRTS, VIRTUAL_MACHINES, mark_of
from laneway.kube.resource import Resource, served
from laneway.simcluster.kubevirt.objects import VMS
from support.commands import Laneway
from support.examples import first
from support.worlds import World

NIC = "intel.com/I350_GIGABIT_NETWORK_CONNECTION"
CLAIM = "node1-000004001"
UUID = "6f1f5a1c-4b1e-4b67-9d0b-0c5d7d1c2a3e"
VGPU, A2_4Q = "node1-000008004", "nvidia.com/NVIDIA_A2-4Q"
HOOKS = ((MUTATING, "pcidevices-mutator"), (VALIDATING, "pcidevices-validator"))


def silent(_words: str) -> None:
    """No server listens."""


async def stored(client: Any, path: str) -> Any:
    """An object as the server has it."""
    return msgspec.json.decode(await client.raw(path))


async def reasons(world: World) -> set[str]:
    """Of all events."""
    return {one["reason"] for one in (await stored(world.client, "/api/v1/events"))["items"]}


async def permitted(world: World) -> Any:
    found = await stored(
        world.client, f"/apis/kubevirt.io/v1/namespaces/{NAMESPACE}/kubevirts/kubevirt"
    )
    return found["spec"]["configuration"]["permittedHostDevices"]


async def test_a_running_machine_never_notices(
    world: World, harvester: Any, laneway: Laneway, recorded: Callable[[Any], list[Any]]
) -> None:
    node = await world.add("node1", "a2")
    await world.claim(CLAIM)
    await world.allocatable("node1", NIC, 1)
    await world.make_vm("vm1", host_devices=[NIC])
    await world.running("vm1")
    await world.until(
        VMS,
        "vm1",
        lambda one: bool(one.metadata.annotations.get(keys.ANNOTATION_ALLOCATION)),
        "default",
    )
    await world.kill_manager()
    await harvester.owns(world, node, claims=[CLAIM])
    await harvester.start()
    before = await permitted(world)
    opened = await world.opened("vm1")
    writes = recorded(node.host)

    reported = (await laneway("takeover", "--dry-run")).out
    assert "default/vm1 runs and has node1-000004001: not touched" in reported
    assert "1. save the changed objects" in reported
    assert not (await harvester.daemon_set()).spec.template.spec.node_selector

    done = await laneway("takeover")
    assert done.lines[-1].startswith("Done.")
    assert (await harvester.daemon_set()).spec.template.spec.node_selector == {PARKED: "parked"}
    for resource, name in HOOKS:
        with pytest.raises(NotFoundError):
            await world.client.get(resource, name)
    assert "marked 1 virtual machine" in done.out
    machine = await world.client.get(VIRTUAL_MACHINES, "vm1", "default")
    devices = machine.spec.template.spec.domain.devices
    assert machine.metadata.annotations[ANNOTATION_ADMITTED] == mark_of(devices)
    again = await laneway("takeover")
    assert again.out.startswith("Nothing to do")

    # What Harvester's controller had done is adopted by those who come.
    await world.start_manager()
    await world.start_agent(node)

    def adopted(one: Any) -> bool:
        found = find_condition(one.status.conditions, "Ready")
        return found is not None and found.reason == "Allocated"

    claim = await world.until(served(PCIDeviceClaim), CLAIM, adopted)
    assert claim.status.passthrough_enabled
    assert claim.status.kernel_driver_to_unbind == "igb"
    assert claim.metadata.finalizers == [keys.FINALIZER_PCI_CLAIM]
    assert claim.status.allocation.virtual_machine == "vm1"
    await world.cluster.quiet(node.agent)
    assert writes == []
    assert scan(node.host).function(PciAddress.parse("0000:04:00.1")).driver == "vfio-pci"
    assert await world.opened("vm1") == opened
    assert (await world.running("vm1")).status.phase == "Running"
    assert await permitted(world) == before

    # And it is released as any other once it is not needed.
    await world.delete_vm("vm1")
    await world.release(CLAIM)
    await world.until(
        KUBEVIRTS,
        "kubevirt",
        lambda one: not one.spec.configuration.permitted_host_devices.pci_host_devices,
        NAMESPACE,
    )
    assert "StillPermitted" not in await reasons(world)
    assert scan(node.host).function(PciAddress.parse("0000:04:00.1")).driver == "igb"
    assert writes  # They would have been seen before as well.


@pytest.mark.slow
@pytest.mark.parametrize("model", first("a2-vfio", "a2"))
async def test_a_running_vgpu_is_adopted_untouched(
    world: World,
    harvester: Any,
    laneway: Laneway,
    recorded: Callable[[Any], list[Any]],
    model: str,
) -> None:
    node = await world.add("node1", model, agent=False)
    if model == "a2":
        # Harvester's controller of v1.7 gave mediated devices UUIDs by chance.
        vf = scan(node.host).vgpu(PciAddress.parse("0000:08:00.4"))
        [kind] = [one.id for one in vf.creatable if one.name == "NVIDIA A2-4Q"]
        types = f"/sys/class/mdev_bus/{vf.address}/mdev_supported_types"
        node.host.write(f"{types}/{kind}/create", UUID)
    await world.start_agent(node)
    await world.vgpu(VGPU, "NVIDIA A2-4Q")
    await world.allocatable("node1", A2_4Q, 1)
    await world.make_vm("vm1", gpus=[A2_4Q])
    await world.running("vm1")
    opened = await world.opened("vm1")
    assert opened == ([UUID] if model == "a2" else ["0000:08:00.4"])
    await world.kill_manager()
    await harvester.owns(world, node, vgpus=[VGPU])
    await harvester.start()
    writes = recorded(node.host)
    await laneway("takeover")
    await world.start_manager()
    await world.start_agent(node)
    await world.until(
        served(VGPUDevice),
        VGPU,
        lambda one: (
            one.status.allocation is not None and one.status.allocation.virtual_machine == "vm1"
        ),
    )
    await world.cluster.quiet(node.agent)
    assert writes == []
    assert await world.opened("vm1") == opened
    assert world.cluster.carried(node.host) == {"0000:08:00.4": "NVIDIA A2-4Q"}


@pytest.mark.slow
async def test_the_way_back_restores_everything(
    cluster: Any, harvester: Any, laneway: Laneway
) -> None:
    await harvester.start()
    before = [await stored(cluster.client, resource.path("", name)) for resource, name in HOOKS]
    await laneway("takeover")
    back = await laneway("takeover", "--back")
    assert back.lines[-1].startswith("Done.")
    assert not (await harvester.daemon_set()).spec.template.spec.node_selector
    after = [await stored(cluster.client, resource.path("", name)) for resource, name in HOOKS]
    for old, new in zip(before, after, strict=True):
        assert new["webhooks"] == old["webhooks"]
        assert new["metadata"]["labels"] == old["metadata"]["labels"]
    with pytest.raises(NotFoundError):
        await cluster.client.get(record.CONFIG_MAPS, RECORD, NAMESPACE)
    assert (await laneway("takeover", "--back")).out.startswith("Nothing to do")


async def test_on_a_cluster_without_harvester_there_is_no_way_back(cluster: Any) -> None:
    reported: list[str] = []
    await steps.back(cluster.client, reported.append)
    assert reported == []


class Other(msgspec.Struct):
    """What a KubeVirt is not."""

    spec: int


async def test_what_cannot_be_read_is_reported_by_its_name_and_is_no_matter_of_rights(
    cluster: Any,
) -> None:
    odd = Resource("kubevirt.io", "v1", "kubevirts", True, Other)
    asking = Asking(cluster.client)
    assert await asking.all(odd) == []
    assert [one.title for one in asking.unreadable] == [f"{odd} {NAMESPACE}/kubevirt"]
    assert asking.unknown == []
    assert asking.may_see(odd)
    assert not asking.saw(odd)


async def test_a_selector_of_its_own_is_kept(cluster: Any, harvester: Any) -> None:
    await harvester.start()
    own = {"spec": {"template": {"spec": {"nodeSelector": {"gpu": "yes"}}}}}
    await harvester.stop()
    await cluster.client.patch(steps.DAEMON_SETS, steps.DAEMON_SET, own, NAMESPACE)
    harvester.task = None
    await harvester._say(0)
    with pytest.raises(steps.StillRunningError):
        # There is no DaemonSet controller, so that its pods never go.
        await steps.take(cluster.client, silent, seconds=0.1)
    selector = (await harvester.daemon_set()).spec.template.spec.node_selector
    assert selector == {"gpu": "yes", PARKED: "parked"}
    for resource, name in HOOKS:
        assert await cluster.client.get(resource, name)
    await steps.back(cluster.client, silent)
    assert (await harvester.daemon_set()).spec.template.spec.node_selector == {"gpu": "yes"}


class Dying(Client):
    """A client that dies at its n-th write, before or after the server took it."""

    left = 0
    after = False

    async def call(self, method: str, path: str, *args: Any, **kwargs: Any) -> bytes:
        if method == "GET":
            return await super().call(method, path, *args, **kwargs)
        self.left -= 1
        if self.left == 0 and not self.after:
            raise UnreachableError("died")
        answer = await super().call(method, path, *args, **kwargs)
        if self.left == 0:
            raise UnreachableError("died")
        return answer


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("number", first(*range(1, 6)))
async def test_an_interrupted_takeover_is_begun_again_and_ends_the_same(
    cluster: Any, harvester: Any, kubeconfig: str, *, number: int, after: bool
) -> None:
    await harvester.start()
    before = [await stored(cluster.client, resource.path("", name)) for resource, name in HOOKS]
    async with Dying(load(kubeconfig)) as dying:
        dying.left, dying.after = number, after
        try:
            await steps.take(dying, silent, seconds=30)
        except UnreachableError:
            await steps.take(cluster.client, silent, seconds=30)
        found = await cluster.client.get(record.CONFIG_MAPS, RECORD, NAMESPACE)
        assert json.loads(found.data["daemonset.json"])["nodeSelector"] == {}
        kept = {body["metadata"]["name"]: body for _, body in record.hooks(found)}
        assert {name: kept[name]["webhooks"] for _, name in HOOKS} == {
            one["metadata"]["name"]: one["webhooks"] for one in before
        }
        dying.left = number
        try:
            await steps.back(dying, silent)
        except UnreachableError:
            await steps.back(cluster.client, silent)
    assert not (await harvester.daemon_set()).spec.template.spec.node_selector
    for resource, name in HOOKS:
        assert await cluster.client.get(resource, name)
    with pytest.raises(NotFoundError):
        await cluster.client.get(record.CONFIG_MAPS, RECORD, NAMESPACE)


@pytest.mark.slow
async def test_the_way_back_is_refused_where_it_would_cost_a_device(
    world: World, harvester: Any, laneway: Laneway
) -> None:
    await world.add("node1", "a2")
    await harvester.start()
    await laneway("takeover")
    await world.claim(CLAIM)
    free = {"metadata": {"ownerReferences": None}}
    await world.client.patch(served(PCIDeviceClaim), CLAIM, free)
    refused = await laneway("takeover", "--back", status=3)
    assert f"claims without their PCIDevice as first owner: {CLAIM}" in refused.out
    assert (await harvester.daemon_set()).spec.template.spec.node_selector == {PARKED: "parked"}
    assert await world.client.get(KUBEVIRTS, "kubevirt", NAMESPACE)
