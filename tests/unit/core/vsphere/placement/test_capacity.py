"""What a part of a vCenter has, and for how many machines that is enough."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from laneway.core.vsphere.inventory.hosts import (
    MIXED_SIZE,
    Device,
    DeviceGroup,
    GroupPart,
    Host,
    Profile,
    SharedGpu,
    VgpuUser,
)
from laneway.core.vsphere.placement.capacity import Capacity, capacity, domains, fits
from laneway.core.vsphere.placement.domain import Domain
from laneway.core.vsphere.placement.placing import choose_host
from laneway.core.vsphere.placement.reservation import DeviceAllocation, Reservation
from laneway.core.vsphere.spec.requests import (
    GroupRequest,
    PassthroughRequest,
    PciIds,
    Requested,
    VgpuRequest,
)

T4 = PciIds(0x10DE, 0x1EB8)
CARD, GOLD = PassthroughRequest((T4,)), PassthroughRequest((T4,), "gold")
PROFILES = tuple(Profile(f"grid_t4-{gib}q", gib) for gib in (4, 8, 16))


def host(name: str, *labels: str, users: tuple[tuple[str, ...], ...] = ()) -> Host:
    return Host(
        f"host-{name}",
        f"esx-{name}",
        "DC0",
        f"cluster-{name[0]}",
        devices=tuple(Device(f"0000:0{at}:00.0", T4, "T4", one) for at, one in enumerate(labels)),
        shared_gpus=tuple(
            SharedGpu(
                f"0000:8{at}:00.0",
                "T4",
                16,
                profiles=PROFILES,
                users=tuple(VgpuUser(f"vm-{number}", one) for number, one in enumerate(there)),
            )
            for at, there in enumerate(users)
        ),
    )


def numbers(found: Capacity) -> dict[str, tuple[int, int, int, int]]:
    """Total, in use, reserved and free, by what it is."""
    return {
        one.supply.what: (one.supply.total, one.supply.used, one.supply.reserved, one.supply.free)
        for one in found.kinds
    }


def test_devices_are_counted_by_label_and_vgpus_by_profile() -> None:
    hosts = [host("a1", "", "", "gold"), host("a2", "", users=((), ("grid_t4-4q", "grid_t4-4q")))]
    busy = replace(
        hosts[0], devices=(replace(hosts[0].devices[0], holder="vm-7"), *hosts[0].devices[1:])
    )
    kept = Reservation("default/w", "host-a1", (DeviceAllocation(CARD, ("0000:01:00.0",)),))
    shared = Reservation(
        "default/v", "host-a2", (DeviceAllocation(VgpuRequest("grid_t4-8q"), ("0000:80:00.0",)),)
    )
    found = capacity([busy, hosts[1]], [kept, shared])
    assert found.hosts == 2
    assert found.skipped == ()
    assert numbers(found) == {
        "10de:1eb8": (3, 1, 1, 1),
        "10de:1eb8 labelled gold": (1, 0, 0, 1),
        "grid_t4-16q": (2, 0, 0, 0),
        "grid_t4-4q": (8, 2, 0, 2),
        "grid_t4-8q": (4, 0, 1, 1),
    }
    assert {one.name for one in found.kinds} == {"T4"}
    assert found.kinds[0].supply.in_use == (("vm-7", 1),)


def test_what_a_closed_host_has_is_not_free() -> None:
    hosts = [replace(host("a1", "", ""), maintenance=True), host("a2", "")]
    found = capacity(hosts, ())
    assert numbers(found) == {"10de:1eb8": (3, 0, 0, 1)}
    assert found.skipped == (("esx-a1", "in maintenance mode"),)
    unshared = capacity([replace(host("b1", "", users=((),)), shared_direct=False)], ())
    assert numbers(unshared)["grid_t4-16q"] == (1, 0, 0, 0)
    assert numbers(unshared)["10de:1eb8"] == (1, 0, 0, 1)
    assert unshared.skipped == (("esx-b1", "its default graphics type is not Shared Direct"),)


def test_clusters_are_counted_each_for_itself() -> None:
    hosts = [host("b1", ""), host("a1", ""), host("a2", "")]
    assert domains(hosts) == (Domain("DC0", "cluster-a"), Domain("DC0", "cluster-b"))
    totals = [capacity(hosts, (), one).kinds[0].supply.total for one in domains(hosts)]
    assert totals == [2, 1]


def test_groups_are_counted_by_hosts() -> None:
    group = DeviceGroup("pair", "two of them", (GroupPart("pciPassthru", "T4", T4),) * 2)
    hosts = [replace(host(name, "", ""), device_groups=(group,)) for name in ("a1", "a2", "a3")]
    kept = Reservation(
        "default/w",
        "host-a1",
        (DeviceAllocation(GroupRequest("pair"), ("0000:00:00.0", "0000:01:00.0")),),
    )
    found = capacity(hosts, [kept])
    assert numbers(found)["device group pair"] == (3, 0, 1, 2)
    assert numbers(found)["10de:1eb8"] == (6, 0, 2, 4)
    assert fits(hosts, Requested((GroupRequest("pair"),)), [kept]) == 2


def test_machines_are_counted_over_hosts() -> None:
    hosts = [host("a1", "", "", ""), host("a2", "", "gold"), host("b1", "", "")]
    assert fits(hosts, Requested((CARD,)), ()) == 7
    assert fits(hosts, Requested((CARD, CARD)), ()) == 3
    assert fits(hosts, Requested((CARD, GOLD)), ()) == 1
    assert fits(hosts, Requested((CARD,)), (), Domain(cluster="cluster-a")) == 5
    assert fits(hosts, Requested((CARD,)), (), limit=4) == 4
    assert fits([replace(hosts[0], connected=False)], Requested((CARD,)), ()) == 0
    assert fits(hosts, Requested((VgpuRequest("grid_t4-4q"),)), ()) == 0


def test_what_is_put_badly_one_after_the_other_is_put_together() -> None:
    four, two = Profile("four", 4), Profile("two", 2)
    there = Host(
        "host-1",
        "esx-1",
        shared_gpus=(
            SharedGpu("0000:80:00.0", "", 8, MIXED_SIZE, (four, two)),
            SharedGpu("0000:81:00.0", "", 16, MIXED_SIZE, (four,)),
        ),
    )
    assert fits([there], Requested((VgpuRequest("four"), VgpuRequest("two"))), ()) == 4


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=4),
    st.lists(st.sampled_from([1, 2, 3]), max_size=4),
    st.sampled_from([1, 2, 3]),
)
def test_as_many_are_placed_as_fit(cards, others, count) -> None:
    hosts = [host(f"a{at}", *[""] * number) for at, number in enumerate(cards)]
    given: list[Reservation] = []
    for number, size in enumerate(others):
        found = choose_host(hosts, Requested((CARD,) * size), given, machine=f"default/o{number}")
        given += [found] if isinstance(found, Reservation) else []
    requested = Requested((CARD,) * count)
    expected, placed = fits(hosts, requested, given), 0
    while isinstance(
        found := choose_host(hosts, requested, given, machine=f"default/{placed}"), Reservation
    ):
        given.append(found)
        placed += 1
    assert placed == expected
