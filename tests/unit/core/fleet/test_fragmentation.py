"""What is free on GPUs, and how much of it can be used."""

from __future__ import annotations

from laneway.core.fleet.fragmentation import Free, by_profile, score

Q8, Q16, Q24 = "NVIDIA L40S-8Q", "NVIDIA L40S-16Q", "NVIDIA L40S-24Q"
GIB = 1024


def test_the_largest_that_fits_is_compared_with_what_is_free() -> None:
    free = Free(32 * GIB, {Q8: 3, Q16: 1, Q24: 0})
    assert (free.largest, free.largest_mib) == (Q16, 16 * GIB)
    assert score([free]) == 0.5


def test_nothing_free_has_no_score_and_nothing_usable_has_the_worst() -> None:
    assert score([Free(0, {Q8: 0})]) is None
    assert score([]) is None
    assert score([Free(8 * GIB, {Q24: 0})]) == 1.0


def test_a_node_is_its_gpus_together_for_no_vgpu_spans_two() -> None:
    whole, broken = Free(24 * GIB, {Q24: 1}), Free(24 * GIB, {Q8: 1, Q24: 0})
    assert score([whole, whole]) == 0.0
    assert score([whole, broken]) == round(1 - 32 / 48, 4)


def test_a_profile_is_judged_by_all_vgpus_of_it_that_still_fit() -> None:
    parts = [Free(24 * GIB, {Q8: 3, Q24: 1}), Free(24 * GIB, {Q8: 2, Q24: 0}), Free(8 * GIB, {})]
    assert by_profile(parts) == {Q8: round(1 - 40 / 48, 4), Q24: 0.5}
