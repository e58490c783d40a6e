"""Cards in other slots."""

from __future__ import annotations

from laneway.core.pci import PciAddress
from laneway.host.scan import scan
from laneway.sim.host import SimulatedHost
from laneway.sim.seats import Seat
from laneway.sim.spec import build, parse_spec

A2 = PciAddress.parse("0000:08:00.0")
NEXT = PciAddress.parse("0000:09:00.0")
FIRST, SECOND = PciAddress.parse("0000:17:00.0"), PciAddress.parse("0000:98:00.0")


def host(model: str, seats: dict[PciAddress, Seat] | None = None) -> SimulatedHost:
    return build(parse_spec(model), "node1", seats=seats)


def test_a_card_is_the_same_in_another_slot() -> None:
    before, after = scan(host("a2")), scan(host("a2", {NEXT: Seat(A2)}))

    assert after.identities == {NEXT: before.identities[A2]}
    assert after.errors == ()
    assert [one.num_vfs for one in after.functions if one.sriov_gpu] == [0]


def test_a_card_that_is_inserted_is_another_one() -> None:
    before, after = scan(host("a2")), scan(host("a2", {A2: Seat(A2, "new"), NEXT: Seat(A2)}))

    assert after.identities[NEXT] == before.identities[A2]
    assert after.identities[A2] != before.identities[A2]
    groups = [one.iommu_group for one in after.functions if one.sriov_gpu]
    assert len(set(groups)) == 2


def test_swapped_cards_take_their_slots() -> None:
    before = scan(host("l40s"))
    after = scan(host("l40s", {FIRST: Seat(SECOND), SECOND: Seat(FIRST)}))

    assert after.identities == {
        FIRST: before.identities[SECOND],
        SECOND: before.identities[FIRST],
    }
    upstream = {one.address: one.upstream for one in before.functions}
    assert all(upstream[one.address] == one.upstream for one in after.functions)


async def test_a_card_has_its_functions_and_profiles_in_any_slot() -> None:
    before, moved = host("a2"), host("a2", {NEXT: Seat(A2)})
    await moved.run(["/usr/lib/nvidia/sriov-manage", "-e", str(NEXT)], 60)

    there = scan(moved).vgpus
    assert [one.supported for one in there] == [one.supported for one in scan(before).vgpus]
    assert [one.address.shifted(NEXT, A2) for one in there] == [
        one.address for one in scan(before).vgpus
    ]
