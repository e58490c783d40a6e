"""Patch formats as functions: their laws, and what is refused."""

from __future__ import annotations

import contextlib
import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapilite import builtin
from kapilite.errors import ApiError
from kapilite.patches import patch

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3)
    ),
    max_leaves=8,
)
objects = st.dictionaries(st.sampled_from("abcd"), values, max_size=4)


@given(objects, objects)
def test_a_merge_patch_is_idempotent_and_leaves_its_target_alone(
    target: dict[str, Any], change: dict[str, Any]
) -> None:
    before, change = copy.deepcopy(target), without_nulls_in_lists(change)
    once = patch.apply(patch.MERGE, target, change)
    assert target == before
    assert patch.apply(patch.MERGE, once, change) == once
    assert patch.apply(patch.MERGE, {}, change) == deeply_without_nulls(change)


@given(objects, objects)
def test_a_strategic_patch_without_directives_merges_maps(
    target: dict[str, Any], change: dict[str, Any]
) -> None:
    before = copy.deepcopy(target)
    expected = patch.apply(patch.MERGE, target, without_nulls_in_lists(change))
    assert patch.apply(patch.STRATEGIC, target, change) == expected
    assert target == before


def without_nulls_in_lists(value: Any) -> Any:
    """What is new in a list is taken without nulls, as everywhere in a strategic patch."""
    if isinstance(value, dict):
        return {key: without_nulls_in_lists(inner) for key, inner in value.items()}
    return deeply_without_nulls(value)


def deeply_without_nulls(value: Any) -> Any:
    if isinstance(value, list):
        return [deeply_without_nulls(inner) for inner in value]
    if isinstance(value, dict):
        return {k: deeply_without_nulls(v) for k, v in value.items() if v is not None}
    return value


def strategic(kind: str, target: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    schema = next(k.schema for k in builtin.KINDS if k.kind == kind)
    before = copy.deepcopy(target)
    result = patch.apply(patch.STRATEGIC, target, change, schema)
    assert target == before
    return result


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
    assert strategic("Node", node, change) == {
        "metadata": {
            "finalizers": ["c", "b"],
            "ownerReferences": [{"uid": "1", "name": "y"}, {"uid": "2"}],
        },
        "spec": {"taints": [{"key": "other"}], "old": {"y": 2}},
    }


def test_a_merged_list_needs_its_key() -> None:
    node = {"status": {"conditions": [{"type": "Ready"}]}}
    with pytest.raises(ApiError, match="does not contain declared merge key: type"):
        strategic("Node", node, {"status": {"conditions": [{"status": "True"}]}})


def containers(*names: str) -> dict[str, Any]:
    return {"spec": {"template": {"spec": {"containers": [{"name": name} for name in names]}}}}


def pod_of(deployment: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = deployment["spec"]["template"]["spec"]
    return found


@pytest.mark.parametrize(
    ("change", "names"),
    [
        # Each was answered so by a real API server.
        ([{"name": "c"}, {"name": "a"}], ["b", "c", "a"]),
        ([{"name": "d"}], ["d", "a", "b", "c"]),
        ([{"name": "b", "$patch": "delete"}], ["a", "c"]),
        ([{"name": "d"}, {"$patch": "replace"}], ["d"]),
        ([{"$patch": "replace"}], []),
    ],
)
def test_where_elements_of_a_merged_list_end_up(change: list[Any], names: list[str]) -> None:
    merged = strategic(
        "Deployment",
        containers("a", "b", "c"),
        {"spec": {"template": {"spec": {"containers": change}}}},
    )
    assert [c["name"] for c in pod_of(merged)["containers"]] == names


def test_the_order_that_a_patch_requests() -> None:
    order = [{"name": name} for name in "cdab"]
    change = {"spec": {"template": {"spec": {"$setElementOrder/containers": order}}}}
    pod = pod_of(change)
    pod["containers"] = [{"name": "d", "image": "x"}, {"name": "b", "image": "y"}]
    merged = pod_of(strategic("Deployment", containers("a", "b", "c"), change))
    assert [c["name"] for c in merged["containers"]] == ["c", "d", "a", "b"]
    pod["containers"].reverse()
    with pytest.raises(ApiError, match="The order in patch list"):
        strategic("Deployment", containers("a", "b", "c"), change)


def test_only_retained_keys_stay() -> None:
    pod = {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}}
    volume = {"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/dev"}}
    merged = strategic("Pod", pod, {"spec": {"volumes": [volume]}})
    assert merged["spec"]["volumes"] == [{"name": "v", "hostPath": {"path": "/dev"}}]
    volume["$retainKeys"] = ["name"]
    with pytest.raises(ApiError, match="doesn't match retainKeys list") as caught:
        strategic("Pod", pod, {"spec": {"volumes": [volume]}})
    assert caught.value.code == 422


@given(objects, objects)
def test_no_strategic_patch_breaks_the_server(
    target: dict[str, Any], change: dict[str, Any]
) -> None:
    names = {"a": "spec", "b": "metadata", "c": "status", "d": "$setElementOrder/spec"}
    odd = {names[key]: value for key, value in change.items()}
    with contextlib.suppress(ApiError):
        strategic("Pod", {names[key]: value for key, value in target.items()}, odd)


@pytest.mark.parametrize(
    ("operations", "code"),
    [
        ([{"op": "remove", "path": "/absent"}], 422),
        ([{"op": "replace", "path": "/absent/x", "value": 1}], 422),
        ([{"op": "replace", "path": "", "value": [1]}], 422),
        ([{"op": "add", "path": "/list/9", "value": 1}], 422),
        ([{"op": "add", "path": "no-slash", "value": 1}], 422),
        ([{"op": "test", "path": "/a", "value": 2}], 422),
        ([{"op": "add"}], 422),
        ([{"op": "addne", "path": "/b", "value": 1}], 422),
        ([{"op": ["add"], "path": "/b", "value": 1}], 400),
        ([{"path": "/b", "value": 1}], 422),
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
    assert caught.value.code == 422
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
