"""Whatever hosts have: no device is reserved twice, and none is refused that is free.

The rules of boards are written here once more, in the plainest way, and every way of putting
devices is tried.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from laneway.core.refusals.vsphere import is_terminal
from laneway.core.vsphere.inventory.hosts import (
    MIXED_SIZE,
    MULTI_INSTANCE,
    SAME_SIZE,
    Device,
    DeviceGroup,
    GroupPart,
    Host,
    Profile,
    SharedGpu,
    VgpuUser,
)
from laneway.core.vsphere.placement.capacity import fits
from laneway.core.vsphere.placement.placing import choose_host, still_fits
from laneway.core.vsphere.placement.reservation import Reservation
from laneway.core.vsphere.spec.requests import (
    DeviceRequest,
    GroupRequest,
    PassthroughRequest,
    PciIds,
    Requested,
    VgpuRequest,
)

A, B = PciIds(0x10DE, 0x1EB8), PciIds(0x15B3, 0x101D)
PROFILES = {
    "two": Profile("two", 2),
    "four": Profile("four", 4),
    "eight": Profile("eight", 8),
    "slice": Profile("slice", 4, mig=True),
    "half": Profile("half", 8, mig=True),
}
LABELS = ["", "gold", "blue"]
GROUPS = (
    DeviceGroup("pair", parts=(GroupPart("pciPassthru", "", A), GroupPart("pciPassthru", "", B))),
    DeviceGroup("mixed", parts=(GroupPart("nvidiaVgpu", "", None, "four"), GroupPart("dvx", ""))),
)

DEVICES = st.builds(
    PassthroughRequest, st.sampled_from([(A,), (B,), (A, B)]), st.sampled_from(LABELS)
)
VGPUS = st.builds(VgpuRequest, st.sampled_from(sorted(PROFILES)))
ASKED = st.one_of(DEVICES, VGPUS, st.builds(GroupRequest, st.sampled_from(["pair", "mixed"])))
WISHES = st.lists(ASKED, min_size=1, max_size=3).map(lambda devices: Requested(tuple(devices)))


# ------------------------------------------------------------------------- the rules, once more


def is_carried(gpu: SharedGpu, names: Sequence[str]) -> bool:
    """Whether a board can carry vGPUs of these profiles together."""
    if not set(names) <= {one.name for one in gpu.profiles}:
        return False
    profiles = [PROFILES[name] for name in names]
    if sum(one.memory_gib for one in profiles) > gpu.memory_gib:
        return False
    kinds = {one.mig for one in profiles}
    if len(kinds) > 1 or (kinds == {True} and gpu.mode in (SAME_SIZE, MIXED_SIZE)):
        return False
    if kinds == {False} and gpu.mode == MULTI_INSTANCE:
        return False
    sizes = {one.memory_gib for one in profiles}
    return kinds == {True} or gpu.mode == MIXED_SIZE or len(sizes) <= 1


def on_board(gpu: SharedGpu) -> list[str]:
    return [user.profile for user in gpu.users]


def parts(
    host: Host, requested_item: DeviceRequest
) -> list[PassthroughRequest | VgpuRequest] | None:
    if not isinstance(requested_item, GroupRequest):
        return [requested_item]
    if requested_item.name not in {one.name for one in host.device_groups}:
        return None
    return (
        [PassthroughRequest((A,)), PassthroughRequest((B,))]
        if requested_item.name == "pair"
        else [VgpuRequest("four")]
    )


def would_do(device: Device, requested_item: PassthroughRequest) -> bool:
    return device.ids in requested_item.allowed and requested_item.label in ("", device.label)


def ways(
    host: Host, requested: Requested
) -> Iterator[dict[str, list[PassthroughRequest | VgpuRequest]]]:
    """Every way of putting all of it on a host that has no reservations of others, by device."""
    units: list[PassthroughRequest | VgpuRequest] = []
    for requested_item in requested.devices:
        found = parts(host, requested_item)
        if found is None:
            return
        units += found
    free = [one for one in host.devices if one.active and not one.holder]
    choices = [
        [one.id for one in free if would_do(one, unit)]
        if isinstance(unit, PassthroughRequest)
        else [one.id for one in host.shared_gpus]
        for unit in units
    ]
    for way in product(*choices):
        taken: dict[str, list[PassthroughRequest | VgpuRequest]] = {}
        for unit, at in zip(units, way, strict=True):
            taken.setdefault(at, []).append(unit)
        if all(len(taken.get(one.id, ())) <= 1 for one in free) and all(
            is_carried(one, on_board(one) + [unit.profile for unit in taken.get(one.id, ())])
            for one in host.shared_gpus
        ):
            yield taken


# ------------------------------------------------------------------------------------------ hosts


@st.composite
def shared_gpus(draw: st.DrawFn, number: int) -> SharedGpu:
    gpu = SharedGpu(
        f"0000:8{number}:00.0",
        "",
        draw(st.sampled_from([8, 16])),
        draw(st.sampled_from(["", SAME_SIZE, MIXED_SIZE, MULTI_INSTANCE])),
        tuple(PROFILES[name] for name in sorted(draw(st.sets(st.sampled_from(sorted(PROFILES)))))),
    )
    for at in range(draw(st.integers(0, 2))):
        names = [one.name for one in gpu.profiles if is_carried(gpu, [*on_board(gpu), one.name])]
        if names:
            user = VgpuUser(f"vm-9{number}{at}", draw(st.sampled_from(names)))
            gpu = replace(gpu, users=(*gpu.users, user))
    return gpu


@st.composite
def hosts(draw: st.DrawFn, number: int = 0) -> Host:
    return Host(
        f"host-{number}",
        f"esx-{number}",
        devices=tuple(
            Device(
                f"0000:0{at}:00.0",
                draw(st.sampled_from([A, A, B])),
                label=draw(st.sampled_from(LABELS)),
                active=draw(st.sampled_from([True, True, True, False])),
                holder=draw(st.sampled_from(["", "", "", f"vm-8{number}{at}"])),
            )
            for at in range(draw(st.integers(0, 4)))
        ),
        shared_gpus=tuple(draw(shared_gpus(at)) for at in range(draw(st.integers(0, 2)))),
        device_groups=tuple(draw(st.sampled_from([(), GROUPS]))),
    )


FLEETS = st.integers(1, 3).flatmap(lambda count: st.tuples(*map(hosts, range(count))))


def check(fleet: Sequence[Host], reservations: Sequence[Reservation]) -> None:
    """Nothing is reserved that does not exist, is in use, or is reserved for another."""
    for host in fleet:
        here = [
            allocation
            for one in reservations
            if one.host == host.ref
            for allocation in one.allocations
        ]
        given: dict[str, list[PassthroughRequest | VgpuRequest]] = {}
        for allocation in here:
            units = parts(host, allocation.request)
            assert units is not None
            for unit, at in zip(units, allocation.devices, strict=True):
                given.setdefault(at, []).append(unit)
        by_id = {one.id: one for one in host.devices}
        board_of = {one.id: one for one in host.shared_gpus}
        for at, units in given.items():
            if at in by_id:
                (unit,) = units
                assert isinstance(unit, PassthroughRequest)
                assert would_do(by_id[at], unit)
                assert by_id[at].active
                assert not by_id[at].holder
            else:
                names = [unit.profile for unit in units if isinstance(unit, VgpuRequest)]
                assert len(names) == len(units)
                assert is_carried(board_of[at], on_board(board_of[at]) + names)


def reserve_all(fleet: Sequence[Host], wishes: Sequence[Requested]) -> list[Reservation]:
    """As much as can be reserved, one machine after the other."""
    given: list[Reservation] = []
    for number, requested in enumerate(wishes):
        found = choose_host(fleet, requested, given, machine=f"default/m{number}")
        if isinstance(found, Reservation):
            given.append(found)
    return given


# ------------------------------------------------------------------------------------------- laws


@given(FLEETS, WISHES)
def test_a_machine_is_placed_exactly_if_some_way_of_placing_it_exists(fleet, requested) -> None:
    found = choose_host(fleet, requested, (), machine="default/m")
    exists = any(next(ways(host, requested), None) is not None for host in fleet)
    assert isinstance(found, Reservation) == exists
    if isinstance(found, Reservation):
        assert [allocation.request for allocation in found.allocations] == list(requested.devices)
        check(fleet, [found])


@given(
    st.tuples(*map(shared_gpus, range(3))).map(
        lambda there: Host("host-0", "esx-0", shared_gpus=there)
    ),
    st.lists(VGPUS, min_size=1, max_size=5).map(lambda devices: Requested(tuple(devices))),
)
def test_vgpus_are_put_on_boards_exactly_if_there_is_a_way(host, requested) -> None:
    found = choose_host([host], requested, (), machine="default/m")
    exists = next(ways(host, requested), None) is not None
    assert isinstance(found, Reservation) == exists
    if isinstance(found, Reservation):
        check([host], [found])


@given(FLEETS, st.lists(WISHES, max_size=6))
def test_nothing_is_reserved_twice(fleet, wishes) -> None:
    given = reserve_all(fleet, wishes)
    check(fleet, given)
    for one in given:
        assert still_fits(fleet, one, given)


@given(FLEETS, st.lists(WISHES, max_size=5), WISHES, st.data())
def test_a_reservation_that_ends_blocks_no_machine(fleet, wishes, requested, data) -> None:
    given = reserve_all(fleet, wishes)
    if isinstance(choose_host(fleet, requested, given), Reservation) and given:
        gone = data.draw(st.sampled_from(given))
        assert isinstance(
            choose_host(fleet, requested, [one for one in given if one != gone]), Reservation
        )


@given(FLEETS, st.lists(WISHES, max_size=4), WISHES, st.randoms())
def test_the_order_of_the_facts_does_not_matter(fleet, wishes, requested, random) -> None:
    given = reserve_all(fleet, wishes)
    other, others = list(fleet), list(given)
    random.shuffle(other)
    random.shuffle(others)
    one, two = choose_host(fleet, requested, given), choose_host(other, requested, others)
    assert type(one) is type(two)
    if isinstance(one, Reservation):
        assert one == two


@given(FLEETS, st.lists(WISHES, max_size=4), WISHES)
def test_a_refusal_is_terminal_exactly_if_no_waiting_helps(fleet, wishes, requested) -> None:
    found = choose_host(fleet, requested, reserve_all(fleet, wishes))
    if isinstance(found, Reservation):
        return
    empty = [
        replace(
            host,
            devices=tuple(replace(one, holder="") for one in host.devices),
            shared_gpus=tuple(replace(one, users=()) for one in host.shared_gpus),
        )
        for host in fleet
    ]
    assert is_terminal(found) != isinstance(choose_host(empty, requested, ()), Reservation)
    assert found.words.isprintable()


@given(hosts(), WISHES)
def test_as_many_machines_fit_as_can_be_put_together(host, requested) -> None:
    count = fits([host], requested, (), limit=3)

    def exists(machines: int) -> bool:
        return next(ways(host, Requested(requested.devices * machines)), None) is not None

    assert count == max(number for number in range(4) if not number or exists(number))


@given(hosts(), st.lists(DEVICES, min_size=1, max_size=4))
def test_no_label_is_taken_by_who_did_not_request_it_unless_it_must_be(host, devices) -> None:
    found = choose_host([host], Requested(tuple(devices)), ())
    if not isinstance(found, Reservation):
        return
    labels = {one.id: one.label for one in host.devices}
    borrowed = sum(
        not allocation.request.label and labels[allocation.devices[0]] != ""
        for allocation in found.allocations
        if isinstance(allocation.request, PassthroughRequest)
    )
    least = min(
        sum(not unit.label and labels[at] != "" for at, (unit,) in way.items())
        for way in ways(host, Requested(tuple(devices)))
    )
    assert borrowed == least


# ------------------------------------------------------------------- vCenter picks what it likes


ACTIONS = st.tuples(st.sampled_from(["ask", "start", "stop", "delete"]), st.integers(0, 9))


@given(st.integers(1, 6), st.lists(ACTIONS, max_size=25), st.randoms())
def test_reservations_hold_whichever_equal_card_vcenter_picks(cards, actions, random) -> None:
    holders = {f"0000:0{at}:00.0": "" for at in range(cards)}
    given: dict[str, Reservation] = {}

    def fleet() -> list[Host]:
        devices = tuple(Device(at, A, holder=vm) for at, vm in holders.items())
        return [Host("host-0", "esx-0", devices=devices)]

    for turn, (action, number) in enumerate(actions):
        machine = f"default/m{number}"
        on = set(holders.values())
        if action == "ask" and machine not in given:
            requested = Requested((PassthroughRequest((A,)),) * (1 + turn % 2))
            found = choose_host(fleet(), requested, list(given.values()), machine=machine)
            if isinstance(found, Reservation):
                given[machine] = replace(found, vm=f"vm-{number}")
        elif machine in given and action == "start" and given[machine].vm not in on:
            # Of all that are free: it knows no reservations.
            free = [at for at, vm in holders.items() if not vm]
            for at in random.sample(free, len(given[machine].allocations)):
                holders[at] = given[machine].vm
        elif machine in given and action in ("stop", "delete"):
            vm = given[machine].vm
            holders = {at: "" if holder == vm else holder for at, holder in holders.items()}
            if action == "delete":
                del given[machine]
        off = [one for one in given.values() if one.vm not in set(holders.values())]
        needed = sum(len(one.allocations) for one in off)
        assert needed <= sum(not vm for vm in holders.values())
