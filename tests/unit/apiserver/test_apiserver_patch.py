"""Patch formats as functions: their laws, and what is refused."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.apiserver import patch
from laneway.apiserver.errors import ApiError

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3)
    ),
    max_leaves=8,
)
objects = st.dictionaries(st.sampled_from("abcd"), values, max_size=4)


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(inner) for key, inner in value.items() if inner is not None}
    return value


@given(objects, objects)
def test_a_merge_patch_is_idempotent_and_leaves_its_target_alone(
    target: dict[str, Any], change: dict[str, Any]
) -> None:
    before = copy.deepcopy(target)
    once = patch.apply(patch.MERGE, target, change)
    assert target == before
    assert patch.apply(patch.MERGE, once, change) == once
    assert patch.apply(patch.MERGE, {}, change) == without_nulls(change)


@given(objects, objects)
def test_a_strategic_patch_without_directives_merges_maps(
    target: dict[str, Any], change: dict[str, Any]
) -> None:
    before = copy.deepcopy(target)
    assert patch.apply(patch.STRATEGIC, target, change) == patch.apply(patch.MERGE, target, change)
    assert target == before


def test_strategic_directives() -> None:
    node = {
        "metadata": {"finalizers": ["a", "b"], "ownerReferences": [{"uid": "1", "name": "x"}]},
        "spec": {"taints": [{"key": "k"}], "old": {"x": 1}},
    }
    change = {
        "metadata": {
            "$deleteFromPrimitiveList/finalizers": ["a"],
            "finalizers": ["c"],
            "ownerReferences": [{"uid": "1", "name": "y"}, {"uid": "2"}],
        },
        "spec": {"taints": [{"key": "other"}], "old": {"$patch": "replace", "y": 2}},
    }
    assert patch.apply(patch.STRATEGIC, node, change) == {
        "metadata": {
            "finalizers": ["b", "c"],
            "ownerReferences": [{"uid": "1", "name": "y"}, {"uid": "2"}],
        },
        "spec": {"taints": [{"key": "other"}], "old": {"y": 2}},
    }


def test_a_merged_list_needs_its_key() -> None:
    with pytest.raises(ApiError, match="does not contain declared merge key: type"):
        patch.apply(patch.STRATEGIC, {}, {"conditions": [{"status": "True"}]})


@pytest.mark.parametrize(
    ("operations", "code"),
    [
        ([{"op": "remove", "path": "/absent"}], 422),
        ([{"op": "replace", "path": "/absent", "value": 1}], 422),
        ([{"op": "add", "path": "/list/9", "value": 1}], 422),
        ([{"op": "add", "path": "no-slash", "value": 1}], 422),
        ([{"op": "test", "path": "/a", "value": 2}], 422),
        ([{"op": "add", "path": "/a"}], 422),
        ([{"op": "addne", "path": "/b", "value": 1}], 400),
        ([{"op": ["add"], "path": "/b", "value": 1}], 400),
        ([{"path": "/b", "value": 1}], 400),
        (["add"], 400),
        ({"op": "add"}, 400),
        ([{"op": "test", "path": "/a", "value": 1}] * 10_001, 413),
    ],
)
def test_json_patches_that_do_not_apply(operations: Any, code: int) -> None:
    target = {"a": 1, "list": []}
    with pytest.raises(ApiError) as caught:
        patch.apply(patch.JSON, target, operations)
    assert caught.value.code == code
    assert target == {"a": 1, "list": []}


def test_copies_of_copies_are_refused_before_they_fill_the_memory() -> None:
    doubling = [{"op": "copy", "from": "/spec", "path": f"/spec/{n}"} for n in range(60)]
    with pytest.raises(ApiError) as caught:
        patch.apply(patch.JSON, {"spec": {"a": "x" * 100}}, doubling)
    assert caught.value.code == 413
    assert patch.apply(patch.JSON, {"spec": {"a": 1}}, doubling[:2])["spec"]["1"] == {
        "a": 1,
        "0": {"a": 1},
    }


def test_a_refused_json_patch_says_which_operation() -> None:
    operations = [{"op": "remove", "path": "/a"}, {"op": "test", "path": "/b", "value": 1}]
    with pytest.raises(ApiError, match=r"test failed \(test:1\)"):
        patch.apply(patch.JSON, {"a": 1, "b": 2}, operations)


def test_json_patch_paths_are_taken_literally() -> None:
    target = {"metadata": {"labels": {"a/b": "1", "~": "2", "\\u0041": "3"}}}
    operations = [
        {"op": "remove", "path": "/metadata/labels/a~1b"},
        {"op": "replace", "path": "/metadata/labels/~0", "value": "4"},
        {"op": "replace", "path": "/metadata/labels/\\u0041", "value": "5"},
    ]
    result = patch.apply(patch.JSON, target, operations)
    assert result == {"metadata": {"labels": {"~": "4", "\\u0041": "5"}}}


@given(
    objects,
    st.lists(
        st.fixed_dictionaries(
            {"op": st.text(), "path": st.text()}, optional={"value": values, "from": st.text()}
        )
        | values,
        max_size=3,
    ),
)
def test_any_json_patch_is_applied_or_refused(target: dict[str, Any], operations: Any) -> None:
    try:
        patch.apply(patch.JSON, target, operations)
    except ApiError as error:
        refused = error.code
    else:
        refused = 0
    assert refused in {0, 400, 422}


names = st.sampled_from(["add", "remove", "replace", "move", "copy", "test"])
paths = st.lists(st.sampled_from(["a", "b", "0", "-", "~1", "#"]), max_size=3).map(
    lambda parts: "".join(f"/{part}" for part in parts)
)


@given(
    objects,
    st.lists(
        st.fixed_dictionaries({"op": names, "path": paths, "value": values, "from": paths}),
        max_size=4,
    ),
)
def test_any_well_formed_json_patch_is_applied_or_refused(
    target: dict[str, Any], operations: Any
) -> None:
    before = copy.deepcopy(target)
    try:
        patch.apply(patch.JSON, target, operations)
    except ApiError as error:
        assert error.code in {400, 422}  # noqa: PT017 - both ways are right
    assert target == before
