"""`laneway plan moves --apply` on nodes with real agents, from the command to the hardware."""

from __future__ import annotations

import json

from laneway.core import keys
from laneway.kube.kubevirt import VIRTUAL_MACHINES
from laneway.simcluster.kubevirt.objects import INSTANCES
from support.commands import Laneway
from support.layouts import make, of
from support.moving import ON_1, Q8, RESOURCE, half_full, migrating_vgpus, profiles, reserved
from support.worlds import NAMESPACE, World

APPLY = ("plan", "moves", "A2-16Q", "--apply", "--yes")
FITS = "Done. Now there is room for A2-16Q on node1-000008000."
NEW = "node2-000008005"


async def test_what_is_kept_for_a_stopped_vm_goes_to_another_gpu(
    world: World, laneway: Laneway
) -> None:
    nodes = await half_full(world)
    await world.stop_vm("on-node1")
    await reserved(world, ON_1)
    # As Harvester's clients do it, the VM calls the vGPU by its name.
    named = {"gpus": [], "hostDevices": [{"name": ON_1, "deviceName": RESOURCE}]}
    spec = {"template": {"spec": {"domain": {"devices": named}}}}
    await world.client.patch(VIRTUAL_MACHINES, "on-node1", {"spec": spec}, NAMESPACE)
    done = await laneway(*APPLY)
    assert done.lines[-1] == FITS
    assert [profiles(node) for node in nodes] == [[], [Q8, Q8]]
    nothing = await laneway(*APPLY, "-o", "name")
    assert (nothing.out, nothing.err.splitlines()[0]) == ("", "Yes: no VM has to move.")
    vm = await world.client.get(VIRTUAL_MACHINES, "on-node1", NAMESPACE)
    kept = vm.metadata.annotations[keys.ANNOTATION_ALLOCATION]
    assert kept == f'{{"hostdevices":{{"{RESOURCE}":["{NEW}"]}}}}'
    assert [one.name for one in vm.spec.template.spec.domain.devices.all] == [NEW]
    await world.run_vm("on-node1", on=True)
    assert (await world.running("on-node1")).status.node_name == "node2"


async def test_a_vm_is_restarted_on_another_node_and_pinned_no_longer_than_its_start(
    world: World, laneway: Laneway
) -> None:
    nodes = await half_full(world)
    refused = await laneway(*APPLY, status=3)
    assert "not moved, as it is not live-migratable" in refused.out
    before = await world.running("on-node1")
    done = await laneway(*APPLY, "--restart")
    assert done.lines[-1] == FITS
    after = await world.running("on-node1")
    assert (after.status.node_name, after.metadata.uid == before.metadata.uid) == ("node2", False)
    assert [profiles(node) for node in nodes] == [[], [Q8, Q8]]
    vm = await world.client.get(VIRTUAL_MACHINES, "on-node1", NAMESPACE)
    assert vm.spec.run_strategy == "Always"
    stored = await world.client.raw(VIRTUAL_MACHINES.path(NAMESPACE, "on-node1"))
    assert b"nodeSelector" not in stored, "the pin leaves no trace"


async def test_a_vm_that_kubevirt_can_migrate_runs_on_while_it_moves(
    world: World, laneway: Laneway
) -> None:
    await migrating_vgpus(world)
    nodes = await half_full(world, "a2")
    before = await world.running("on-node1")
    done = await laneway(*APPLY, "-o", "json")
    said = json.loads(done.out)
    assert (said["outcome"], said["why"], said["done"]) == ("found", "", said["moves"])
    assert FITS in done.err
    after = await world.client.get(INSTANCES, "on-node1", NAMESPACE)
    assert (after.status.node_name, after.metadata.uid) == ("node2", before.metadata.uid)
    assert [profiles(node) for node in nodes] == [[], [Q8, Q8]]


async def test_on_the_same_node_a_vm_does_not_get_back_what_it_had(
    world: World, laneway: Laneway
) -> None:
    node = await world.add("node1", "l40s")
    resource = "nvidia.com/NVIDIA_L40S-24Q"
    for number, bus in enumerate(("17", "98"), 1):
        gpu = f"node1-0000{bus}000"
        await make(world, gpu, gpuSelector={"names": [gpu]}, vgpus=of(L40S_24Q=1))
        await world.allocatable("node1", resource, number)
        await world.make_vm(f"on-{bus}", gpus=[resource])
        await world.running(f"on-{bus}")
    [before] = await world.opened("on-17")
    done = await laneway("plan", "moves", "L40S-48Q", "--apply", "--yes", "--restart")
    assert done.lines[-1] == "Done. Now there is room for L40S-48Q on node1-000017000."
    [after] = await world.opened("on-17")
    assert (before[:7], after[:7]) == ("0000:17", "0000:98")
    assert profiles(node) == ["NVIDIA L40S-24Q"] * 2
