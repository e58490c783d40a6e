"""What one inventory has in common with the next, and what is asked of one."""

from __future__ import annotations

import pytest

from laneway.core.inventory import Inventory
from laneway.host.scan import scan
from laneway.sim.spec import build, parse_spec


@pytest.mark.parametrize("model", ["l40s", "a2", "workstation"])
def test_parts_that_are_equal_are_the_same_and_nothing_else_changes(model: str) -> None:
    host = build(parse_spec(model), "node1")
    known = scan(host)
    again = scan(host)
    assert again.vgpus is not known.vgpus or not known.vgpus

    same = again.sharing(known)
    assert same == again
    for name in Inventory.__struct_fields__:
        assert getattr(same, name) is getattr(known, name), name


def test_a_part_that_has_changed_is_the_new_one() -> None:
    host = build(parse_spec("l40s"), "node1")
    known = scan(host)
    gone = known.functions[-1].address
    host.unplug(f"/sys/bus/pci/devices/{gone}")
    found = scan(host)

    shared = found.sharing(known)
    assert shared == found
    assert shared.functions is found.functions
    assert shared.function(gone) is None
    assert known.function(gone) is not None


def test_every_function_is_found_by_its_address_and_by_its_gpu() -> None:
    host = build(parse_spec("l40s"), "node1")
    for inventory in (scan(host), Inventory(), scan(host)):
        for one in inventory.functions:
            assert inventory.function(one.address) is one
        for vgpu in inventory.vgpus:
            assert inventory.vgpu(vgpu.address) is vgpu
            assert vgpu in inventory.vgpus_of(vgpu.parent)
        assert sum(map(len, inventory.by_gpu().values())) == len(inventory.vgpus)
