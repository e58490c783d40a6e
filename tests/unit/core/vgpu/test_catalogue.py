from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.core.vgpu.catalogue import profile_name, profile_named, profiles_of


def test_a_profile_says_what_planning_needs() -> None:
    profile = profile_named("NVIDIA A40-8Q")

    assert profile is not None
    assert (profile.device, profile.board, profile.series) == ("2235", "A40", "Q")
    assert (profile.framebuffer_mib, profile.max_per_gpu) == (8192, 6)
    assert profile.placement_ids == (0, 16, 24, 40)
    assert not profile.mig_backed


def test_a_mig_backed_profile_names_its_partition() -> None:
    profile = profile_named("NVIDIA H100L-2-24C")

    assert profile is not None
    assert profile.mig_backed
    assert profile.mig_partition == "ONE_QUARTER_GPU"
    assert profile.placement_ids == ()


def test_what_is_not_known_is_none_not_zero() -> None:
    profile = profile_named("NVIDIA L4-4Q")

    assert profile is not None
    assert profile.type_id is None
    assert profile.max_per_vm is None


def test_boards_that_share_a_device_id_are_both_listed() -> None:
    profiles = profiles_of("25b6")

    assert {profile.board for profile in profiles} == {"A2", "A16"}
    assert len({profile.name for profile in profiles}) == len(profiles)


def test_an_alias_has_the_profiles_of_its_board() -> None:
    assert profiles_of("2336") == profiles_of("2330") != ()


@pytest.mark.parametrize("device", ["", "ffff", "25", "25b6\t", "device"])
def test_other_devices_have_no_profiles(device: str) -> None:
    assert profiles_of(device) == ()


@pytest.mark.parametrize("type_id", ["nvidia-746", "746"])
def test_an_id_is_read_in_the_form_of_either_framework(type_id: str) -> None:
    assert profile_name("25b6", type_id) == "NVIDIA A2-4Q"


@pytest.mark.parametrize("type_id", ["", "None", "nvidia-", "0", "746x", "-1"])
def test_an_unknown_id_has_no_name(type_id: str) -> None:
    assert profile_name("25b6", type_id) == ""


def test_an_id_of_another_board_has_no_name() -> None:
    assert profile_name("26b9", "746") == ""


@pytest.mark.parametrize("name", ["", "A2", "NVIDIA A2", "Q", "25b6\tA2"])
def test_part_of_a_line_is_no_name(name: str) -> None:
    assert profile_named(name) is None


@given(st.text(), st.text())
def test_any_text_can_be_requested(one: str, two: str) -> None:
    profile = profile_named(one)

    assert profile is None or profile.name == one
    assert profile_name(one, two) == ""
