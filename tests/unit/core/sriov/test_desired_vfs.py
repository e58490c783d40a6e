"""Virtual functions are made without proof, and taken away only on an explicit desired state."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from laneway.core.gpu.modes import GpuModes
from laneway.core.inventory import ConfiguredVgpu, Inventory
from laneway.core.pci import Link
from laneway.core.plan import Plan, Satisfied
from laneway.core.refusals import CardCriticalToNode
from laneway.core.situation import glance
from laneway.core.sriov.desired import DesiredVfs, decide, facts, incomplete
from support.cards import CARD, TYPES, scene, vf_addresses

DESIRED_STATES = st.builds(
    DesiredVfs,
    address=st.just(CARD),
    count=st.integers(0, 16),
    explicit=st.booleans(),
    restores=st.booleans(),
)
COUNTS = st.integers(0, 16)


def card(existing: int, **more: Any) -> Inventory:
    return replace(scene(existing=existing).situation.inventory, **more)


@given(DESIRED_STATES, COUNTS)
def test_what_is_as_desired_is_left_and_what_is_not_desired_explicitly_too(
    desired: DesiredVfs, existing: int
) -> None:
    answer = decide(desired, glance(card(existing)))
    assert (answer == Satisfied()) == (desired.count == existing)
    if isinstance(answer, Plan):
        assert not existing or desired.explicit
    if isinstance(answer, tuple):
        assert existing
        assert not desired.explicit
        assert all(str(existing) in refusal.words for refusal in answer)


@given(DESIRED_STATES)
def test_a_card_that_is_gone_is_named(desired: DesiredVfs) -> None:
    answer = decide(desired, glance(Inventory()))
    assert isinstance(answer, tuple)
    assert str(CARD) in answer[0].words


@given(DESIRED_STATES, COUNTS)
def test_a_card_that_the_node_uses_keeps_its_number_but_for_what_a_boot_took(
    desired: DesiredVfs, existing: int
) -> None:
    uplink = ("serves the node's network: ens3 is part of bond vlan1-bo",)
    inventory = card(existing, critical={CARD: uplink})
    answer = decide(desired, glance(inventory))
    if desired.count == existing:
        assert answer == Satisfied()
    elif desired.restores:
        assert answer == decide(desired, glance(card(existing)))
    else:
        assert answer == (CardCriticalToNode(str(CARD), uplink),)
        assert "ens3 is part of bond vlan1-bo" in answer[0].words
        assert "VlanConfig" in answer[0].words


def test_a_gpu_with_a_part_of_its_functions_is_reported() -> None:
    def reported(existing: int) -> str:
        wrong = incomplete(CARD, scene(gpu=True, existing=existing).situation.inventory)
        return wrong.words if wrong else ""

    assert "7 of its 16 virtual functions" in reported(7)
    assert reported(0) == reported(16) == ""


def test_a_link_that_changes_its_speed_is_no_other_situation() -> None:
    idle = scene(gpu=True, existing=16)
    busy = idle.where(CARD, link=Link("16.0 GT/s PCIe", 16))
    assert facts(CARD, idle.situation.inventory) == facts(CARD, busy.situation.inventory)


def test_what_decides_is_another_situation() -> None:
    before = scene(gpu=True, existing=16)
    inventory = before.situation.inventory
    vf, kind = vf_addresses(1)[0], TYPES[0]
    carrying = replace(inventory.vgpus[0], configured=ConfiguredVgpu(kind.id, kind.name))

    others = [
        before.where(CARD, driver="").situation.inventory,
        before.where(vf, driver="vfio-pci").situation.inventory,
        before.where(CARD, num_vfs=0, vfs=()).situation.inventory,
        replace(inventory, vgpus=(carrying, *inventory.vgpus[1:])),
        replace(inventory, critical={vf: ("it carries the default route",)}),
        replace(inventory, nvidia_driver="550.1"),
        replace(inventory, modes={CARD: GpuModes(mig=True)}),
        replace(inventory, unasked={CARD: "it does not answer"}),
    ]

    assert facts(CARD, inventory) not in [facts(CARD, other) for other in others]
