"""Machines from their creation to their removal, on simulated nodes with Laneway's webhook."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from laneway.kube.errors import NotFoundError
from laneway.kube.kubevirt import VIRTUAL_MACHINES
from laneway.kube.rancher import LABEL_GUEST_CLUSTER, LABEL_MACHINE_SET, LABEL_POOL
from laneway.simcluster.harvester.volumes import CLAIMS
from laneway.simcluster.kubevirt.objects import INSTANCES
from support import harvester
from support.kubevirt_subresources import UnderwayError, request
from support.machine_driver import QUICK, Machines, Programs, build, host_devices, vgpus
from support.worlds import World

Q4, RESOURCE = "NVIDIA A2-4Q", "nvidia.com/NVIDIA_A2-4Q"
NIC = "intel.com/I350_GIGABIT_NETWORK_CONNECTION"
NAME = "guest-gpu-7xk2p-4fw9d"
AMBIGUOUS = "prod-gpu-a-abcde-fghij"
FAULT = 'the driver failed by a fault of its own: time: invalid duration "never"'
NAMESPACE = "default"
REMOVE_ALL = "harvesterhci.io/removeAllPersistentVolumeClaims"


async def gpu_node(world: World, vgpus: int = 2, *, model: str = "a2") -> None:
    await world.add("node1", model)
    for number in range(vgpus):
        await world.vgpu(f"node1-00000800{4 + number}", Q4)
    await world.allocatable("node1", RESOURCE, vgpus)


async def stored(world: World, name: str = NAME) -> Any:
    raw = await world.client.raw(
        f"/apis/kubevirt.io/v1/namespaces/{NAMESPACE}/virtualmachines/{name}"
    )
    return msgspec.json.decode(raw)


async def names(world: World, resource: Any) -> set[str]:
    pages = world.client.list(resource, NAMESPACE)
    return {resource.decode(one).metadata.name async for page in pages for one in page.items}


async def test_a_machine_with_a_vgpu_from_creation_to_removal(
    world: World, machines: Machines
) -> None:
    await gpu_node(world)
    done = await machines.run("create", NAME, vgpu_info=vgpus(RESOURCE))
    assert done.calls == [
        "GetVersion", "SetConfigRaw", "GetMachineName", "GetMachineName", "DriverName",
        "GetCreateFlags", "GetCreateFlags", "GetCreateFlags", "SetConfigFromFlags",
        "PreCreateCheck", "GetConfigRaw", "Create", "GetConfigRaw", "DriverName", "DriverName",
        "DriverName", "GetState", "GetCreateFlags", "GetConfigRaw", "Close",
    ]  # fmt: skip
    assert done.status == ""
    vm = await stored(world)
    labels = {
        "harvesterhci.io/creator": "docker-machine-driver-harvester",
        "harvesterhci.io/vmName": NAME,
        "harvesterhci.io/machineSetName": "default-guest-gpu",
        LABEL_GUEST_CLUSTER: "guest",
        LABEL_POOL: "gpu",
    }
    assert vm["metadata"]["labels"] == labels
    assert vm["spec"]["template"]["metadata"]["labels"] == labels
    instance = await world.client.get(INSTANCES, NAME, NAMESPACE)
    assert (instance.status.phase, instance.status.node_name) == ("Running", "node1")
    [held] = world.nodes["node1"].holders().values()
    assert len(held) == 1
    assert len(await names(world, CLAIMS)) == 1
    ip = (await machines.run("GetIP", NAME)).value
    assert ip.startswith("10.52.")
    ssh = (await machines.run("ssh", NAME)).value
    assert (ssh["host"], ssh["port"], ssh["user"]) == (ip, 22, "root")
    assert ssh["url"] == f"tcp://{ip}:2376"

    await machines.run("stop", NAME)
    assert (await machines.run("status", NAME)).value == "Stopped"
    assert (
        await machines.run("GetIP", NAME, error=None)
    ).error == f"VM default/{NAME} does not run"
    await machines.run("start", NAME)
    before = await world.client.get(INSTANCES, NAME, NAMESPACE)
    await machines.run("restart", NAME)
    after = await world.client.get(INSTANCES, NAME, NAMESPACE)
    assert before.metadata.uid != after.metadata.uid
    await machines.run("kill", NAME)
    upgraded = await machines.run("upgrade", NAME)
    assert upgraded.value["host"] == (await machines.run("GetSSHHostname", NAME)).value

    config = (await machines.run("config", NAME)).value
    await machines.run("rm", NAME)
    with pytest.raises(NotFoundError):
        await world.client.get(VIRTUAL_MACHINES, NAME, NAMESPACE)
    assert await names(world, CLAIMS) == set()
    machines.store.joinpath("machines", NAME).mkdir(parents=True, exist_ok=True)
    machines.store.joinpath("machines", NAME, "config.json").write_text(json.dumps(config))
    assert "is gone already" in (await machines.run("rm", NAME)).text
    again = await machines.run("rm", NAME)
    assert "nothing to do" in again.value


async def test_a_change_of_state_waits_for_the_one_before(
    world: World, machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KubeVirt keeps a request until its controller has seen that it is done."""
    await world.add("node1", "a2")
    await machines.run("create", NAME)
    before = await world.client.get(INSTANCES, NAME, NAMESPACE)
    refused = 0

    async def slow(*asked: Any) -> None:
        nonlocal refused
        if refused < 2:
            refused += 1
            raise UnderwayError
        await request(*asked)

    monkeypatch.setattr(harvester, "request", slow)
    await machines.run("restart", NAME)
    after = await world.client.get(INSTANCES, NAME, NAMESPACE)
    assert refused == 2
    assert before.metadata.uid != after.metadata.uid


