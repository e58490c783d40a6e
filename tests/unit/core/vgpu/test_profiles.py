"""Names of vGPU profiles."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.core.vgpu.profiles import profile


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("NVIDIA A2-4Q", ("A2", 0, 4096, "Q", "")),
        ("GRID M10-0B", ("M10", 0, 512, "B", "")),
        ("GRID T4-2B4", ("T4", 0, 2048, "B", "")),
        ("NVIDIA RTX6000-Ada-48Q", ("RTX6000-Ada", 0, 49152, "Q", "")),
        ("GRID A100DX-1-10CME", ("A100DX", 1, 10240, "C", "ME")),
        ("NVIDIA RTX Pro 6000 Blackwell DC-4-96Q", ("DC", 4, 98304, "Q", "")),
        ("NVIDIA X9-1-5CMEALL", ("X9", 1, 5120, "C", "MEALL")),
        ("NVIDIA X9-2-10CNOME", ("X9", 2, 10240, "C", "NOME")),
        ("NVIDIA X9-2-10CGFX", ("X9", 2, 10240, "C", "GFX")),
    ],
)
def test_a_name_says_what_a_profile_is(name: str, said: tuple[object, ...]) -> None:
    found = profile(name)

    assert found is not None
    assert said == (
        found.board,
        found.slices,
        found.framebuffer_mib,
        found.series,
        found.variant,
    )
    assert found.mig_backed == bool(found.slices)


@pytest.mark.parametrize(
    "name",
    ["", "NVIDIA", "A2-4X", "A2-4", "-4Q", "A2-99999Q", "A2-4QX", "A2-4Q\n", f"{'A' * 200}-4Q"],
)
def test_what_is_no_profile_is_none(name: str) -> None:
    assert profile(name) is None


def test_the_catalogue_adds_what_a_name_does_not_say() -> None:
    small = profile("NVIDIA RTX Pro 6000 Blackwell DC-1-2Q")
    large = profile("GRID A100-4-20C")

    assert small is not None
    assert large is not None
    assert (small.maximum, small.graphics, small.fraction) == (48, True, 4)
    assert (large.maximum, large.graphics, large.fraction) == (1, False, 2)


def test_where_the_catalogue_is_silent_the_name_tells_what_its_gpu_instance_needs() -> None:
    for name, graphics in (("X9-1-5C", False), ("X9-1-5CGFX", True), ("X9-1-5Q", True)):
        found = profile(f"NVIDIA {name}")
        assert found is not None
        assert (found.graphics, found.maximum, found.fraction) == (graphics, None, 0)
    sliced = profile("NVIDIA X9-5Q")
    assert sliced is not None
    assert not sliced.graphics


@given(st.text())
def test_any_text_is_a_profile_or_none(text: str) -> None:
    found = profile(text)
    assert found is None or found.framebuffer_mib > 0
