"""A look at one GPU's vGPUs says the same as a scan of the whole host."""

from __future__ import annotations

from typing import Any
from uuid import NAMESPACE_OID, uuid5

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laneway.core.inventory import DeviceError, Inventory, VgpuFunction
from laneway.core.programs import SRIOV_MANAGE
from laneway.host.scan import scan
from laneway.host.vgpu import look_at_card, read_again
from laneway.sim.host import SimulatedHost
from laneway.sim.spec import build, parse_spec
from support.examples import many

SPECS = ("a2", "l40s")


def home(vgpu: VgpuFunction) -> str:
    return f"/sys/bus/pci/devices/{vgpu.address}"


def switch(host: SimulatedHost, vgpu: VgpuFunction, number: int) -> None:
    """Remove the vGPU of a function, or make one of those that it offers."""
    carried = vgpu.configured
    if vgpu.framework == "vendor-vfio":
        kind = (
            "0"
            if carried or not vgpu.creatable
            else vgpu.creatable[number % len(vgpu.creatable)].id
        )
        host.write(f"{home(vgpu)}/nvidia/current_vgpu_type", kind)
    elif carried:
        host.write(f"{home(vgpu)}/{carried.uuid}/remove", "1")
    elif vgpu.creatable:
        kind = vgpu.creatable[number % len(vgpu.creatable)].id
        uuid = str(uuid5(NAMESPACE_OID, home(vgpu)))
        host.write(f"{home(vgpu)}/mdev_supported_types/{kind}/create", uuid)


@pytest.mark.parametrize("spec", SPECS)
@settings(max_examples=many(25))
@given(st.lists(st.tuples(st.integers(0, 31), st.integers(0, 40)), max_size=6))
def test_whatever_is_made_or_removed(spec: str, changes: list[tuple[int, int]]) -> None:
    host = build(parse_spec(spec), "node1")
    known = scan(host)
    gpu = known.vgpus[0].parent

    for at, number in changes:
        of_gpu = [vgpu for vgpu in known.vgpus if vgpu.parent == gpu]
        switch(host, of_gpu[at % len(of_gpu)], number)
        scanned = scan(host)
        now = [vgpu for vgpu in scanned.vgpus if vgpu.parent == gpu]

        # Also what is read twice a second tells a change, and tells none where there is none.
        assert (read_again(host, of_gpu) != tuple(of_gpu)) >= _silent_change(of_gpu, now)
        assert read_again(host, now) == tuple(now)
        assert look_at_card(host, known, gpu) == scanned
        known = scanned


def _silent_change(before: list[VgpuFunction], after: list[VgpuFunction]) -> bool:
    """Whether vGPUs of vendor VFIO, or the lists of a function that stays free, have changed."""
    if before[0].framework == "vendor-vfio":
        return [one.configured for one in before] != [one.configured for one in after]
    free = next((at for at, one in enumerate(before) if one.configured is None), None)
    return free is not None and before[free].creatable != after[free].creatable


def test_functions_that_are_gone_take_a_whole_scan() -> None:
    host = build(parse_spec("l40s"), "node1")
    known = scan(host)
    gpu = known.vgpus[0].parent
    host.call((SRIOV_MANAGE, "-d", str(gpu)))

    assert look_at_card(host, known, gpu) is None


@pytest.mark.parametrize("when", ["before", "now"])
def test_what_could_not_be_read_takes_a_whole_scan(when: str) -> None:
    host = Odd(build(parse_spec("l40s"), "node1"))
    known = _scan(host)
    first = known.vgpus[0]
    host.odd[f"{home(first)}/nvidia/current_vgpu_type"] = b"what?\n"
    if when == "before":
        known = _scan(host)
        host.odd.clear()

    assert look_at_card(host, known, first.parent) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(("device", "enough"), [("/sys/bus/pci/devices", False), ("1-3", True)])
def test_only_what_may_be_about_the_card_takes_a_whole_scan(device: str, enough: bool) -> None:
    host = build(parse_spec("l40s"), "node1")
    known = msgspec.structs.replace(scan(host), errors=(DeviceError(device, "EIO"),))
    seen = look_at_card(host, known, known.vgpus[0].parent)
    assert seen == (known if enough else None)


class Odd:
    """A host of which a test says what some attributes read."""

    def __init__(self, host: SimulatedHost) -> None:
        self.host = host
        self.odd: dict[str, bytes] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.host, name)

    def read(self, path: str) -> bytes:
        tail = path.split("/")[-3:]
        found = (text for odd, text in self.odd.items() if odd.split("/")[-3:] == tail)
        return next(found, None) or self.host.read(path)


def _scan(host: Any) -> Inventory:
    return scan(host)
