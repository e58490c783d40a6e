"""Where machines are put, with which others, and what is said when they cannot be."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from laneway.core.refusals import DeviceNotOffered, HostsTooSmall, NoHostInDomain, NoRoom, Refusal
from laneway.core.refusals.vsphere import is_terminal
from laneway.core.vsphere.inventory.hosts import (
    MULTI_INSTANCE,
    Device,
    DeviceGroup,
    GroupPart,
    Host,
    Profile,
    SharedGpu,
    VgpuUser,
)
from laneway.core.vsphere.placement.domain import Domain
from laneway.core.vsphere.placement.placing import choose_host, still_fits
from laneway.core.vsphere.placement.reservation import DeviceAllocation, Reservation
from laneway.core.vsphere.spec.requests import (
    DeviceRequest,
    GroupRequest,
    PassthroughRequest,
    PciIds,
    Requested,
    VgpuRequest,
)

T4, NIC = PciIds(0x10DE, 0x1EB8), PciIds(0x15B3, 0x101D)
CARD, GOLD, RDMA = (
    PassthroughRequest((T4,)),
    PassthroughRequest((T4,), "gold"),
    PassthroughRequest((NIC,)),
)
Q16, Q8, Q4 = VgpuRequest("grid_t4-16q"), VgpuRequest("grid_t4-8q"), VgpuRequest("grid_t4-4q")
PROFILES = tuple(Profile(f"grid_t4-{gib}q", gib) for gib in (4, 8, 16))


def cards(name: str, *labels: str, ids: PciIds = T4) -> Host:
    """A host with a card for each label."""
    devices = tuple(
        Device(f"0000:0{at}:00.0", ids, "Tesla T4", label) for at, label in enumerate(labels)
    )
    return Host(f"host-{name}", f"esx-{name}", "DC0", "gpu", "domain-c7", devices=devices)


def shared(name: str, *shared_gpus: Sequence[str]) -> Host:
    """A host with a board for each list of the profiles that VMs have of it."""
    there = tuple(
        SharedGpu(
            f"0000:8{at}:00.0",
            "Tesla T4",
            15,
            profiles=PROFILES,
            users=tuple(
                VgpuUser(f"vm-{name}{at}{number}", profile) for number, profile in enumerate(users)
            ),
        )
        for at, users in enumerate(shared_gpus)
    )
    return Host(f"host-{name}", f"esx-{name}", "DC0", "gpu", "domain-c7", shared_gpus=there)


def with_holder(host: Host, at: int, vm: str) -> Host:
    devices = list(host.devices)
    devices[at] = replace(devices[at], holder=vm)
    return replace(host, devices=tuple(devices))


def wants(*requested_item: DeviceRequest) -> Requested:
    return Requested(requested_item)


def placed(
    hosts: Sequence[Host], *requested_item: DeviceRequest, reservations: Sequence[Reservation] = ()
) -> Reservation:
    found = choose_host(hosts, Requested(requested_item), reservations, machine="default/new")
    assert isinstance(found, Reservation), found.words
    return found


def refused(
    hosts: Sequence[Host], *requested_item: DeviceRequest, reservations: Sequence[Reservation] = ()
) -> Refusal:
    found = choose_host(hosts, Requested(requested_item), reservations, machine="default/new")
    assert isinstance(found, Refusal)
    return found


def given(
    machine: str, host: str, *allocations: tuple[DeviceRequest, str], vm: str = ""
) -> Reservation:
    return Reservation(
        machine,
        host,
        tuple(DeviceAllocation(requested_item, (at,)) for requested_item, at in allocations),
        vm,
    )


# ------------------------------------------------------------------------------------------ where


def test_the_fullest_host_with_room_is_taken() -> None:
    hosts = [cards("a", "", "", ""), cards("b", "", "", "", ""), cards("c", "")]
    assert placed(hosts, CARD, CARD).host == "host-a"
    assert placed(hosts, CARD).host == "host-c"


def test_a_board_that_carries_vgpus_of_the_size_is_filled_first() -> None:
    hosts = [shared("a", []), shared("b", [], ["grid_t4-4q"]), shared("c", ["grid_t4-8q"])]
    found = placed(hosts, Q4)
    assert (found.host, found.allocations[0].devices) == ("host-b", ("0000:81:00.0",))
    assert placed(hosts, Q8).host == "host-c"
    assert placed(hosts, Q16).host == "host-a"


def test_labelled_devices_are_left_to_those_who_request_the_label() -> None:
    hosts = [cards("a", "gold"), cards("b", "gold", ""), cards("c", "", "", "", "")]
    assert placed(hosts, CARD, CARD).host == "host-c"
    assert placed(hosts[:2], CARD).allocations[0].devices == ("0000:01:00.0",)
    assert placed(hosts[:1], CARD).host == "host-a"
    both = placed([hosts[1]], CARD, GOLD)
    assert [allocation.devices for allocation in both.allocations] == [
        ("0000:01:00.0",),
        ("0000:00:00.0",),
    ]


def test_an_item_that_has_a_choice_leaves_others_theirs() -> None:
    host = cards("a", "", "gold")
    host = replace(host, devices=(*host.devices, Device("0000:c1:00.0", NIC)))
    either = PassthroughRequest((T4, NIC))
    found = placed([host], either, CARD)
    assert [allocation.devices for allocation in found.allocations] == [
        ("0000:c1:00.0",),
        ("0000:00:00.0",),
    ]


def test_gpus_and_the_network_card_are_of_one_host() -> None:
    apart = [cards("a", "", ""), cards("b", "", ids=NIC)]
    together = replace(
        cards("c", "", ""), devices=(*cards("c", "", "").devices, Device("0000:c1:00.0", NIC))
    )
    requested = Requested((CARD, CARD, RDMA), peer_to_peer=True)
    assert isinstance(choose_host(apart, requested, ()), HostsTooSmall)
    found = choose_host([*apart, together], requested, ())
    assert isinstance(found, Reservation)
    assert found.host == "host-c"


def test_a_group_is_given_with_all_of_its_parts_or_not_at_all() -> None:
    group = DeviceGroup(
        "nvlink",
        parts=(
            GroupPart("pciPassthru", "T4", T4),
            GroupPart("pciPassthru", "T4", T4),
            GroupPart("sriovNic", "CX-6"),
        ),
    )
    host = replace(cards("a", "", "", ""), device_groups=(group,))
    (allocation,) = placed([host], GroupRequest("nvlink")).allocations
    assert len(set(allocation.devices)) == 2
    assert isinstance(
        refused([host], GroupRequest("nvlink"), GroupRequest("nvlink")), HostsTooSmall
    )
    busy = with_holder(with_holder(host, 0, "vm-1"), 1, "vm-1")
    assert isinstance(refused([busy], GroupRequest("nvlink")), NoRoom)
    assert isinstance(refused([cards("b", "", "")], GroupRequest("nvlink")), DeviceNotOffered)
    kept = Reservation("default/other", "host-a", (allocation,))
    assert isinstance(refused([host], CARD, CARD, reservations=[kept]), NoRoom)
    assert (
        placed([host], CARD, reservations=[kept]).allocations[0].devices[0]
        not in allocation.devices
    )


def test_sub_ids_count_and_missing_ones_may_be_right() -> None:
    there = PciIds(*T4[:2], 0x10DE, 0x12A2)
    host = cards("a", "", ids=there)
    assert placed([host], PassthroughRequest((there._replace(revision=0xA1),)))
    other = PassthroughRequest((there._replace(sub_device=0x12A3),))
    assert isinstance(refused([host], other), DeviceNotOffered)


# ------------------------------------------------------------------------------- with which others


def test_a_vm_that_is_on_has_what_its_host_reports_wherever_that_was_reserved() -> None:
    kept = given("default/a", "host-a", (CARD, "0000:00:00.0"), vm="vm-1")
    elsewhere = [with_holder(cards("a", "", ""), 1, "vm-1")]
    assert placed(elsewhere, CARD, reservations=[kept]).allocations[0].devices == ("0000:00:00.0",)
    moved = [cards("a", ""), with_holder(cards("b", ""), 0, "vm-1")]
    assert placed(moved, CARD, reservations=[kept]).host == "host-a"


def test_who_lost_his_place_to_another_still_has_one_kept_for_him() -> None:
    kept = given("default/a", "host-a", (CARD, "0000:00:00.0"))
    host = with_holder(cards("a", "", ""), 0, "vm-stranger")
    assert isinstance(refused([host], CARD, reservations=[kept]), NoRoom)
    assert still_fits([host], kept, [kept])
    gpu = shared("b", ["grid_t4-16q"], [])
    waiting = given("default/b", "host-b", (Q16, "0000:80:00.0"))
    assert isinstance(refused([gpu], Q4, reservations=[waiting]), NoRoom)


def test_what_a_vm_that_is_on_does_not_have_yet_stays_reserved() -> None:
    kept = given("default/a", "host-a", (CARD, "0000:00:00.0"), (CARD, "0000:01:00.0"), vm="vm-1")
    host = with_holder(cards("a", "", ""), 0, "vm-1")
    assert isinstance(refused([host], CARD, reservations=[kept]), NoRoom)


def test_a_vgpu_that_may_not_be_read_is_the_reserved_one() -> None:
    host = shared("b", [""], [])
    mine = given("default/b", "host-b", (Q8, "0000:80:00.0"), vm="vm-b00")
    assert placed([host], Q16, reservations=[mine]).allocations[0].devices == ("0000:81:00.0",)
    two = given("default/b", "host-b", (Q8, "0000:80:00.0"), (Q8, "0000:80:00.0"), vm="vm-b00")
    assert isinstance(refused([host], Q16, reservations=[two]), NoRoom)


def test_a_reservation_does_not_block_its_own_machine() -> None:
    kept = given("default/new", "host-a", (CARD, "0000:00:00.0"))
    assert placed([cards("a", "")], CARD, reservations=[kept]).host == "host-a"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"connected": False}, "not connected"),
        ({"maintenance": True}, "in maintenance mode"),
        ({"shared_direct": False}, "its default graphics type is not Shared Direct"),
    ],
)
def test_a_host_that_is_closed_is_skipped_and_named(change: dict[str, bool], why: str) -> None:
    closed, open_ = replace(shared("a", []), **change), shared("b", ["grid_t4-16q"])
    found = refused([closed, open_], Q16)
    assert isinstance(found, NoRoom)
    assert f"Skipped: esx-a ({why})." in found.words
    assert not still_fits([closed], given("default/a", "host-a", (Q16, "0000:80:00.0")), ())
    if "shared_direct" in change:
        assert placed([replace(cards("c", ""), **change)], CARD)


def test_a_struck_host_is_not_tried_again() -> None:
    hosts = [cards("a", ""), cards("b", "")]
    found = choose_host(hosts, wants(CARD), (), excluded={"host-a"})
    assert isinstance(found, Reservation)
    assert found.host == "host-b"
    none = choose_host(hosts, wants(CARD), (), excluded={"host-a", "host-b"})
    assert isinstance(none, NoRoom)
    assert "esx-a, esx-b (vCenter could not create or start the VM there)" in none.words


def test_only_hosts_of_the_failure_domain_are_taken() -> None:
    here = replace(cards("a", ""), groups_of=("rack-1",))
    for domain in (
        Domain("DC0", "gpu", "rack-1"),
        Domain("/DC0", "/DC0/host/gpu"),
        Domain("*", "domain-c7"),
    ):
        assert isinstance(choose_host([here], wants(CARD), (), domain=domain), Reservation)
    for domain in (Domain("DC1"), Domain("DC0", "other"), Domain("DC0", "gpu", "rack-2")):
        found = choose_host([here], wants(CARD), (), domain=domain)
        assert isinstance(found, NoHostInDomain)
        assert is_terminal(found)
        assert "Clusters with such hosts: gpu." in found.words


# ------------------------------------------------------------------------------------- in words


def test_who_has_it_is_said() -> None:
    hosts = [
        with_holder(cards("a", "", ""), 0, "vm-7"),
        with_holder(cards("b", ""), 0, "vm-8"),
    ]
    reservations = [
        given("default/w-1", "host-a", (CARD, "0000:01:00.0")),
        given("default/w-0", "host-b", (CARD, "0000:00:00.0"), vm="vm-8"),
    ]
    found = refused(hosts, CARD, reservations=reservations)
    assert not is_terminal(found)
    assert found.words == (
        "No host in this vCenter has room: 10de:1eb8: 1 requested, 0 of 3 free (2 in use by "
        "default/w-0 (vm-8), vm-7; 1 reserved for default/w-1). Laneway retries when something "
        "changes. Release devices, or request fewer."
    )


def test_it_is_said_when_it_is_free_but_not_on_one_host() -> None:
    hosts = [with_holder(cards(name, "", ""), 0, f"vm-{name}") for name in "ab"]
    found = refused(hosts, CARD, CARD)
    assert isinstance(found, NoRoom)
    assert "2 of 4 free" in found.words
    assert "but not all on one host" in found.words


def test_it_is_said_when_the_size_of_others_is_in_the_way() -> None:
    host = shared("a", ["grid_t4-8q"])
    sized = (
        "All vGPUs of a GPU have the same size: 0000:80:00.0 of esx-a has vGPUs of 8 GiB. Laneway"
    )
    assert sized in refused([host], Q4).words
    kept = given("default/w-0", "host-b", (Q8, "0000:80:00.0"))
    assert (
        "0000:80:00.0 of esx-b has vGPUs of 8 GiB"
        in refused([shared("b", [])], Q4, reservations=[kept]).words
    )
    for hosts, requested_item in (
        ([shared("a", ["grid_t4-8q", "grid_t4-8q"])], Q8),  # full of the very same
        ([shared("a", ["grid_t4-8q", "grid_t4-8q"])], Q4),  # full in any case
        ([cards("a", ""), with_holder(cards("b", ""), 0, "vm-1")], GroupRequest("none")),
    ):
        assert "one size" not in refused(hosts, requested_item).words


def test_what_no_host_could_ever_have_is_reported_as_that() -> None:
    hosts = [cards("a", "", ""), cards("b", "", "", "")]
    found = refused(hosts, *[CARD] * 4)
    assert isinstance(found, HostsTooSmall)
    assert is_terminal(found)
    assert "esx-b has 3 of 4 x 10de:1eb8; esx-a has 2 of 4 x 10de:1eb8" in found.words


def test_what_there_is_instead_is_said() -> None:
    found = refused([shared("a", []), cards("b", "gold")], VgpuRequest("grid_t4-16c"))
    assert isinstance(found, DeviceNotOffered)
    assert is_terminal(found)
    assert "Available: grid_t4-16q, grid_t4-4q, grid_t4-8q." in found.words


def test_the_cluster_that_has_it_is_named() -> None:
    here, there = cards("a", ""), replace(shared("b", []), cluster="graphics")
    found = choose_host([here, there], wants(Q16), (), domain=Domain("DC0", "gpu"))
    assert isinstance(found, DeviceNotOffered)
    assert found.words == (
        "No host in cluster gpu of datacenter DC0 has grid_t4-16q. Closest: cluster graphics of "
        "datacenter DC0 has it, outside the failure domain. Available: 10de:1eb8. Request "
        "one of these, or choose another failure domain."
    )


def test_what_would_do_but_for_its_state_is_said() -> None:
    off = cards("a", "")
    off = replace(off, devices=(replace(off.devices[0], active=False),))
    assert "passthrough is not active" in refused([off], CARD).words
    silver = refused([cards("b", "silver", "")], GOLD)
    assert "0000:00:00.0 of esx-b is 10de:1eb8 and labelled silver" in silver.words
    divided = shared("c", [])
    divided = replace(divided, shared_gpus=(replace(divided.shared_gpus[0], mode=MULTI_INSTANCE),))
    assert f"in mode {MULTI_INSTANCE}" in refused([divided], Q16).words


@pytest.mark.parametrize(
    "requested_item",
    [
        [VgpuRequest("../%2e\n\x1b[31m" * 100)],
        [GroupRequest("pair/%s of\tthis")],
        [PassthroughRequest((PciIds(0, 0),), "x" * 1024)],
        [PassthroughRequest(())],
        [CARD] * 200,
        [Q4, Q8] * 100,
    ],
)
def test_odd_requests_are_refused_in_one_line(requested_item: list[DeviceRequest]) -> None:
    found = refused([cards("a", *[""] * 8), shared("b", [], [], [], [])], *requested_item)
    assert is_terminal(found)
    assert found.words.isprintable()
    assert len(found.words) < 2000
