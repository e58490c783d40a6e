"""What holds for the rules of every kind, in any world and for any object."""

from __future__ import annotations

import random
from functools import lru_cache
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import inspect

from laneway.admission.indexes import INDEXERS
from laneway.admission.request import Operation, Request, Requester
from laneway.admission.rules import (
    claims,
    gpus,
    layouts,
    migs,
    network,
    nodes,
    pci_devices,
    usb_claims,
    usb_devices,
    vgpus,
)
from laneway.admission.verdict import Rules, Verdict
from laneway.admission.world import World
from laneway.api import (
    CoreNode,
    MigConfiguration,
    PCIDevice,
    PCIDeviceClaim,
    SRIOVGPUDevice,
    SRIOVNetworkDevice,
    USBDevice,
    USBDeviceClaim,
    VGPUDevice,
    VGPULayout,
)
from laneway.controllers.ledger.objects import Pod
from laneway.kube.kubevirt import VirtualMachine, VirtualMachineInstance
from laneway.kube.store import Store
from support.examples import many

AGENT = "system:serviceaccount:harvester-system:laneway-agent"
KINDS: dict[type[Any], Rules] = {
    PCIDeviceClaim: claims.RULES,
    USBDeviceClaim: usb_claims.RULES,
    PCIDevice: pci_devices.RULES,
    USBDevice: usb_devices.RULES,
    SRIOVNetworkDevice: network.RULES,
    SRIOVGPUDevice: gpus.RULES,
    VGPUDevice: vgpus.RULES,
    MigConfiguration: migs.RULES,
    VGPULayout: layouts.RULES,
    CoreNode: nodes.RULES,
}
STORES: dict[str, type[Any]] = {
    "nodes": CoreNode,
    "pci_devices": PCIDevice,
    "claims": PCIDeviceClaim,
    "cards": SRIOVNetworkDevice,
    "gpus": SRIOVGPUDevice,
    "vgpus": VGPUDevice,
    "migs": MigConfiguration,
    "layouts": VGPULayout,
    "usb_devices": USBDevice,
    "usb_claims": USBDeviceClaim,
    "vms": VirtualMachine,
    "instances": VirtualMachineInstance,
    "pods": Pod,
}
ON_NODES = [kind for kind in KINDS if kind not in (VGPULayout, CoreNode)]

# -------------------------------------------------------------------------- objects of any form

NAMES = ("node1-000008000", "node1-000008004", "node1-046d-c52b-003011")
TEXTS = (
    "",
    "node1",
    *NAMES,
    "0000:08:00.0",
    "0000:08:00.4",
    "alice",
    "bob",
    "True",
    "False",
    "Claimable",
    "VirtualFunctionsEnabled",
    "GroupMemberInUse",
    "VGPUDevice",
    "SameSize",
    "MIGBacked",
    "synced",
    "10",
    "0302",
    "25b6",
    "NVIDIA A2-4Q",
    "GRID A100X-1-5C",
    "MIG 1g.5gb",
    "MIG 3g.20gb",
    "Running",
    "nvidia.com/gpu",
    '{"hostdevices":{"nvidia.com/gpu":["node1-000008004"]}}',
    "2026-01-01T00:00:00Z",
    "../../etc\n\x00ü💥",
    "x" * 300,
)
KEYS = (
    "harvesterhci.io/parentSRIOVGPUDevice",
    "harvesterhci.io/gpu-baremetal-workloads",
    "harvesterhci.io/deviceAllocationDetails",
    "pcidevice.harvesterhci.io/override-resource-name",
    "pcidevices.harvesterhci.io/skip-vfio-binding",
    "NVIDIA A2-4Q",
    "nvidia.com/gpu",
    "true",
)
NUMBERS = (0, 1, 2, 4, 7, 8, -1, 2**63)


