"""Short names of profiles."""

from __future__ import annotations

from laneway.core.vgpu.spelling import in_full

DRIVER = {"GRID A100-4C", "GRID A100-8C"}
CATALOGUE = {"NVIDIA A100-4C", "NVIDIA A100-20C", "NVIDIA A100-20C GFX A100-20C"}


def test_a_short_name_is_the_drivers_before_the_catalogues() -> None:
    assert in_full("a100-4c", DRIVER, CATALOGUE) == "GRID A100-4C"
    assert in_full("NVIDIA A100-4C", DRIVER, CATALOGUE) == "NVIDIA A100-4C"


def test_what_may_mean_two_profiles_or_none_stays_as_it_is_written() -> None:
    assert in_full("A100-20C", DRIVER, CATALOGUE) == "A100-20C"
    assert in_full("A2-4Q", DRIVER, CATALOGUE) == "A2-4Q"
