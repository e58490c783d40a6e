from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from laneway import api

TEXT = st.sampled_from(["", "a", "b"])
TEXT_MAP = st.dictionaries(st.sampled_from(["x", "y", "z"]), TEXT)
VGPUS = st.builds(
    api.VGPUDevice,
    metadata=st.builds(api.ObjectMeta, name=TEXT, labels=TEXT_MAP, annotations=TEXT_MAP),
    spec=st.builds(api.VGPUDeviceSpec, enabled=st.booleans(), vgpu_type_name=TEXT),
    status=st.builds(
        api.VGPUDeviceStatus,
        uuid=TEXT,
        available_types=TEXT_MAP,
        conditions=st.lists(
            st.builds(api.Condition, type=TEXT, status=st.sampled_from(["True", "False"])),
            max_size=2,
        ),
    ),
)


def apply(target: Any, patch: Any) -> Any:
    """RFC 7396, section 2."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = apply(merged.get(key), value)
    return merged


def without_empty(value: Any) -> Any:
    """Clearing a map key by key leaves it empty, which reads the same as absent."""
    if isinstance(value, dict):
        return {key: without_empty(item) for key, item in value.items() if item != {}}
    return value


@given(VGPUS, VGPUS)
def test_the_patch_turns_one_object_into_the_other(
    before: api.VGPUDevice, after: api.VGPUDevice
) -> None:
    patched = apply(api.to_builtins(before), api.merge_patch(before, after))

    assert without_empty(patched) == without_empty(api.to_builtins(after))


@given(VGPUS)
def test_nothing_to_change_gives_an_empty_patch(vgpu: api.VGPUDevice) -> None:
    assert api.merge_patch(vgpu, vgpu) == {}


def test_a_field_that_falls_back_to_its_default_is_cleared() -> None:
    before = api.VGPUDeviceStatus(uuid="u", available_types={"A2-2Q": "745", "A2-4Q": "746"})
    after = api.VGPUDeviceStatus(available_types={"A2-4Q": "746"})

    assert api.merge_patch(before, after) == {"uuid": None, "availableTypes": {"A2-2Q": None}}
