"""What servers of every model publish is valid, and can be had as it is counted.

The rules of `resource.k8s.io/v1` are kapilite's. What the hardware allows is read from sysfs, and
tried by opening the devices of a simulated host, as its VMs would.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Sequence
from itertools import combinations
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kapilite import builtin
from laneway.core.device_plugin.offer import Owner
from laneway.core.dra.device import DRIVER
from laneway.core.dra.slices import Pool, Stored, pool, trial, writing
from laneway.sim.host import SimulatedHost
from support.allocating import Scheduler
from support.examples import many
from support.fleets import FLEETS, Step, offered, server

NODE = "node1"
KIND = next(kind for kind in builtin.KINDS if kind.kind == "ResourceSlice")
Body = dict[str, Any]
Fleet = tuple[str, list[Step]]


def problems(spec: Body, before: Body | None = None) -> list[str]:
    obj = {"metadata": {"name": "x"}, "spec": copy.deepcopy(spec)}
    found = builtin.complete(KIND, obj)
    old = {"metadata": {"name": "x"}, "spec": before} if before is not None else None
    return [f"{one.field}: {one.message}" for one in found or builtin.problems(KIND, obj, old)]


def published(wanted: Pool, stored: dict[str, Body]) -> dict[str, Body]:
    """All slices, each of which a server took in place of the one before."""
    known = [Stored(name, spec) for name, spec in stored.items()]
    change = writing(NODE, wanted, known)
    for name, spec in change.write:
        assert problems(spec, stored.get(name)) == []
    return dict(change.write)


@settings(max_examples=many(80))
@given(FLEETS, st.booleans(), st.data())
def test_what_any_server_publishes_is_valid(fleet: Fleet, full: bool, data: st.DataObject) -> None:
    inventory, offers = offered(server(*fleet))
    held = data.draw(st.sets(st.integers(0, 200), max_size=5))
    owner = Owner(namespace="default", pod="virt-launcher-" + "x" * data.draw(st.integers(0, 60)))
    owners = {(one.resource, one.id): owner for n, one in enumerate(offers) if n in held}
    first = published(pool(offers, inventory, owners, full=full), {})
    names = [one["name"] for spec in first.values() for one in spec.get("devices", ())]
    assert len(set(names)) == len(names)
    assert not full or len(names) == len(offers)
    left = offers[:: data.draw(st.integers(1, 3))]
    published(pool(left, inventory, {}, full=full), first)
    for _, spec in trial(NODE):
        assert problems(spec) == []


@pytest.mark.slow
@pytest.mark.parametrize("held", [0, 1])
def test_hundreds_of_functions_are_published(held: int) -> None:
    steps = [(what, card, 128) for card in (2, 3) for what in ("vfs", "pass all")]
    inventory, offers = offered(server("plain", steps))
    owner = Owner(namespace="default", pod="vm")
    owners = {(one.resource, one.id): owner for one in offers[:held]}
    found = published(pool(offers, inventory, owners, full=True), {})
    assert sum(len(spec["devices"]) for spec in found.values()) == len(offers) > 200


# ------------------------------------------------------------------------------- its mutations


def every(spec: Body) -> Body:
    """A slice of one device that says everything."""
    device = {
        "name": "pci-0000-08-00-0",
        "attributes": {"form": {"string": "pci"}, "x.io/a": {"int": 1}},
        "capacity": {"memory": {"value": "16Gi"}},
        "taints": [{"key": "x.io/held", "value": "vm", "effect": "NoSchedule"}],
        "consumesCounters": [{"counterSet": "card", "counters": {"parts": {"value": "1"}}}],
    }
    return {**spec, "devices": [device]}


def put(*path: Any, value: Any) -> Callable[[Body], None]:
    def change(spec: Body) -> None:
        for step in path[:-1]:
            spec = spec[step]
        spec[path[-1]] = value

    return change


BROKEN = {
    "spec.driver": put("driver", value="-"),
    "spec.pool.name": put("pool", "name", value="Node"),
    "spec.pool.generation": put("pool", "generation", value=-1),
    "spec.pool.resourceSliceCount": put("pool", "resourceSliceCount", value=0),
    "spec.nodeName": put("nodeName", value="Node"),
    "spec": put("allNodes", value=True),
    "spec.devices[0].name": put("devices", 0, "name", value="pci_0"),
    "spec.devices[0].attributes[form]": put("devices", 0, "attributes", "form", value={}),
    "spec.devices[0].capacity[a-b]": put("devices", 0, "capacity", "a-b", value={"value": "1"}),
    "spec.devices[0].taints[0].effect": put("devices", 0, "taints", 0, "effect", value="Held"),
    "spec.devices[0].taints[0].value": put("devices", 0, "taints", 0, "value", value="-"),
    "spec.devices[0].consumesCounters[0].counters": put(
        "devices", 0, "consumesCounters", 0, "counters", value={}
    ),
    "spec.devices[0].bindingFailureConditions": put("devices", 0, "bindingConditions", value=["a"]),
    "spec.devices[0]": put("devices", 0, "nodeName", value=NODE),
}


@pytest.mark.parametrize("field", BROKEN)
def test_a_slice_that_is_changed_by_mistake_is_refused(field: str) -> None:
    numbers = {"name": NODE, "generation": 1, "resourceSliceCount": 1}
    spec = every({"driver": DRIVER, "nodeName": NODE, "pool": numbers})
    assert problems(spec) == []
    BROKEN[field](spec)
    (found,) = problems(spec)
    assert found.startswith(f"{field}: ")


# --------------------------------------------------------------------------------- what is had


class Hardware:
    """Devices of a simulated host by the names that they have in slices, as sysfs shows them."""

    def __init__(self, host: SimulatedHost, devices: dict[str, Body]) -> None:
        self.host = host
        self.paths: dict[str, str] = {}
        self.parts_of: dict[str, str] = {}
        """The function whose part a device is; itself for a whole one."""
        for name, one in devices.items():
            said = {key: next(iter(value.values())) for key, value in one["attributes"].items()}
            bus = said.get("resource.kubernetes.io/pciBusID")
            path = f"bus/pci/devices/{bus}" if bus else f"bus/mdev/devices/{said['mdevUUID']}"
            self.paths[name] = host.resolve(f"/sys/{path}")
            carrier = self.paths[name] if bus else self.paths[name].rpartition("/")[0]
            physical = f"{carrier}/physfn"
            self.parts_of[name] = host.resolve(physical) if host.exists(physical) else carrier

    def group(self, name: str) -> str:
        return self.host.resolve(f"{self.paths[name]}/iommu_group").rpartition("/")[2]

    def together(self, names: Sequence[str]) -> bool:
        """Whether as many VMs can have these at once, one each."""
        for one, other in combinations(names, 2):
            if self.group(one) == self.group(other):
                return False
            whole = self.parts_of[one]
            if whole == self.parts_of[other] and whole in (self.paths[one], self.paths[other]):
                return False
        with contextlib.ExitStack() as stack:
            for name in names:
                holder = self.host.hold(f"/dev/vfio/{self.group(name)}")
                stack.callback(holder.release)
        return True


@settings(max_examples=many(60))
@given(FLEETS, st.randoms(use_true_random=False))
@example(("workstation", [("pass group", 6, 0), ("pass group", 5, 0), ("vfs", 2, 3)]), Random(1))
@example(("a100", [("mig", 0, 0), ("vgpus", 0, 0), ("pass group", 9, 0)]), Random(2))
def test_what_can_be_allocated_can_be_had_and_nothing_else_is_kept(
    fleet: Fleet, random: Random
) -> None:
    """Of any few devices, and of those that share something, all sets are tried."""
    host = server(*fleet)
    inventory, offers = offered(host)
    parts = pool(offers, inventory, {}, full=True).parts
    found = Scheduler(parts).devices
    devices = {name: one for name, one in found.items() if not one.get("taints")}
    hardware = Hardware(host, devices)
    sharing = sorted(name for name, one in devices.items() if "consumesCounters" in one)
    for names in (sorted(devices), sharing):
        few = random.sample(names, min(6, len(names)))
        for size in range(1, len(few) + 1):
            for chosen in combinations(few, size):
                scheduler = Scheduler(parts)
                allowed = all(scheduler.give(name) for name in chosen)
                assert allowed == hardware.together(chosen), chosen
