"""What a claim of a PCI device asks of hardware, in view of what is there."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from laneway.core import names
from laneway.core.claims.orphans import orphans
from laneway.core.claims.pci import (
    DesiredClaim,
    DeviceIdentity,
    decide,
    is_for_vms,
    misplaced,
    other_claims_in_group,
    places,
)
from laneway.core.inventory import ConfiguredVgpu, Inventory, VgpuFunction
from laneway.core.pci import PciAddress, PciFunction
from laneway.core.plan import Plan, Satisfied
from laneway.core.refusals import (
    ClaimNameMismatch,
    DeviceNotFound,
    DeviceReplaced,
    DriverNotVfio,
    DuplicateClaim,
    Refusal,
    VgpuNotConfigured,
)
from laneway.core.situation import Situation, glance

GPU_AT, AUDIO_AT, NIC_AT = (PciAddress(0, 8, 0, 0), PciAddress(0, 8, 0, 1), PciAddress(0, 9, 0, 0))
GPU = PciFunction(
    address=GPU_AT,
    vendor="10de",
    device="1b80",
    class_code="030000",
    driver="nouveau",
    iommu_group=7,
    reset_methods=("bus",),
)
AUDIO = replace(GPU, address=AUDIO_AT, device="10f0", class_code="040300", driver="snd")
NIC = PciFunction(
    address=NIC_AT,
    vendor="8086",
    device="1592",
    class_code="020000",
    driver="ice",
    iommu_group=8,
    reset_methods=("flr",),
)
FREE = Inventory(functions=(GPU, AUDIO, NIC))


def on_vfio(*addresses: PciAddress) -> Inventory:
    taken = addresses or (GPU_AT, AUDIO_AT)
    return Inventory(
        functions=tuple(
            replace(one, driver="vfio-pci") if one.address in taken else one
            for one in FREE.functions
        )
    )


DESIRED = DesiredClaim(address=GPU_AT, claimed=True)
END = replace(DESIRED, claimed=False)


def at_a_glance(
    desired: DesiredClaim, inventory: Inventory, **known: Any
) -> Satisfied | tuple[Refusal, ...] | None:
    """What the last scan says; None where something is to be done."""
    decision = decide(desired, replace(glance(inventory, "node1"), **known))
    return None if isinstance(decision, Plan) else decision


def test_a_claim_is_met_when_the_whole_group_is_taken() -> None:
    assert at_a_glance(DESIRED, FREE) is None
    assert at_a_glance(DESIRED, on_vfio(GPU_AT)) is None
    assert at_a_glance(DESIRED, on_vfio()) == Satisfied()


def test_a_claim_of_nothing_is_refused() -> None:
    desired = replace(DESIRED, address=PciAddress(0, 1, 2, 3))
    assert at_a_glance(desired, FREE) == (DeviceNotFound("0000:01:02.3"),)


def test_a_claim_of_what_the_node_uses_stays_refused_when_that_use_is_gone_for_a_while() -> None:
    needed = replace(FREE, critical={AUDIO_AT: ("serves the node's network: ens3 is in a bond",)})
    refusals = at_a_glance(DESIRED, needed)
    assert isinstance(refusals, tuple)
    assert [one.reason for one in refusals] == ["DeviceNeeded"]
    assert "ens3 is in a bond" in refusals[0].words
    again = replace(DESIRED, refused=True)
    for inventory in (FREE, replace(FREE, functions=(NIC,))):  # free, and not there yet
        refusals = at_a_glance(again, inventory)
        assert isinstance(refusals, tuple)
        assert [one.reason for one in refusals] == ["DeviceNeeded"]
        assert "create it again" in refusals[0].words
    # It was taken since; nothing is left to be done.
    assert at_a_glance(again, on_vfio()) == Satisfied()


def test_a_claim_that_was_bound_waits_for_the_end_of_the_use() -> None:
    needed = replace(FREE, critical={GPU_AT: ("serves the node's network: ens3 has an address",)})
    bound = replace(DESIRED, was_bound=True)
    [refusal] = at_a_glance(bound, needed) or ()
    assert "ens3 has an address" in refusal.words
    assert "bound again when the node no longer uses the device" in refusal.words
    assert "create it again" not in refusal.words
    assert at_a_glance(replace(bound, refused=True), FREE) is None


@pytest.mark.parametrize(
    "known",
    [
        DeviceIdentity(vendor="10de", device="25b6"),
        DeviceIdentity(vendor="8086", device="1b80"),
        DeviceIdentity(vendor="10de", device="1b80", card="GPU-1"),
    ],
)
@pytest.mark.parametrize("inventory", [FREE, on_vfio()], ids=["free", "taken"])
def test_another_device_is_neither_taken_nor_released(
    known: DeviceIdentity, inventory: Inventory
) -> None:
    inventory = replace(inventory, identities={GPU_AT: "GPU-2"})
    [refusal] = at_a_glance(replace(DESIRED, identity=known), inventory) or ()
    assert isinstance(refusal, DeviceReplaced)
    assert at_a_glance(replace(END, identity=known), inventory) == Satisfied()


def test_what_is_not_known_proves_no_other_device() -> None:
    known = DeviceIdentity(vendor="10de", device="1b80", card="GPU-1")
    assert at_a_glance(replace(DESIRED, identity=known), FREE) is None


def test_a_group_is_released_when_no_other_claim_needs_it() -> None:
    assert at_a_glance(END, on_vfio()) is None
    assert at_a_glance(replace(END, other_claims=("other",)), on_vfio()) == Satisfied()
    assert at_a_glance(replace(END, binds=False), on_vfio()) == Satisfied()
    assert at_a_glance(END, FREE) == Satisfied()


def test_nothing_waits_for_what_is_in_quarantine() -> None:
    assert at_a_glance(END, on_vfio(), quarantined={AUDIO_AT: "failed"}) == Satisfied()


def test_what_was_taken_along_goes_back_without_the_device() -> None:
    left = Inventory(functions=(replace(AUDIO, driver="vfio-pci"), NIC))
    end = replace(END, group="7")
    taken = {GPU_AT: "nouveau", AUDIO_AT: "snd"}
    assert at_a_glance(end, left, originals=taken) is None
    assert places(end, left, taken) == (AUDIO_AT,)
    plan = decide(end, Situation(node="node1", inventory=left, originals=taken))
    assert isinstance(plan, Plan)
    # It was not in this boot that the device was taken, so the number of its group says nothing.
    assert at_a_glance(end, left, originals={AUDIO_AT: "snd"}) == Satisfied()
    # What was not taken for it may belong to another group with that number now.
    assert at_a_glance(end, left) == Satisfied()


def test_a_driver_that_is_left_alone_must_be_one_for_machines() -> None:
    desired = replace(DESIRED, binds=False)
    assert at_a_glance(desired, FREE) == (DriverNotVfio(str(GPU_AT), "nouveau"),)
    # A claim of Laneway's own waits for the vGPU that it was made for.
    made = replace(desired, vgpu="node1-000008004")
    assert at_a_glance(made, FREE) == (VgpuNotConfigured("node1-000008004"),)
    assert at_a_glance(desired, on_vfio(GPU_AT)) == Satisfied()
    for driver, able in (
        ("mlx5_vfio_pci", True),
        ("nvgrace-gpu-vfio-pci", True),
        ("vfiox", False),
        ("", False),
    ):
        assert is_for_vms(replace(GPU, driver=driver), FREE) is able


def test_a_vgpu_is_one_for_machines_once_it_is_there() -> None:
    vgpu = VgpuFunction(
        address=GPU_AT, parent=NIC_AT, framework="vendor-vfio", supported=(), creatable=()
    )
    assert not is_for_vms(replace(GPU, driver="nvidia"), replace(FREE, vgpus=(vgpu,)))
    there = replace(vgpu, configured=ConfiguredVgpu("1145", "NVIDIA L40S-24Q"))
    assert is_for_vms(replace(GPU, driver="nvidia"), replace(FREE, vgpus=(there,)))
    # A mediated device is another device than its function.
    mediated = replace(there, framework="mdev")
    assert not is_for_vms(replace(GPU, driver="nvidia"), replace(FREE, vgpus=(mediated,)))


def test_claims_of_one_group_keep_each_others_devices() -> None:
    claims = [("gpu", GPU_AT), ("audio", AUDIO_AT), ("nic", NIC_AT)]
    assert other_claims_in_group("gpu", GPU_AT, FREE, claims) == ("audio",)
    assert other_claims_in_group("nic", NIC_AT, FREE, claims) == ()
    left = Inventory(functions=(AUDIO, NIC))
    assert other_claims_in_group("gpu", GPU_AT, left, claims, "7") == ("audio",)
    assert other_claims_in_group("gpu", GPU_AT, left, claims) == ()


def test_devices_without_a_group_are_no_group_members() -> None:
    loose = Inventory(functions=tuple(replace(one, iommu_group=None) for one in FREE.functions))
    assert other_claims_in_group("gpu", GPU_AT, loose, [("audio", AUDIO_AT)]) == ()


def test_only_the_claim_with_the_name_of_its_device_counts() -> None:
    right = names.pci_object_name("node1", GPU_AT)
    assert misplaced(right, str(GPU_AT), "node1", ()) is None
    wrong = misplaced("mine", str(GPU_AT), "node1", ())
    assert wrong == ClaimNameMismatch("mine", str(GPU_AT), "node1", right)
    there = [(right, str(GPU_AT))]
    assert misplaced("mine", str(GPU_AT), "node1", there) == DuplicateClaim("mine", right)


@given(st.text(), st.text(), st.text())
def test_no_name_and_no_address_is_too_odd_to_be_answered(
    name: str, address: str, node: str
) -> None:
    wrong = misplaced(name, address, node, ())
    assert wrong is not None
    assert wrong.words.isprintable() or not name.isprintable()


@given(st.sets(st.sampled_from([GPU_AT, AUDIO_AT, NIC_AT])), st.data())
def test_only_what_was_taken_for_a_claim_is_an_orphan(
    taken: set[PciAddress], data: st.DataObject
) -> None:
    noted = data.draw(st.sets(st.sampled_from([GPU_AT, AUDIO_AT, NIC_AT])))
    claimed = data.draw(st.sets(st.sampled_from([GPU_AT, AUDIO_AT, NIC_AT])))
    inventory = on_vfio(*taken) if taken else FREE
    found = orphans(inventory, [str(one) for one in noted], claimed)
    groups = {one.address: one.iommu_group for one in inventory.functions}
    asked = {groups[one] for one in claimed}
    for one in found.ours:
        assert one in noted & taken
        assert groups[one] not in asked
    assert not {groups[one] for one in found.ours} & {groups[one] for one in found.others}
    for one in taken:
        if groups[one] not in asked:
            known = {groups[each] for each in (*found.ours, *found.others)}
            assert groups[one] in known
