"""Which annotations the cluster autoscaler reads are Laneway's, and which are a person's."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from laneway.core.keys import ANNOTATION_CAPACITY
from laneway.core.machine_pools.capacity import CPU, GPU_COUNT, GPU_TYPE, KEYS, MEMORY, changed

GPU = {CPU: "4", MEMORY: "8Gi", GPU_TYPE: "nvidia.com/gpu", GPU_COUNT: "1"}


def written(there: dict[str, str], wanted: dict[str, str]) -> dict[str, str]:
    """The annotations afterwards, as a merge patch makes them."""
    after = {**there, **changed(there, wanted)}
    return {key: value for key, value in after.items() if value is not None}


def test_what_is_missing_is_written_once() -> None:
    first = written({"other": "x"}, GPU)
    assert {key: first[key] for key in KEYS} == GPU
    assert first["other"] == "x"
    assert changed(first, GPU) == {}


def test_what_a_person_wrote_stays() -> None:
    found = written({GPU_COUNT: "7"}, GPU)
    assert found[GPU_COUNT] == "7"
    assert found[MEMORY] == "8Gi"
    # Also what a person wrote over it, and over an older value of it.
    found = written(written({}, GPU) | {CPU: "2"}, {**GPU, CPU: "16"})
    assert found[CPU] == "2"
    assert CPU not in found[ANNOTATION_CAPACITY]


def test_another_template_changes_what_laneway_wrote() -> None:
    found = written(written({}, GPU), {**GPU, GPU_COUNT: "2"})
    assert found[GPU_COUNT] == "2"
    found = written(found, {CPU: "4", MEMORY: "8Gi"})
    assert (GPU_COUNT in found, GPU_TYPE in found, found[CPU]) == (False, False, "4")


def test_without_a_template_of_capks_nothing_of_laneways_is_left() -> None:
    assert written(written({"other": "x"}, GPU), {}) == {"other": "x"}
    assert written({CPU: "1"}, {}) == {CPU: "1"}


def test_a_note_that_was_spoilt_makes_nothing_laneways() -> None:
    found = written(written({}, GPU) | {ANNOTATION_CAPACITY: "{"}, {**GPU, GPU_COUNT: "2"})
    assert {key: found[key] for key in KEYS} == GPU


values = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(["1", "2"]))


@given(values, st.lists(values, max_size=4))
def test_a_persons_values_outlive_all_templates(persons: dict[str, str], wanted: object) -> None:
    found = dict(persons)
    for one in [*wanted, {}]:  # type: ignore[misc]
        found = written(found, one)
        assert found.items() >= persons.items()
        assert changed(found, one) == {}
    assert found == persons
