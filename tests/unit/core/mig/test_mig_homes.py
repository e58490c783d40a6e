"""GPU instances as homes of vGPUs: who finds room, and in which order they must come for that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from hypothesis import given
from hypothesis import strategies as st

from laneway.core.gpu.modes import GpuInstance, GpuModes
from laneway.core.inventory import ConfiguredVgpu, VgpuFunction
from laneway.core.mig.homes import Home, creation_order, homes
from laneway.core.mig.profiles import expected_profiles
from laneway.core.pci import PciAddress

RTX_PRO = "2bb5"
SMALL, LARGE = "1g.24gb+gfx", "2g.48gb+gfx"
MOST = {2: 12, 3: 8, 4: 6, 6: 4, 8: 3, 12: 2, 24: 1}
"""Of each size in one small instance."""


def named(gib: int, slices: int = 1) -> str:
    return f"NVIDIA RTX Pro 6000 Blackwell DC-{slices}-{gib}Q"


def order(wanted: dict[str, int], *lines: Sequence[Home]) -> tuple[str, ...] | None:
    return creation_order(wanted, expected_profiles(RTX_PRO), lines)


def function(number: int, profile: str, instance: int | None) -> VgpuFunction:
    gpu = PciAddress.parse("0000:08:00.0")
    return VgpuFunction(
        address=PciAddress(0, 8, 1, number),
        parent=gpu,
        framework="vendor-vfio",
        supported=(),
        creatable=(),
        configured=ConfiguredVgpu("1", profile, gpu_instance=instance),
    )


def as_the_driver_does(made: Iterable[str], line: Iterable[Home]) -> bool:
    """Each into the first instance that serves it and has room."""
    there = list(line)
    for name in made:
        gib = int(name.rpartition("-")[2][:-1])
        for at, home in enumerate(there):
            if home.framebuffer_mib in (0, gib * 1024) and home.count < MOST[gib]:
                there[at] = Home(home.profile, gib * 1024, home.count + 1)
                break
        else:
            return False
    return True


def test_an_instance_that_has_begun_with_a_size_takes_more_of_it_first() -> None:
    small, middle = named(2), named(6)
    begun, empty = Home(SMALL, 6144, 2), Home(SMALL)
    wanted = {middle: 2, small: 1}

    assert order(wanted, [begun, empty]) == (middle, middle, small)
    assert order(wanted, [empty, begun]) == (small, middle, middle)
    assert order(wanted, [empty, begun], [begun, empty]) == (small, middle, middle)
    assert order(wanted, [begun]) is None
    assert order(wanted, [empty, Home(SMALL, 2048, 12)]) is None


def test_kinds_of_instances_are_filled_each_for_itself() -> None:
    line = [Home(LARGE), Home(SMALL), Home(SMALL)]

    made = order({named(24, 2): 2, named(2): 12, named(8): 3}, line)

    assert made is not None
    assert Counter(made) == {named(24, 2): 2, named(2): 12, named(8): 3}
    assert order({named(24, 2): 3, named(2): 12}, line) is None


def test_more_sizes_than_instances_are_refused_at_once() -> None:
    """Anybody can ask that of an agent, and to try every order would take it years."""
    wanted = {named(gib): 1 for gib in MOST} | {named(gib, 2): 1 for gib in (12, 16, 24, 48)}

    assert order(wanted, [Home(SMALL)] * 4 + [Home(LARGE)] * 3) is None


@given(
    st.dictionaries(st.sampled_from(sorted(MOST)), st.integers(1, 6), max_size=3),
    st.lists(
        st.sampled_from((0, *MOST)).flatmap(
            lambda gib: (
                st.integers(1, MOST[gib]).map(lambda count: Home(SMALL, gib * 1024, count))
                if gib
                else st.just(Home(SMALL))
            )
        ),
        max_size=4,
    ),
)
def test_in_the_given_order_the_driver_finds_room_for_all(
    sizes: dict[int, int], line: list[Home]
) -> None:
    wanted = {named(gib): count for gib, count in sizes.items()}
    made = order(wanted, line)
    if made is not None:
        assert Counter(made) == Counter(wanted)
        assert as_the_driver_does(made, line)


def test_a_home_tells_what_is_in_it() -> None:
    instances = tuple(GpuInstance(number, SMALL, 0, number, 1) for number in (4, 3, 2, 1))
    there = [
        function(0, named(2), 1),
        function(1, named(2), 1),
        function(2, named(2), 2),
        function(3, named(8), 2),
        function(4, "of a release to come", 3),
        function(5, named(8), None),
    ]

    found = homes(there, GpuModes(mig=True, instances=instances))

    assert found == [Home(SMALL, 2048, 2), Home(SMALL, -1, 2), Home(SMALL, -1, 1), Home(SMALL)]
    assert [home.room(SMALL, 2048, 12) for home in found] == [10, 0, 0, 12]