async def test_a_name_that_does_not_tell_the_cluster_is_no_label(
    world: World, machines: Machines
) -> None:
    """`prod-gpu-a` is the set of `prod` or of `prod-gpu`; Laneway finds the VM by the set."""
    await world.add("node1", "a2")
    await machines.run("create", AMBIGUOUS)
    assert (await stored(world, AMBIGUOUS))["metadata"]["labels"] == {
        "harvesterhci.io/creator": "docker-machine-driver-harvester",
        "harvesterhci.io/vmName": AMBIGUOUS,
        LABEL_MACHINE_SET: "default-prod-gpu-a",
    }


@pytest.mark.parametrize("name", [AMBIGUOUS, NAME])
async def test_disks_of_a_guest_cluster_are_deleted_only_if_it_is_named(
    world: World, machines: Machines, name: str
) -> None:
    await world.add("node1", "a2")
    cluster = name.rsplit("-", 3)[0]
    labels = {LABEL_GUEST_CLUSTER: cluster}
    body = {"metadata": {"name": "data", "labels": labels}, "spec": {}}
    await world.client.create(CLAIMS, body, NAMESPACE)
    all_go = {"metadata": {"annotations": {REMOVE_ALL: "true"}}}

    await machines.run("create", name)
    await world.client.patch(VIRTUAL_MACHINES, name, all_go, NAMESPACE)
    kept = await machines.run("rm", name)
    assert f"Warning: the configuration of VM default/{name} has no clusterName" in kept.text
    assert await names(world, CLAIMS) == {"data"}

    await machines.run("create", name, cluster_name=cluster)
    assert (await stored(world, name))["metadata"]["labels"][LABEL_GUEST_CLUSTER] == cluster
    await world.client.patch(VIRTUAL_MACHINES, name, all_go, NAMESPACE)
    assert (await machines.run("rm", name)).text == ""
    assert await names(world, CLAIMS) == set()


@pytest.mark.parametrize("model", ["a2", "a2-vfio"])
async def test_two_vgpus_have_names_of_their_own_and_one_display(
    world: World, machines: Machines, model: str
) -> None:
    await gpu_node(world, model=model)
    await machines.run("create", NAME, vgpu_info=vgpus(RESOURCE, count=2))
    devices = (await stored(world))["spec"]["template"]["spec"]["domain"]["devices"]
    assert [one["name"] for one in devices["gpus"]] == ["vgpu-0", "vgpu-1"]
    shown = [one["virtualGPUOptions"]["display"]["enabled"] for one in devices["gpus"]]
    assert shown == [True, False]
    [held] = world.nodes["node1"].holders().values()
    assert len(set(held)) == 2


async def test_a_machine_for_which_nothing_is_free_is_refused_and_not_made(
    world: World, machines: Machines
) -> None:
    await gpu_node(world)
    await machines.run("create", "guest-gpu-a-1", vgpu_info=vgpus(RESOURCE))
    await machines.run("create", "guest-gpu-a-2", vgpu_info=vgpus(RESOURCE))
    before = await names(world, VIRTUAL_MACHINES), await names(world, CLAIMS)
    refused = await machines.run("create", "guest-gpu-a-3", error=None, vgpu_info=vgpus(RESOURCE))
    assert "Harvester would refuse VM default/guest-gpu-a-3: " in refused.error
    assert f"{RESOURCE}: 1 requested" in refused.error
    assert "guest-gpu-a-1" in refused.error
    assert (refused.calls or [])[-2:] == ["PreCreateCheck", "Close"]
    assert (await names(world, VIRTUAL_MACHINES), await names(world, CLAIMS)) == before
    gone = await machines.run("rm", "guest-gpu-a-3")
    assert "nothing to do" in gone.value

    await machines.run("rm", "guest-gpu-a-1")
    await machines.run("create", "guest-gpu-a-3", vgpu_info=vgpus(RESOURCE))


