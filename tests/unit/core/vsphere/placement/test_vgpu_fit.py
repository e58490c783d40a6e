"""What a board takes: published numbers, and the rules of its mode."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from laneway.core.vgpu.catalogue import VgpuProfile, profiles_of
from laneway.core.vsphere.inventory.hosts import (
    MIXED_SIZE,
    MULTI_INSTANCE,
    SAME_SIZE,
    Profile,
    SharedGpu,
    VgpuUser,
)
from laneway.core.vsphere.placement.vgpu_fit import current_load, vgpu_size, vgpus_left

GIB = 1024
T4, A40, A100, H100, A16, A30 = "1eb8", "2235", "20f1", "2331", "25b6", "20b7"
PRO_6000, PRO_6000D, ADA_6000 = "2bb5", "2bb9", "26b1"
PRO = "nvidia_rtx_pro_6000_blackwell_dc"
DIVIDED = (A100, H100, A30, PRO_6000, PRO_6000D, "20b5", "2342", "2335", "2329", "2901", "2941")


def written(row: VgpuProfile) -> str:
    """As vCenter writes it."""
    words = row.name.lower().split(" ")
    return "_".join(words) if len(words) > 2 else f"grid_{words[1]}"


def gpu(device: str, mode: str, *users: str, reported: bool = True, short_of: int = 1) -> SharedGpu:
    """A board of the catalogue, whose memory is reported without what the card keeps for itself."""
    rows = [row for row in profiles_of(device) if row.mig_backed == (mode == MULTI_INSTANCE)]
    return SharedGpu(
        "0000:3b:00.0",
        "",
        max(row.framebuffer_mib for row in rows) // GIB - short_of,
        mode,
        tuple(
            Profile(written(row), row.framebuffer_mib // GIB if reported else 0, mig=row.mig_backed)
            for row in rows
        ),
        tuple(VgpuUser("vm-1", user) for user in users),
    )


def fits(there: SharedGpu, name: str) -> int:
    """How many more of a profile."""
    return vgpus_left(there, current_load(there), name)


@pytest.mark.parametrize("reported", [True, False], ids=["sizes-reported", "sizes-by-name"])
@pytest.mark.parametrize("device", [T4, A40, A100, H100, ADA_6000, PRO_6000])
def test_an_empty_board_takes_as_many_as_published(device: str, reported: bool) -> None:
    empty = gpu(device, SAME_SIZE, reported=reported)
    rows = [row for row in profiles_of(device) if not row.mig_backed]
    assert rows
    for row in rows:
        assert fits(empty, written(row)) == row.max_per_gpu, row.name


@pytest.mark.parametrize("short_of", [0, 1])
@pytest.mark.parametrize("device", DIVIDED)
def test_a_divided_board_takes_as_many_as_published(device: str, short_of: int) -> None:
    empty = gpu(device, MULTI_INSTANCE, short_of=short_of)
    rows = [row for row in profiles_of(device) if row.mig_backed]
    assert rows
    for row in rows:
        assert fits(empty, written(row)) == row.max_per_gpu, row.name


@pytest.mark.parametrize("mode", [SAME_SIZE, ""])
def test_vgpus_of_a_board_have_one_size(mode: str) -> None:
    there = gpu(T4, mode, "grid_t4-4q")
    assert fits(there, "grid_t4-4q") == 3
    assert fits(there, "grid_t4-4c") == 3
    assert fits(there, "grid_t4-8q") == 0
    assert fits(there, "grid_t4-2q") == 0


def test_media_engines_are_one_vgpus() -> None:
    there = gpu(A100, MULTI_INSTANCE, "nvidia_a100-1-5cme")
    assert fits(there, "grid_a100-1-5cme") == 0
    assert fits(there, "grid_a100-1-5c") == 6
    assert fits(there, "grid_a100-2-10c") == 3
    there = gpu(A30, MULTI_INSTANCE, "grid_a30-2-12cme")
    assert fits(there, "grid_a30-1-6cme") == fits(there, "grid_a30-2-12cme") == 0
    assert fits(there, "grid_a30-1-6c") == 2


def test_vgpus_of_one_size_share_an_instance_and_others_do_not() -> None:
    """A card of four quarters; a quarter takes twelve vGPUs of 2 GiB, or six of 4."""
    one = gpu(PRO_6000, MULTI_INSTANCE, f"{PRO}-1-2q")
    assert fits(one, f"{PRO}-1-2q") == 47
    assert fits(one, f"{PRO}-1-2b") == 47
    assert fits(one, f"{PRO}-1-4q") == 18
    assert fits(one, f"{PRO}-2-48q") == 1
    assert fits(one, f"{PRO}-4-96q") == 0
    sizes = [f"{PRO}-1-{size}q" for size in (2, 4, 8)]
    three = gpu(PRO_6000, MULTI_INSTANCE, *sizes)
    assert [fits(three, name) for name in sizes] == [23, 11, 5]
    assert fits(three, f"{PRO}-1-24q") == 1
    four = gpu(PRO_6000, MULTI_INSTANCE, *sizes, f"{PRO}-1-24q")
    assert [fits(four, name) for name in sizes] == [11, 5, 2]
    assert fits(four, f"{PRO}-1-12q") == 0


def test_in_mixed_sizes_the_newest_cards_lose_nothing() -> None:
    for name, count in (("8q", 12), ("2b", 32), ("32q", 3), ("96q", 1)):
        assert fits(gpu(PRO_6000, MIXED_SIZE), f"{PRO}-{name}") == count
    assert fits(gpu(PRO_6000, MIXED_SIZE, f"{PRO}-48q"), f"{PRO}-24q") == 2


def test_sizes_mix_where_the_board_allows_it() -> None:
    there = gpu(A40, MIXED_SIZE, "nvidia_a40-24q", "nvidia_a40-8q")
    assert fits(there, "grid_a40-8q") == 1
    assert fits(there, "grid_a40-16q") == 0
    assert fits(there, "grid_a40-24q") == 0


def test_in_mixed_sizes_a_vgpu_takes_the_place_that_the_driver_has_for_it() -> None:
    assert fits(gpu(A40, MIXED_SIZE), "grid_a40-12q") == 4
    assert fits(gpu(A40, MIXED_SIZE), "grid_a40-16q") == 2
    assert fits(gpu(A40, SAME_SIZE), "grid_a40-16q") == 3


def test_a_divided_board_takes_no_time_sliced_vgpu_and_no_other_takes_mig() -> None:
    sliced, mig = Profile("grid_a100-10c", 10), Profile("grid_a100-2-10c", 10, mig=True)
    for mode, expected in (
        (MULTI_INSTANCE, {"grid_a100-2-10c"}),
        (SAME_SIZE, {"grid_a100-10c"}),
        (MIXED_SIZE, {"grid_a100-10c"}),
        ("", {"grid_a100-10c", "grid_a100-2-10c"}),
    ):
        there = SharedGpu("x", "A100", 40, mode, (sliced, mig))
        assert {one.name for one in (sliced, mig) if vgpu_size(there, one.name)} == expected
    old = SharedGpu("x", "A100", 40, "", (sliced, mig), (VgpuUser("vm-1", "grid_a100-2-10c"),))
    assert fits(old, "grid_a100-10c") == 0
    assert fits(old, "grid_a100-2-10c") == 2


def test_instances_share_memory_and_compute() -> None:
    half = gpu(A100, MULTI_INSTANCE, "grid_a100-4-20c", short_of=0)
    assert fits(half, "grid_a100-3-20c") == 1
    assert fits(half, "grid_a100-4-20c") == 0
    assert fits(half, "grid_a100-1-5c") == 3


def test_a_vgpu_of_which_nothing_is_known_leaves_no_room() -> None:
    assert fits(gpu(T4, SAME_SIZE, ""), "grid_t4-1q") == 0
    assert fits(gpu(T4, MIXED_SIZE, "quantum-9"), "grid_t4-1q") == 0


def test_a_vgpu_of_no_known_size_takes_an_empty_board_whole() -> None:
    odd = SharedGpu("x", "", 16, "", (Profile("quantum", 0), Profile("grid_t4-8q", 8)))
    assert fits(odd, "quantum") == 1
    with_it = replace(odd, users=(VgpuUser("vm-1", "quantum"),))
    assert fits(with_it, "grid_t4-8q") == fits(with_it, "quantum") == 0
    with_other = replace(odd, users=(VgpuUser("vm-1", "grid_t4-8q"),))
    assert fits(with_other, "quantum") == 0


def test_a_profile_that_the_board_does_not_list_any_more_still_takes_its_size() -> None:
    there = SharedGpu(
        "x", "T4", 16, MIXED_SIZE, (Profile("grid_t4-8q", 8),), (VgpuUser("v", "grid_t4-4q"),)
    )
    assert fits(there, "grid_t4-8q") == 1


def test_instances_of_unknown_names_share_memory() -> None:
    half, all_ = Profile("part", 4, mig=True), Profile("whole", 8, mig=True)
    there = SharedGpu("x", "", 8, MULTI_INSTANCE, (half, all_))
    assert (fits(there, "part"), fits(there, "whole")) == (2, 1)
