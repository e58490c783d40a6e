"""What need not be judged again after a change is published exactly as before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laneway.controllers.devices import gpu, pci
from laneway.core.inventory import ConfiguredVgpu, DeviceError, Inventory
from laneway.core.names import pci_object_name
from laneway.core.passthrough.judged_again import judged_again
from laneway.core.pci import PciAddress
from laneway.host.scan import scan
from laneway.sim.spec import build, parse_spec
from support.examples import many
from support.host_lives import Life, Turn, turns

NODE = "node1"


def assert_covers(before: Inventory, after: Inventory) -> None:
    """Nothing but what is to be judged again is wanted otherwise."""
    again = judged_again(before, after)
    was, now = pci.wanted(before, NODE), pci.wanted(after, NODE)
    differ = {name for name in was.keys() | now.keys() if was.get(name) != now.get(name)}
    assert differ <= {pci_object_name(NODE, one) for one in again}
    names = {pci_object_name(NODE, one) for one in again}
    if gpu.facts(before) == gpu.facts(after):
        assert gpu.wanted(before, NODE) == gpu.wanted(after, NODE)
    assert pci.wanted(after, NODE, again) == {n: one for n, one in now.items() if n in names}


@pytest.mark.parametrize("model", ["l40s", "workstation"])
@settings(max_examples=many(5))
@given(story=st.lists(turns, min_size=1, max_size=5), missing=st.integers(0, 400))
def test_whatever_happens(
    model: str, story: list[Turn], missing: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    asyncio.run(_live(model, story, missing, tmp_path_factory.mktemp("life")))


async def _live(model: str, story: list[Turn], missing: int, folder: Path) -> None:
    life = Life(model, str(folder))
    known = first = scan(life.host)
    for turn in story:
        await life.live(turn, fault=False)
        found = scan(life.host)
        assert_covers(known, found)
        assert_covers(first, found)
        known = found
    functions = list(known.functions)
    gone = functions.pop(missing % len(functions))
    without = msgspec.structs.replace(
        known,
        functions=tuple(functions),
        vgpus=tuple(one for one in known.vgpus if one.address != gone.address),
        interfaces=(),
        critical={},
        displays={},
        errors=(DeviceError(str(functions[0].address), "Input/output error"),),
    )
    assert_covers(known, without)
    assert_covers(without, known)


def test_a_function_concerns_its_iommu_group() -> None:
    before = scan(build(parse_spec("workstation"), NODE))
    groups: dict[int | None, list[PciAddress]] = {}
    for one in before.functions:
        if one.iommu_group is not None and not one.class_code.startswith("06"):
            groups.setdefault(one.iommu_group, []).append(one.address)
    shared = [there for there in groups.values() if len(there) > 1]
    assert shared
    for first, *_ in shared:
        assert_covers(before, msgspec.structs.replace(before, critical={first: ("needed",)}))


def _with_a_virtual_nic(inventory: Inventory) -> Inventory:
    """The last function is a virtual one of the first network card."""
    *rest, last = inventory.functions
    nic = inventory.interfaces[0].address
    last = msgspec.structs.replace(last, physfn=nic, class_code="020000")
    return msgspec.structs.replace(inventory, functions=(*rest, last))


def _renamed(before: Inventory) -> Inventory:
    first, *rest = before.interfaces
    return msgspec.structs.replace(
        before, interfaces=(msgspec.structs.replace(first, name="other0"), *rest)
    )


def _unreadable(before: Inventory) -> Inventory:
    error = DeviceError(str(before.functions[-1].address), "Input/output error")
    return msgspec.structs.replace(before, errors=(*before.errors, error))


def _needed(before: Inventory) -> Inventory:
    return msgspec.structs.replace(before, critical={before.functions[-1].address: ("needed",)})


def _carrying(before: Inventory) -> Inventory:
    first, *rest = before.vgpus
    vgpu = ConfiguredVgpu("1", "NVIDIA L40S-8Q", "", None)
    carried = msgspec.structs.replace(first, configured=vgpu)
    return msgspec.structs.replace(before, vgpus=(carried, *rest))


@pytest.mark.parametrize(
    ("model", "change"),
    [
        ("plain", _renamed),
        ("plain", _unreadable),
        ("plain", _needed),
        ("l40s", _carrying),
    ],
)
def test_each_part_of_an_inventory_concerns_what_it_is_about(
    model: str, change: Callable[[Inventory], Inventory]
) -> None:
    before = _with_a_virtual_nic(scan(build(parse_spec(model), NODE)))
    after = change(before)
    assert pci.wanted(before, NODE) != pci.wanted(after, NODE)
    assert_covers(before, after)


def test_a_gpu_concerns_its_virtual_functions() -> None:
    before = scan(build(parse_spec("l40s"), NODE))
    gpu = before.vgpus[0].parent
    functions = tuple(
        msgspec.structs.replace(one, total_vfs=None) if one.address == gpu else one
        for one in before.functions
    )
    after = msgspec.structs.replace(before, functions=functions)
    assert_covers(before, after)
    assert judged_again(before, after) > {one.address for one in before.vgpus_of(gpu)}


def test_a_disk_concerns_its_group_alone() -> None:
    """Or an event would cost what a whole inventory costs."""
    host = build(parse_spec("l40s"), NODE)
    before = scan(host)
    counts: dict[int | None, int] = {}
    for one in before.functions:
        counts[one.iommu_group] = counts.get(one.iommu_group, 0) + 1
    alone = next(
        one.address
        for one in before.functions
        if counts[one.iommu_group] == 1 and not one.vfs and one.physfn is None
    )
    rest = tuple(one for one in before.functions if one.address != alone)
    after = msgspec.structs.replace(before, functions=rest)
    assert judged_again(before, after) == {alone}
    assert judged_again(after, after) == frozenset()
