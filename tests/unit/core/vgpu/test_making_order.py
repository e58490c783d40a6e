"""The order in which vGPUs are made: as an exhaustive search finds it, and the driver takes it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laneway.core.gpu.modes import GpuInstance, GpuInstanceProfile, GpuModes
from laneway.core.inventory import ConfiguredVgpu, VgpuFunction, VgpuType
from laneway.core.pci import NVIDIA, PciAddress, PciFunction
from laneway.core.vgpu.making_order import Wanted, making_order, together
from laneway.sim.dump import Block
from laneway.sim.nvidia import card as simulated
from laneway.sim.nvidia.geometry import GEOMETRIES
from laneway.sim.nvidia.types import card_types
from support.examples import many

A2, A10, A40, L40S, RTX_PRO = "25b6", "2236", "2235", "26b9", "2bb5"
A100, A100_80 = "20f1", "20b5"
GPU = PciAddress.parse("0000:08:00.0")
FUNCTIONS = [PciAddress(0, 8, n // 8, n % 8) for n in range(4, 20)]
SAME, MIXED = GpuModes(mixed_size=False), GpuModes(mixed_size=True)


class Driver:
    """A simulated GPU on vendor VFIO, shown as a scan shows it."""

    def __init__(self, device: str, *, mixed: bool = False, instances: Sequence[str] = ()) -> None:
        self.gpu = PciFunction(
            address=GPU, vendor=NVIDIA, device=device, class_code="030200", sriov_gpu=True
        )
        block = Block(path="/gpu", properties={}, attributes={"device": f"0x{device}".encode()})
        self.card = simulated.Card(card_types(block, ()), GEOMETRIES.get(device))
        if mixed:
            self.card.set_mixed(enabled=True)
        if instances:
            self.card.set_mig(enabled=True, busy=False)
            kinds = {kind.name: kind for kind in GEOMETRIES[device].profiles}
            for name in instances:
                self.card.create_instance(kinds[name])
        self.names = {kind.name: kind for kind in self.card.types.values()}

    def name(self, size: str) -> str:
        return next(name for name in sorted(self.names) if name.endswith(f"-{size}"))

    def make(self, function: PciAddress, profile: str) -> bool:
        return self.card.create(str(function), self.names[profile])

    def place(self, function: PciAddress) -> int | None:
        made = self.card.vgpu(str(function))
        return made.placement if made else None

    @property
    def modes(self) -> GpuModes:
        profiles = GEOMETRIES[self.gpu.device].profiles if self.card.mig else ()
        return GpuModes(
            mig=self.card.mig,
            mixed_size=None if self.card.mig else self.card.mixed,
            profiles=tuple(
                GpuInstanceProfile(one.name, one.id, one.total, one.starts, one.size)
                for one in profiles
            ),
            instances=tuple(
                GpuInstance(number, one.profile.name, one.profile.id, one.start, 1)
                for number, one in self.card.instances.items()
            ),
        )

    @property
    def functions(self) -> tuple[VgpuFunction, ...]:
        return tuple(self._function(address) for address in FUNCTIONS)

    def _function(self, address: PciAddress) -> VgpuFunction:
        offered = tuple(
            VgpuType(str(kind.id), kind.name) for kind in self.card.creatable(str(address))
        )
        made = self.card.vgpu(str(address))
        configured = made and ConfiguredVgpu(
            str(made.kind.id), made.kind.name, "", None, made.placement, made.instance
        )
        return VgpuFunction(
            address=address,
            parent=GPU,
            framework="vendor-vfio",
            supported=offered,
            creatable=offered,
            configured=configured,
        )

    def order(self, wanted: Sequence[Wanted]) -> tuple[Wanted, ...]:
        return making_order(self.gpu, self.functions, self.modes, wanted)


def asked(driver: Driver, *sizes: str) -> list[Wanted]:
    free = (one.address for one in driver.functions if one.configured is None)
    return [Wanted(address, driver.name(size)) for address, size in zip(free, sizes, strict=False)]


def sizes(order: Sequence[Wanted]) -> list[str]:
    return [one.profile.rpartition("-")[2] for one in order]


def takes(driver: Driver, order: Sequence[Wanted]) -> bool:
    """Whether the driver makes all of these, one after the other; it carries them then."""
    return all(driver.make(one.function, one.profile) for one in order)


# -------------------------------------------------------------------------------- in the given
# order


def test_large_vgpus_of_a_mixed_card_are_made_before_small_ones() -> None:
    driver = Driver(A40, mixed=True)
    wanted = asked(driver, "1Q", "12Q", "24Q")

    order = driver.order(wanted)

    assert sizes(order) == ["24Q", "12Q", "1Q"]
    assert takes(driver, order)


def test_a_smaller_one_comes_first_where_that_leaves_more_room() -> None:
    driver, largest_first = Driver(A40, mixed=True), Driver(A40, mixed=True)
    order = driver.order(asked(driver, "1Q", "16Q", "24Q"))

    assert takes(driver, order)
    assert takes(largest_first, asked(largest_first, "24Q", "16Q", "1Q"))

    assert sizes(order)[0] == "16Q"
    for one, fits in ((driver, True), (largest_first, False)):
        assert takes(one, asked(one, "6Q")) == fits


def test_who_does_not_fit_is_left_out_and_the_first_come_first() -> None:
    driver = Driver(A2)
    wanted = asked(driver, "4Q", "8Q", "4C", "4A", "4Q", "4Q")

    order = driver.order(wanted)

    assert [one.function for one in order] == [FUNCTIONS[n] for n in (0, 2, 3, 4)]


def test_a_profile_that_the_driver_does_not_offer_has_no_place() -> None:
    driver = Driver(A2)
    wanted = [Wanted(FUNCTIONS[0], "NVIDIA A2-99Q"), *asked(driver, "4Q", "4Q")[1:]]

    assert driver.order(wanted) == (wanted[1],)


def test_what_was_there_before_comes_back_where_it_sat() -> None:
    before = Driver(A40, mixed=True)
    made = asked(before, "8Q", "24Q", "16Q", "4Q")
    assert takes(before, made[:2])
    was = [Wanted(one.function, one.profile, before.place(one.function)) for one in made[:2]]
    assert [one.place for one in was] == [0, 24]

    after = Driver(A40, mixed=True)
    order = after.order([was[1], was[0]])

    assert takes(after, order)
    assert [after.place(one.function) for one in was] == [0, 24]
    assert sizes(Driver(A40, mixed=True).order(made[:2])) == ["24Q", "8Q"]


def test_places_that_cannot_be_had_again_give_way_to_that_all_fit() -> None:
    driver = Driver(A40, mixed=True)
    # A hole below it let the 4Q sit at 44; alone it comes to 0 now, where the 48Q must not be
    # affected.
    wanted = [Wanted(FUNCTIONS[0], driver.name("4Q"), 44), Wanted(FUNCTIONS[1], driver.name("24Q"))]

    order = driver.order(wanted)

    assert len(order) == 2
    assert takes(driver, order)


def test_in_gpu_instances_the_order_lets_every_size_find_its_own() -> None:
    driver = Driver(RTX_PRO, instances=["1g.24gb+gfx", "1g.24gb+gfx"])
    wanted = asked(driver, "1-2Q", "1-4Q", "1-2Q", "1-4Q")

    order = driver.order(wanted)

    assert len(order) == 4
    assert takes(driver, order)


def test_a_full_gpu_instance_leaves_the_other_to_who_comes_first() -> None:
    driver = Driver(RTX_PRO, instances=["1g.24gb+gfx", "1g.24gb+gfx"])
    assert takes(driver, asked(driver, "1-8Q", "1-8Q", "1-8Q"))
    wanted = asked(driver, "1-8Q", "1-4Q", "1-8Q")

    assert driver.order(wanted) == (wanted[0], wanted[2])


def test_without_the_driver_s_word_on_gpu_instances_no_vgpu_is_left_out() -> None:
    driver = Driver(RTX_PRO, instances=["1g.24gb+gfx"])
    wanted = asked(driver, "1-2Q", "1-4Q")

    order = making_order(driver.gpu, driver.functions, None, wanted)

    assert sizes(order) == ["4Q", "2Q"]


def test_on_an_unknown_board_the_largest_come_first() -> None:
    kinds = tuple(VgpuType(str(gib), f"NVIDIA NEW-{gib}Q") for gib in (4, 8))
    busy = VgpuFunction(
        address=FUNCTIONS[0],
        parent=GPU,
        framework="vendor-vfio",
        supported=(),
        creatable=(),
        configured=ConfiguredVgpu("4", "NVIDIA NEW-4Q"),
    )
    free = [
        VgpuFunction(
            address=address, parent=GPU, framework="vendor-vfio", supported=kinds, creatable=kinds
        )
        for address in FUNCTIONS[1:3]
    ]
    gpu = PciFunction(address=GPU, vendor=NVIDIA, device="ffff", class_code="030200")
    wanted = [Wanted(free[0].address, kinds[0].name), Wanted(free[1].address, kinds[1].name)]

    assert making_order(gpu, [busy, *free], MIXED, wanted) == (wanted[1], wanted[0])


def test_time_sliced_and_mig_backed_profiles_never_fit_together() -> None:
    driver = Driver(A100)
    wanted = [Wanted(FUNCTIONS[0], driver.name("4C")), Wanted(FUNCTIONS[1], driver.name("1-5C"))]

    assert together(driver.gpu, driver.functions, SAME, wanted) is None


# ------------------------------------------------------------------------------------------- laws


@st.composite
def desired_states(draw: st.DrawFn, count: int = 5) -> tuple[Driver, list[Wanted], str, bool]:
    """A card that may carry something, and some profiles that it could have when empty."""
    device = draw(st.sampled_from([A2, A10, A40, L40S, A100_80, RTX_PRO]))
    mixed = draw(st.booleans())
    driver = Driver(device, mixed=mixed)
    sliced = sorted(name for name, kind in driver.names.items() if not kind.flags)
    some = draw(st.lists(st.sampled_from(sliced), min_size=1, max_size=3, unique=True))
    for address in FUNCTIONS[: draw(st.integers(0, 3))]:
        driver.make(address, draw(st.sampled_from(some)))
    free = [one.address for one in driver.functions if one.configured is None]
    profiles = draw(st.lists(st.sampled_from(some), min_size=1, max_size=count))
    places = st.none() | st.integers(0, 95)
    wanted = [
        Wanted(address, profile, draw(places))
        for address, profile in zip(free, profiles, strict=False)
    ]
    return driver, wanted, device, mixed


def copy_of(driver: Driver, device: str, *, mixed: bool) -> Driver:
    """The same card with what it carries, to try something on."""
    copy = Driver(device, mixed=mixed)
    copy.card._vgpus = dict(driver.card._vgpus)
    copy.card._update()
    return copy


@given(desired_states())
def test_the_driver_takes_every_order_to_its_end(
    desired: tuple[Driver, list[Wanted], str, bool],
) -> None:
    driver, wanted, device, mixed = desired

    order = driver.order(wanted)

    assert takes(copy_of(driver, device, mixed=mixed), order)


@given(desired_states(count=4))
def test_no_vgpu_is_left_out_for_which_an_exhaustive_search_finds_a_place(
    desired: tuple[Driver, list[Wanted], str, bool],
) -> None:
    driver, wanted, device, mixed = desired

    def fit(some: Sequence[Wanted]) -> bool:
        return any(
            takes(copy_of(driver, device, mixed=mixed), order) for order in permutations(some)
        )

    chosen: list[Wanted] = []
    for one in wanted:
        if fit([*chosen, one]):
            chosen.append(one)
    order = driver.order(wanted)
    assert set(order) == set(chosen)
    assert len(order) == len(chosen)


@pytest.mark.parametrize("device", [A40, L40S, A100_80, RTX_PRO])
@given(data=st.data())
def test_after_a_reboot_everything_sits_where_it_sat(device: str, data: st.DataObject) -> None:
    before = Driver(device, mixed=True)
    sliced = sorted(name for name, kind in before.names.items() if not kind.flags)
    some = data.draw(st.lists(st.sampled_from(sliced), min_size=1, max_size=4, unique=True))
    for address in FUNCTIONS:
        before.make(address, data.draw(st.sampled_from(some)))
    carried = [one for one in before.functions if one.configured]
    wanted = [
        Wanted(one.address, one.configured.type_name, one.configured.placement)
        for one in data.draw(st.permutations(carried))
        if one.configured
    ]

    after = Driver(device, mixed=True)
    order = after.order(wanted)

    assert takes(after, order)
    assert {one.function: after.place(one.function) for one in wanted} == {
        one.function: one.place for one in wanted
    }


@settings(max_examples=many(25))
@given(st.data())
def test_in_gpu_instances_too_no_vgpu_is_left_out_that_fits(data: st.DataObject) -> None:
    instances = ["2g.48gb+gfx", "1g.24gb+gfx", "1g.24gb+gfx"]
    names = ["1-2Q", "1-4Q", "1-8Q", "2-12Q", "2-24Q"]
    there = data.draw(st.lists(st.sampled_from(names), max_size=3))
    more = data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=3))

    def card() -> Driver:
        driver = Driver(RTX_PRO, instances=instances)
        for address, size in zip(FUNCTIONS, there, strict=False):
            driver.make(address, driver.name(size))
        return driver

    wanted = asked(card(), *more)

    order = card().order(wanted)

    assert takes(card(), order)
    if len(order) < len(wanted):
        assert not any(takes(card(), some) for some in permutations(wanted))
