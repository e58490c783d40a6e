"""Who has a device, or names it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from laneway.admission.indexes import INDEXERS
from laneway.admission.users import Use, VmState, users_of
from laneway.admission.world import World
from laneway.api import PCIDeviceClaim, USBDeviceClaim, VGPUDevice, decode
from laneway.core.ledger.facts import Consumer, ConsumerKind
from laneway.core.use import in_words
from laneway.kube.kubevirt import VirtualMachine, VirtualMachineInstance
from laneway.kube.store import Store

DEVICE = "node1-000008000"
VM = Consumer(ConsumerKind.VM, "default", "vm-a")


@pytest.fixture
def world() -> World:
    stores: dict[str, Any] = {name: Store(indexers) for name, indexers in INDEXERS.items()}
    return World(**stores)


def put(store: Store[Any], kind: type[Any], raw: dict[str, Any]) -> None:
    store.put(decode(kind, msgspec.json.encode(raw)))


def vm(
    world: World, *, names: str = "", resource: str = "r/X", record: str = "", **meta: Any
) -> None:
    devices = {"hostDevices": [{"name": names or "free-text", "deviceName": resource}]}
    metadata = {"name": "vm-a", "namespace": "default", **meta}
    if record:
        metadata["annotations"] = {"harvesterhci.io/deviceAllocationDetails": record}
    spec = {"template": {"spec": {"domain": {"devices": devices}}}}
    put(world.vms, VirtualMachine, {"metadata": metadata, "spec": spec})


def instance(world: World, phase: str, *, names: str = "free-text") -> None:
    devices = {"gpus": [{"name": names, "deviceName": "r/X"}]}
    raw = {
        "metadata": {"name": "vm-a", "namespace": "default"},
        "spec": {"domain": {"devices": devices}},
        "status": {"phase": phase},
    }
    put(world.instances, VirtualMachineInstance, raw)


def record(resource: str = "r/X", part: str = "hostdevices") -> str:
    return msgspec.json.encode({part: {resource: [DEVICE]}}).decode()


def test_no_user(world: World) -> None:
    vm(world, names="another")
    assert users_of(world, DEVICE) == ()
    assert users_of(world, "") == ()


def test_one_that_names_it_and_never_ran(world: World) -> None:
    vm(world, names=DEVICE)
    assert users_of(world, DEVICE) == (Use(VM, VmState.NEVER_STARTED),)


@pytest.mark.parametrize("part", ["gpus", "hostdevices"])
def test_one_that_is_stopped_and_has_it_on_record(world: World, part: str) -> None:
    vm(world, record=record(part=part))
    assert users_of(world, DEVICE) == (Use(VM, VmState.STOPPED),)


def test_a_record_holds_for_what_is_still_requested(world: World) -> None:
    vm(world, record=record("r/OTHER"))
    assert users_of(world, DEVICE) == ()


def test_one_that_runs(world: World) -> None:
    vm(world, record=record())
    instance(world, "Running")
    assert users_of(world, DEVICE) == (Use(VM, VmState.RUNS),)


def test_one_that_has_ended_is_stopped(world: World) -> None:
    vm(world, record=record())
    instance(world, "Succeeded", names=DEVICE)
    assert users_of(world, DEVICE) == (Use(VM, VmState.STOPPED),)


def test_one_that_is_to_get_it_at_its_next_start(world: World) -> None:
    vm(world, names=DEVICE)
    instance(world, "Running")
    assert users_of(world, DEVICE) == (Use(VM, VmState.NEVER_STARTED),)


def test_an_instance_without_a_vm(world: World) -> None:
    instance(world, "Scheduling", names=DEVICE)
    assert users_of(world, DEVICE) == (Use(VM, VmState.RUNS),)


def test_a_stopped_one_that_is_being_deleted_uses_nothing(world: World) -> None:
    vm(world, names=DEVICE, record=record(), deletionTimestamp="2026-01-01T00:00:00Z")
    assert users_of(world, DEVICE) == ()
    instance(world, "Running")
    assert users_of(world, DEVICE) == (Use(VM, VmState.RUNS),)


@pytest.mark.parametrize("spoilt", ["{", "[]", '{"hostdevices":{"r/X":"no list"}}'])
def test_a_record_that_was_spoilt_says_nothing(world: World, spoilt: str) -> None:
    vm(world, names=DEVICE, record=spoilt)
    assert users_of(world, DEVICE) == (Use(VM, VmState.NEVER_STARTED),)


@pytest.mark.parametrize(
    ("store", "kind"),
    [("claims", PCIDeviceClaim), ("vgpus", VGPUDevice), ("usb_claims", USBDeviceClaim)],
)
def test_what_the_kubelet_gave_out(world: World, store: str, kind: type[Any]) -> None:
    given = {"namespace": "lab", "pod": "p-1"}
    raw = {"metadata": {"name": DEVICE}, "status": {"allocation": given}}
    put(getattr(world, store), kind, raw)
    assert users_of(world, DEVICE) == (Use(Consumer(ConsumerKind.POD, "lab", "p-1"), VmState.RUNS),)
    raw["status"]["allocation"] = {**given, "virtualMachine": "vm-b"}  # type: ignore[index]
    put(getattr(world, store), kind, raw)
    assert users_of(world, DEVICE) == (Use(Consumer(ConsumerKind.VM, "lab", "vm-b"), VmState.RUNS),)


def test_the_words_of_many_are_few() -> None:
    uses = [
        Use(Consumer(ConsumerKind.VM, "default", f"vm-{n}"), VmState.STOPPED) for n in range(13)
    ]
    assert in_words(uses[:1]).startswith("VM default/vm-0 (")
    assert in_words(uses).endswith("and 5 more")
