"""What is attached is compared with what is requested one to one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from laneway.core.vsphere.inventory.hosts import DeviceGroup, GroupPart, Host
from laneway.core.vsphere.inventory.vms import (
    Attached,
    DynamicBacking,
    FixedBacking,
    VgpuBacking,
)
from laneway.core.vsphere.provisioning.matching import match, parts_of, serves
from laneway.core.vsphere.spec.requests import (
    DeviceRequest,
    GroupRequest,
    PassthroughRequest,
    PciIds,
    Requested,
    VgpuRequest,
)

T4, A40 = PciIds(0x10DE, 0x1EB8), PciIds(0x10DE, 0x2235)

ASKED = st.one_of(
    st.builds(VgpuRequest, st.sampled_from(["grid_t4-8q", "grid_t4-16q"])),
    st.builds(
        PassthroughRequest,
        st.sampled_from([(T4,), (A40,), (T4, A40)]),
        st.sampled_from(["", "lab-a", "lab-b"]),
    ),
    st.builds(GroupRequest, st.sampled_from(["pair", "quad"])),
)
WISHES = st.lists(ASKED, max_size=5).map(lambda devices: Requested(tuple(devices)))


def as_ordered(requested: Requested, first: int = 13000) -> list[Attached]:
    """The devices that a VM has after all was attached that was requested."""
    found: list[Attached] = []
    for index, requested_item in enumerate(requested.devices):
        key = first + 10 * index
        match requested_item:
            case VgpuRequest(profile=profile):
                found.append(Attached(key, VgpuBacking(profile)))
            case PassthroughRequest(allowed=allowed, label=label):
                found.append(Attached(key, DynamicBacking(allowed, label)))
            case GroupRequest(name=name):
                found += [
                    Attached(key + part, DynamicBacking((T4,)), index + 1, name)
                    for part in range(2)
                ]
    return found


def served(requested: Sequence[DeviceRequest], units: Sequence[Attached]) -> int:
    """The most items that can be served, by trying every way."""
    size = max(len(requested), len(units))
    padded: list[Attached | None] = [*units, *[None] * (size - len(units))]
    return max(
        sum(
            unit is not None and serves(unit, requested_item)
            for unit, requested_item in zip(order, requested, strict=False)
        )
        for order in permutations(padded)
    )


@given(WISHES, st.randoms())
def test_what_was_attached_as_asked_is_neither_missing_nor_surplus(requested, random) -> None:
    attached = as_ordered(requested)
    random.shuffle(attached)
    found = match(requested, attached)
    assert found.missing == ()
    assert found.surplus == ()
    assert all(
        allocation is not None and serves(allocation, requested_item)
        for allocation, requested_item in zip(found.allocations, requested.devices, strict=True)
    )


@given(WISHES, WISHES)
def test_no_device_serves_two_items_and_as_many_are_served_as_can_be(requested, other) -> None:
    attached = [one for one in as_ordered(other) if not one.group]
    found = match(requested, attached)
    keys = [allocation.key for allocation in found.allocations if allocation is not None]
    assert len(keys) == len(set(keys)) == served(requested.devices, attached)
    assert len(found.missing) == len(requested.devices) - len(keys)
    assert sorted(keys + [one.key for one in found.surplus]) == sorted(one.key for one in attached)


def test_equal_cards_are_distinguished_by_their_labels() -> None:
    requested = Requested((PassthroughRequest((T4,), "lab-a"), PassthroughRequest((T4,), "lab-b")))
    a, b = Attached(1, DynamicBacking((T4,), "lab-a")), Attached(2, DynamicBacking((T4,), "lab-b"))
    assert match(requested, [b, a]).allocations == (a, b)
    both_a = match(requested, [a, Attached(3, DynamicBacking((T4,), "lab-a"))])
    assert both_a.missing == (requested.devices[1],)
    assert [one.key for one in both_a.surplus] == [3]


def test_equal_labels_are_counted() -> None:
    requested = Requested((PassthroughRequest((T4,), "lab-a"),) * 2)
    one = Attached(1, DynamicBacking((T4,), "lab-a"))
    assert match(requested, [one]).allocations == (one, None)
    assert match(requested, [one]).missing == (requested.devices[1],)


def test_an_item_without_a_label_leaves_the_labelled_device_to_others() -> None:
    plain, gold = PassthroughRequest((T4,)), PassthroughRequest((T4,), "gold")
    without, with_ = Attached(1, DynamicBacking((T4,))), Attached(2, DynamicBacking((T4,), "gold"))
    assert match(Requested((plain,)), [with_, without]).allocations == (without,)
    assert match(Requested((plain, gold)), [with_, without]).allocations == (without, with_)
    assert match(Requested((plain,)), [with_]).allocations == (with_,)


def test_an_item_that_has_a_choice_leaves_others_theirs() -> None:
    a, b = Attached(1, DynamicBacking((T4,))), Attached(2, DynamicBacking((A40,)))
    gold = Attached(3, DynamicBacking((T4,), "gold"))
    either, t4 = PassthroughRequest((T4, A40)), PassthroughRequest((T4,))
    assert match(Requested((either, t4)), [a, b, gold]).allocations == (b, a)


def test_a_device_that_could_be_something_else_is_not_what_was_requested() -> None:
    either, one = Attached(1, DynamicBacking((T4, A40))), Attached(2, DynamicBacking((T4,)))
    assert match(Requested((PassthroughRequest((T4,)),)), [either]).surplus == (either,)
    assert match(Requested((PassthroughRequest((T4, A40)),)), [one]).missing == ()


def test_subsystem_and_revision_are_part_of_what_is_requested() -> None:
    exact = PciIds(*T4[:2], 0x10DE, 0x12A2, 0xA1)
    one, any_ = Attached(1, DynamicBacking((exact,))), Attached(2, DynamicBacking((T4,)))
    assert match(Requested((PassthroughRequest((exact,)),)), [any_, one]).allocations == (one,)
    assert match(Requested((PassthroughRequest((exact,)),)), [any_]).allocations == (None,)
    assert match(Requested((PassthroughRequest((T4,)),)), [one]).allocations == (one,)


def test_a_fixed_device_has_no_holder() -> None:
    fixed = Attached(1, FixedBacking("0000:3b:00.0"))
    found = match(Requested((PassthroughRequest((T4,)),)), [fixed])
    assert found.missing
    assert found.surplus == (fixed,)


def test_a_part_of_a_group_serves_no_single_item() -> None:
    part = Attached(1, VgpuBacking("grid_t4-8q"), group=1, group_name="pair")
    assert match(Requested((VgpuRequest("grid_t4-8q"),)), [part]).surplus == (part,)
    assert match(Requested((GroupRequest("quad"),)), [part]).missing
    assert match(Requested((GroupRequest("pair"),)), [part]).allocations == (part,)


def test_a_part_of_a_group_serves_no_machine() -> None:
    requested = Requested((GroupRequest("pair"),))
    whole = [Attached(key, VgpuBacking("grid_t4-8q"), group=1, group_name="pair") for key in (1, 2)]
    hosts = [
        Host(
            "host-1",
            "a",
            device_groups=(DeviceGroup("pair", parts=(GroupPart("nvidiaVgpu", "T4"),) * 2),),
        )
    ]
    parts = parts_of(requested, hosts)
    assert match(requested, whole, parts).missing == ()
    lost = match(requested, whole[:1], parts)
    assert (lost.missing, lost.surplus) == (requested.devices, (whole[0],))


def test_a_group_without_a_reported_name_is_the_requested_one() -> None:
    parts = [Attached(key, VgpuBacking("grid_t4-8q"), group=1) for key in (1, 2)]
    found = match(Requested((GroupRequest("pair"),)), parts)
    assert found.allocations == (parts[0],)
    assert found.surplus == ()