class Odd:
    """Makes objects of any form. From a seed, for a world drawn value by value takes seconds."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def world(self) -> dict[str, list[Any]]:
        """Objects that the cluster may know, by store."""
        choose = self._random.randint
        return {s: [self.named(kind) for _ in range(choose(0, 2))] for s, kind in STORES.items()}

    def named(self, kind: type[Any]) -> Any:
        """An object of a name that others may speak of."""
        obj = self._struct(kind)
        name = self._random.choice((*NAMES, "node1"))
        metadata = msgspec.structs.replace(obj.metadata, name=name)
        return msgspec.structs.replace(obj, metadata=metadata)

    def user(self) -> str:
        return self._random.choice(("", "alice", AGENT))

    def _struct(self, kind: type[Any]) -> Any:
        leave = self._random.random() * 0.6
        return kind(
            **{
                field.name: self._value(field.type)
                for field in _fields(kind)
                if field.required or self._random.random() > leave
            }
        )

    def _value(self, info: inspect.Type) -> Any:
        choose, several = self._random.choice, self._random.randint(0, 3)
        match info:
            case inspect.Metadata():
                return self._value(info.type)
            case inspect.StrType():
                return choose(TEXTS)
            case inspect.BoolType():
                return choose((True, False))
            case inspect.IntType() | inspect.FloatType():
                return choose(NUMBERS)
            case inspect.NoneType():
                return None
            case inspect.LiteralType():
                return choose(info.values)
            case inspect.UnionType():
                return self._value(choose(info.types))
            case inspect.DictType():
                return {choose(KEYS): self._value(info.value_type) for _ in range(several)}
            case inspect.StructType():
                return self._struct(info.cls)
            case inspect.CollectionType() | inspect.ListType() | inspect.VarTupleType():
                return [self._value(info.item_type) for _ in range(several)]
            case _:
                raise AssertionError(f"no idea what {info} is")


@lru_cache
def _fields(kind: type[Any]) -> tuple[inspect.Field, ...]:
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    fixed = ("api_version", "kind")
    return tuple(one for one in info.fields if one.required or one.name not in fixed)


odd = st.builds(Odd, st.integers(0, 2**32))


def world_of(known: dict[str, list[Any]], *, backwards: bool = False) -> World:
    stores: dict[str, Any] = {name: Store(indexers) for name, indexers in INDEXERS.items()}
    for name, found in known.items():
        # One name stands for one object, whichever came last.
        there = {one.metadata.name + one.metadata.namespace: one for one in found}
        for one in reversed(there.values()) if backwards else there.values():
            stores[name].put(one)
    return World(**stores, trusted=frozenset({AGENT}))


def judged(kind: type[Any], old: Any, new: Any, world: World, user: str = "alice") -> Verdict:
    rules = KINDS[kind]
    operation = (
        Operation.CREATE if old is None else Operation.DELETE if new is None else Operation.UPDATE
    )
    request: Request[Any] = Request(operation, "", "", Requester(user), old=old, new=new)
    return rules.judge(request, world, frozenset(rules.asks(request, world)))


often = settings(
    max_examples=many(60),
    deadline=None,  # the VM may be busy
)
each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)

# ---------------------------------------------------------------------------------- the laws


@each_kind
@given(odd=odd)
@often
def test_no_object_and_no_world_is_too_odd(kind: type[Any], odd: Odd) -> None:
    world = world_of(odd.world())
    old, new, user = odd.named(kind), odd.named(kind), odd.user()
    for before, after in ((old, new), (None, new), (old, None), (None, None)):
        verdict = judged(kind, before, after, world, user)
        for one in verdict.refusals:
            assert one.words.endswith(".") or ": kubectl " in one.words  # copied as it is
            assert "\n" not in one.words
        assert all(isinstance(one, str) and one for one in verdict.warnings)


@each_kind
@given(odd=odd)
@often
def test_what_is_written_as_it_is_is_allowed(kind: type[Any], odd: Odd) -> None:
    world, obj = world_of(odd.world()), odd.named(kind)
    verdict = judged(kind, obj, obj, world)
    assert verdict.allowed
    assert verdict.warnings == ()


@pytest.mark.parametrize("kind", ON_NODES, ids=lambda kind: kind.__name__)
@given(odd=odd)
@often
def test_objects_of_a_node_that_is_gone_may_go(kind: type[Any], odd: Odd) -> None:
    known, obj = odd.world(), odd.named(kind)
    for part in ("spec", "status"):
        reported = getattr(obj, part, None)
        if hasattr(reported, "node_name"):
            placed = msgspec.structs.replace(reported, node_name="node2")
            obj = msgspec.structs.replace(obj, **{part: placed})
    assert judged(kind, obj, None, world_of(known)).allowed


@each_kind
@given(odd=odd)
@often
def test_what_laneway_makes_deletes_and_labels_is_allowed(kind: type[Any], odd: Odd) -> None:
    world, old, other = world_of(odd.world()), odd.named(kind), odd.named(kind)
    assert judged(kind, None, old, world, AGENT).allowed
    assert judged(kind, old, None, world, AGENT).allowed
    metadata = msgspec.structs.replace(other.metadata, name=old.metadata.name)
    status = {"status": other.status} if hasattr(old, "status") else {}
    labelled = msgspec.structs.replace(old, metadata=metadata, **status)
    if kind is not CoreNode:  # Whose label is a desired state of its own.
        assert judged(kind, old, labelled, world, AGENT).allowed


@each_kind
@given(odd=odd)
@often
def test_a_verdict_does_not_depend_on_any_order(kind: type[Any], odd: Odd) -> None:
    known, old, new = odd.world(), odd.named(kind), odd.named(kind)
    there, back = (world_of(known, backwards=backwards) for backwards in (False, True))
    for before, after in ((None, new), (old, new), (old, None)):
        first = judged(kind, before, after, there)
        assert first == judged(kind, _turned(before), _turned(after), back)


def _turned(value: Any) -> Any:
    """The same, with every mapping the other way round."""
    if isinstance(value, dict):
        return {key: _turned(value[key]) for key in reversed(value)}
    if isinstance(value, msgspec.Struct):
        parts = {name: _turned(getattr(value, name)) for name in value.__struct_fields__}
        return msgspec.structs.replace(value, **parts)
    return value


def test_these_objects_reach_most_rules() -> None:
    """Else the laws above would hold of nothing."""
    reached = set()
    for seed in range(400):
        odd = Odd(seed)
        world = world_of(odd.world())
        for kind in KINDS:
            old, new = odd.named(kind), odd.named(kind)
            for before, after in ((None, new), (old, new), (old, None)):
                verdict = judged(kind, before, after, world)
                reached |= {type(one).__name__ for one in verdict.refusals}
    assert len(reached) >= 20, reached


def test_every_store_is_among_these() -> None:
    of_vsphere = {name for name in INDEXERS if name.startswith(("vsphere_", "cluster_"))}
    assert set(STORES) == set(INDEXERS) - of_vsphere
