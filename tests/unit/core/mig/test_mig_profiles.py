"""GPU instance profiles: which one a vGPU profile needs."""

from __future__ import annotations

import pytest

from laneway.core.gpu.modes import GpuInstanceProfile
from laneway.core.mig.profiles import expected_profiles, instance_profile, per_instance
from laneway.core.vgpu.catalogue import profiles_of
from laneway.core.vgpu.profiles import Profile, profile

A100, A30, RTX_PRO = "20f1", "20b7", "2bb5"


def vgpu(name: str) -> Profile:
    found = profile(name)
    assert found is not None
    return found


MIG_CARDS = sorted(
    {"20f1", "20b5", "20b7", "2331", "2321", "233b", "2901", "2941", "3182", "2bb5", "2bb9"}
)


@pytest.mark.parametrize(
    ("name", "instance", "most"),
    [
        ("GRID A100-1-5C", "1g.5gb", 1),
        ("GRID A100-1-10C", "1g.10gb", 1),
        ("GRID A100-1-5CME", "1g.5gb+me", 1),
        ("GRID A100-4-20C", "4g.20gb", 1),
        ("NVIDIA A30-2-12CME", "2g.12gb+me", 1),
        ("NVIDIA RTX Pro 6000 Blackwell DC-1-2Q", "1g.24gb+gfx", 12),
        ("NVIDIA RTX Pro 6000 Blackwell DC-1-24Q", "1g.24gb+gfx", 1),
        ("NVIDIA RTX Pro 6000 Blackwell DC-2-24Q", "2g.48gb+gfx", 2),
        ("NVIDIA RTX Pro 6000 Blackwell DC-4-32C", "4g.96gb+gfx", 3),
    ],
)
def test_a_profile_names_its_instance(name: str, instance: str, most: int) -> None:
    device = {"A100": A100, "A30": A30, "DC": RTX_PRO}[vgpu(name).board]

    found = instance_profile(vgpu(name), expected_profiles(device))

    assert found is not None
    assert found.name == instance
    assert per_instance(vgpu(name), found) == most


@pytest.mark.parametrize("device", MIG_CARDS)
def test_every_mig_backed_profile_has_an_instance_that_gives_its_maximum(device: str) -> None:
    rows = [row for row in profiles_of(device) if row.mig_backed]

    assert rows
    for row in rows:
        found = instance_profile(vgpu(row.name), expected_profiles(device))
        assert found is not None, row.name
        assert per_instance(vgpu(row.name), found) * found.total == row.max_per_gpu, row.name


def test_the_geometry_of_an_a100_follows_from_its_vgpu_profiles() -> None:
    found = {one.name: one for one in expected_profiles(A100)}
    assert {name: (one.total, one.starts, one.size) for name, one in found.items()} == {
        "1g.5gb": (7, (0, 1, 2, 3, 4, 5, 6), 1),
        "1g.5gb+me": (1, (0, 1, 2, 3, 4, 5, 6), 1),
        "1g.10gb": (4, (0, 2, 4, 6), 2),
        "2g.10gb": (3, (0, 2, 4), 2),
        "3g.20gb": (2, (0, 4), 4),
        "4g.20gb": (1, (0,), 4),
        "7g.40gb": (1, (0,), 8),
    }


def test_a_board_that_the_catalogue_lacks_is_read_by_name() -> None:
    drivers = (
        GpuInstanceProfile("1g.12gb", 19, 4, (0, 2, 4, 6), 2),
        GpuInstanceProfile("1g.12gb+gfx", 47, 4, (0, 2, 4, 6), 2),
    )
    graphics = instance_profile(vgpu("NVIDIA Z9-1-3Q"), drivers)
    compute = instance_profile(vgpu("NVIDIA Z9-1-12C"), drivers)

    assert graphics is not None
    assert compute is not None
    assert (graphics.name, compute.name) == ("1g.12gb+gfx", "1g.12gb")
    assert per_instance(vgpu("NVIDIA Z9-1-3Q"), graphics) == 4
    assert per_instance(vgpu("NVIDIA Z9-1-12C"), compute) == 1