async def test_a_machine_that_finds_no_node_ends_with_the_schedulers_reason(
    world: World, machines: Machines
) -> None:
    """What the check cannot see: a node that has no memory left."""
    await gpu_node(world)
    failed = await machines.run(
        "create", NAME, error=None, vgpu_info=vgpus(RESOURCE), memory_size=9_999
    )
    assert (
        "does not start: the scheduler finds no node for it: 0/1 nodes are available"
        in failed.error
    )
    assert "Insufficient memory" in failed.error
    assert failed.error.endswith(f"VM default/{NAME} is removed")
    assert "Waiting: the scheduler finds no node for it" in failed.text
    assert await names(world, VIRTUAL_MACHINES) == set()
    assert await names(world, CLAIMS) == set()
    assert world.nodes["node1"].holders() == {}
    await machines.run("rm", NAME)


async def test_a_machine_that_fails_whenever_it_starts_ends_with_the_reason(
    world: World, machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    await gpu_node(world)

    def fails(_uid: str, _paths: object) -> None:
        raise OSError(errno.EBUSY, "Device or resource busy", "/dev/vfio/7")

    monkeypatch.setattr(world.nodes["node1"].runtime, "open", fails)
    failed = await machines.run("create", NAME, error=None, vgpu_info=vgpus(RESOURCE))
    assert "cannot open /dev/vfio/7: Device or resource busy" in failed.error
    assert failed.error.endswith(f"VM default/{NAME} is removed")
    assert await names(world, VIRTUAL_MACHINES) == set()


@pytest.mark.parametrize(
    ("variable", "expected"),
    [
        ("machine.settling", f"error with pre-create check: {FAULT}"),
        (
            "machine.addressTimeout",
            f"error in driver during machine creation: {FAULT}. VM default/{NAME} is removed",
        ),
    ],
)
async def test_a_fault_of_the_driver_is_an_error_of_the_call_and_leaves_no_vm(
    world: World, machines: Machines, tmp_path: Path, variable: str, expected: str
) -> None:
    """A time that is none has the driver panic where it reads it."""
    await world.add("node1", "a2")
    driver = build(tmp_path / "faulty", *QUICK, f"{variable}=never")
    faulty = Machines(Programs(driver, machines.programs.client), tmp_path, machines.options)
    done = await faulty.run("create", NAME, error=expected)
    assert done.status == ""
    assert await names(world, VIRTUAL_MACHINES) == set()


async def test_a_network_card_of_the_host(world: World, machines: Machines) -> None:
    await world.add("node1", "a2")
    claim = await world.claim("node1-000004001")
    resource = NIC
    await world.allocatable("node1", resource, 1)
    await machines.run("create", NAME, host_device_info=host_devices([resource]))
    [device] = (await stored(world))["spec"]["template"]["spec"]["domain"]["devices"]["hostDevices"]
    assert device == {"name": "device-0", "deviceName": resource}
    [held] = world.nodes["node1"].holders().values()
    assert [one.rpartition("/")[2] for one in held] == [claim.spec.address]
    second = await machines.run(
        "create", "guest-gpu-a-2", error=None, host_device_info=host_devices([resource])
    )
    assert f"{resource}: 1 requested" in second.error


async def test_a_vm_of_the_same_name_is_left_alone(world: World, machines: Machines) -> None:
    await gpu_node(world)
    await machines.run("create", NAME, vgpu_info=vgpus(RESOURCE))
    config = machines.store / "machines" / NAME / "config.json"
    kept = json.loads(config.read_text())
    taken = await machines.run("create", NAME, error=None)
    assert "exists already" in taken.error
    for other in ("another", ""):
        config.parent.mkdir(exist_ok=True)
        config.write_text(json.dumps({**kept, "MachineID": other}))
        assert "was not made for this machine, and stays" in (await machines.run("rm", NAME)).text
        await world.client.get(VIRTUAL_MACHINES, NAME, NAMESPACE)
