"""Server-side apply by example: the texts and entries that a real API server gives."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kapilite.apply import manage
from kapilite.apply.lastapplied import ANNOTATION
from kapilite.encodings.bounds import DEPTH_LIMIT
from kapilite.errors import ApiError

Object = dict[str, Any]

TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
CONFIG: dict[str, Any] = {
    "type": "object",
    "properties": {"data": TEXTS, "immutable": {"type": "boolean"}},
}
PORTS: dict[str, Any] = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["port", "protocol"],
    "items": {
        "type": "object",
        "properties": {
            "port": {"type": "integer"},
            "protocol": {"type": "string", "default": "TCP"},
            "name": {"type": "string"},
        },
    },
}


def at(second: int) -> str:
    return f"2026-01-01T00:00:{second:02}Z"


def config(data: Any = None, **meta: Any) -> Object:
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", **meta}}
    return obj if data is None else {**obj, "data": data}


def apply(live: Object | None, sent: Object, manager: str = "m", **options: Any) -> Object:
    settings: dict[str, Any] = {
        "kind": "ConfigMap",
        "api_version": "v1",
        "manager": manager,
        "force": False,
        "subresource": "",
        "now": at(0),
    }
    return manage.applied(options.pop("schema", CONFIG), live, sent, **(settings | options))


def put(
    live: Object | None, new: Object, manager: str, *, second: int = 0, **options: Any
) -> Object:
    settings = {"schema": CONFIG, "subresource": "", "now": at(second)} | options
    owners = manage.updated(live=live, new=new, manager=manager, **settings)
    return {**new, "metadata": {**new["metadata"], "managedFields": owners}}


def owners(obj: Object) -> list[tuple[str, str, str | None, Any]]:
    return [
        (entry["manager"], entry["operation"], entry.get("time"), entry["fieldsV1"])
        for entry in obj["metadata"].get("managedFields", [])
    ]


def data_of(*names: str) -> Object:
    return {"f:data": {f"f:{name}": {} for name in names}}


def test_what_was_a_map_can_be_applied_as_a_list() -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    live = apply(None, {**config(), "tree": {"a": {"x": 1, "y": 2}}}, schema=schema)
    after = apply(live, {**config(), "tree": {"a": [{"x": 1}]}}, schema=schema)
    assert after["tree"] == {"a": [{"x": 1}]}


def test_one_conflict_is_refused_in_the_words_of_kubernetes() -> None:
    live = put(None, config({"a": "1"}), "kubectl-client-side-apply")
    with pytest.raises(ApiError) as refused:
        apply(live, config({"a": "2"}))
    assert (refused.value.code, refused.value.reason) == (409, "Conflict")
    assert refused.value.message == (
        'Apply failed with 1 conflict: conflict with "kubectl-client-side-apply" using v1: .data.a'
    )
    assert refused.value.details["causes"] == [
        {
            "reason": "FieldManagerConflict",
            "message": 'conflict with "kubectl-client-side-apply" using v1',
            "field": ".data.a",
        }
    ]


def test_conflicts_are_grouped_by_manager() -> None:
    live = apply(None, config({"a": "1", "b": "1"}), "m1")
    live = put(live, config({"a": "1", "b": "1", "c": "1"}), "m2", subresource="status")
    with pytest.raises(ApiError) as refused:
        apply(live, config({"a": "2", "b": "2", "c": "2"}), "m3")
    assert refused.value.message == (
        'Apply failed with 3 conflicts: conflicts with "m1":\n- .data.a\n- .data.b\n'
        'conflicts with "m2" with subresource "status" using v1:\n- .data.c'
    )
    assert len(refused.value.details["causes"]) == 3


def test_equal_values_are_shared_and_stay_while_one_owner_is_left() -> None:
    live = apply(None, config({"a": "1"}), "m1")
    live = apply(live, config({"a": "1"}), "m2", now=at(1))
    assert owners(live) == [
        ("m1", "Apply", at(0), data_of("a")),
        ("m2", "Apply", at(1), data_of("a")),
    ]
    live = apply(live, config(), "m1", now=at(2))
    assert live["data"] == {"a": "1"}
    live = apply(live, config(), "m2", now=at(3))
    assert "data" not in live
    assert owners(live) == []


def test_an_update_takes_what_it_changes_and_removes_entries_that_own_nothing() -> None:
    live = apply(None, config({"a": "1", "b": "1"}), "m1")
    live = put(live, config({"a": "2", "b": "1"}), "m2", second=1)
    assert owners(live) == [
        ("m1", "Apply", at(0), data_of("b")),
        ("m2", "Update", at(1), data_of("a")),
    ]
    live = put(live, config({"b": "1"}), "m3", second=2)
    assert owners(live) == [("m1", "Apply", at(0), data_of("b"))]


def test_an_updater_keeps_what_it_changed_before() -> None:
    live = put(None, config({"a": "1"}), "m")
    live = put(live, config({"a": "1", "b": "1"}), "m", second=1)
    assert owners(live) == [
        ("m", "Update", at(1), {"f:data": {".": {}, "f:a": {}, "f:b": {}}}),
    ]


def test_true_is_not_one() -> None:
    live = put(None, {**config(), "spec": {"atomic": [True], "granular": {"a": 1}}}, "m1")
    new = {**config(), "spec": {"atomic": [1], "granular": {"a": 1.0}}}
    assert owners(put(live, new, "m2", second=1, schema=None))[-1] == (
        "m2",
        "Update",
        at(1),
        {"f:spec": {"f:atomic": {}}},
    )


def test_times_change_only_with_what_they_tell_of() -> None:
    live = apply(None, config({"a": "1"}))
    assert apply(live, config({"a": "1"}), now=at(5)) == live
    assert owners(apply(live, config({"a": "2"}), now=at(5)))[0][2] == at(5)
    undone = apply(live, config({"a": "1", "b": "2"}), now=at(5))
    undone["data"] = {"a": "1"}
    undone["metadata"]["managedFields"][0]["fieldsV1"] = data_of("a")
    manage.keep_times(live, undone)
    assert undone == live


def test_the_same_manager_owns_apart_by_operation_and_subresource() -> None:
    live = put(None, config({"a": "1"}), "m")
    live = put(live, config({"a": "1", "b": "1"}), "m", subresource="status")
    live = apply(live, config({"a": "1"}))
    assert [
        (entry["operation"], entry.get("subresource"))
        for entry in live["metadata"]["managedFields"]
    ] == [("Apply", None), ("Update", None), ("Update", "status")]


def test_a_write_to_one_address_owns_nothing_that_belongs_to_the_other() -> None:
    schema = {"type": "object", "properties": {"spec": TEXTS, "status": TEXTS}}
    sent = {**config(), "spec": {"a": "1"}, "status": {"b": "1"}}
    main = manage.not_written(has_status=True, subresource="")
    live = put(None, sent, "m", schema=schema, reset=main)
    assert owners(live)[0][3] == {"f:spec": {".": {}, "f:a": {}}}
    status = manage.not_written(has_status=True, subresource="status")
    live = put(None, sent, "m", schema=schema, reset=status, subresource="status")
    assert owners(live)[0][3] == {"f:status": {".": {}, "f:b": {}}}


def test_the_oldest_of_too_many_updaters_become_one() -> None:
    live = put(None, config({"k0": ""}), "m0")
    for index in range(1, 13):
        data = {f"k{i}": "" for i in range(index + 1)}
        live = put(live, config(data), f"m{index}", second=index)
    found = owners(live)
    assert len(found) == 10
    assert found[0][0] == "ancient-changes"
    assert set(found[0][3]["f:data"]) == {".", "f:k0", "f:k1", "f:k2", "f:k3"}
    assert found[0][2] == at(3)


def test_an_object_without_a_known_owner_has_one_before_the_first_apply() -> None:
    untracked = put(config({"a": "1"}, uid="u"), config({"a": "2"}, uid="u"), "m1")
    assert owners(untracked) == []
    live = apply(untracked, config({"b": "1"}), "m2")
    assert [entry[:2] for entry in owners(live)] == [
        ("m2", "Apply"),
        ("before-first-apply", "Update"),
    ]
    with pytest.raises(ApiError, match="before-first-apply"):
        apply(untracked, config({"a": "3"}), "m2")


@pytest.mark.parametrize("sent", [[], [{}]])
def test_a_client_forgets_all_owners_with_an_empty_list(sent: Any) -> None:
    live = put(None, config({"a": "1"}), "m")
    assert owners(put(live, config({"a": "2"}, managedFields=sent), "m")) == []


@pytest.mark.parametrize("sent", [None, "x", [{"manager": "m", "operation": "Delete"}]])
def test_a_client_that_cannot_write_managed_fields_leaves_them(sent: Any) -> None:
    live = put(None, config({"a": "1"}), "m1")
    stored = put(live, config({"a": "1"}, managedFields=sent), "m2")
    assert owners(stored) == owners(live)


def test_a_map_list_is_merged_by_its_keys_and_their_defaults() -> None:
    schema = {"type": "object", "properties": {"ports": PORTS}}
    live = {**config(), "ports": [{"port": 1, "protocol": "TCP"}, {"port": 2, "protocol": "TCP"}]}
    live = put(None, live, "m1", schema=schema)
    sent = {**config(), "ports": [{"port": 3}, {"port": 1, "name": "one"}]}
    merged = apply(live, sent, schema=schema)
    assert merged["ports"] == [
        {"port": 3},
        {"port": 1, "protocol": "TCP", "name": "one"},
        {"port": 2, "protocol": "TCP"},
    ]
    items = owners(merged)[0][3]["f:ports"]
    assert items['k:{"port":3,"protocol":"TCP"}'] == {".": {}, "f:port": {}}


NAMED = "failed to create typed patch object (/c; /v1, Kind=ConfigMap)"


@pytest.mark.parametrize(
    ("extra", "text"),
    [
        ({"foo": 1}, f"{NAMED}: .foo: field not declared in schema"),
        (
            {"data": {"x": 2, "y": {"a": 1}}},
            (
                f"{NAMED}: errors:\n"
                "  .data.x: expected string, got &value.valueUnstructured{Value:2}\n"
                "  .data.y: expected string, got &value.valueUnstructured"
                '{Value:map[string]interface {}{"a":1}}'
            ),
        ),
        (
            {"data": [1, "a", None, {"b": 1.5}]},
            f"{NAMED}: .data: expected map, got &{{[1 a <nil> map[b:1.5]]}}",
        ),
        ({"immutable": "x"}, f"{NAMED}: .immutable: expected boolean, got &{{x}}"),
        (
            {"metadata": {"name": "c", "finalizers": ["a", "a"]}},
            f'{NAMED}: .metadata.finalizers: duplicate entries for key [="a"]',
        ),
        (
            {"metadata": {"name": "c", "finalizers": [None]}},
            (
                f"{NAMED}: .metadata.finalizers: element 0: associative list without keys has an "
                "element that's an explicit null"
            ),
        ),
        (
            {"metadata": {"name": "c", "ownerReferences": [{"kind": "a"}]}},
            (
                f"{NAMED}: .metadata.ownerReferences: element 0: associative list with keys has an "
                'element that omits all key fields ["uid"] '
                "(and doesn't have default values for any key fields)"
            ),
        ),
        (
            {"metadata": {"name": "c", "managedFields": []}},
            "metadata.managedFields must be nil",
        ),
        ({"kind": "Foo"}, "invalid object type: /v1, Kind=Foo"),
    ],
)
def test_what_does_not_fit_the_schema_is_refused(extra: Object, text: str) -> None:
    with pytest.raises(ApiError) as refused:
        apply(None, {**config(), **extra})
    assert refused.value.message == text
    assert refused.value.code == 400


def last_applied(obj: Object) -> str:
    return json.dumps(obj)


def test_kubectl_takes_over_what_it_applied_on_the_client() -> None:
    applied = config({"a": "1", "b": "1"})
    live = config({"a": "1", "b": "1"}, annotations={ANNOTATION: last_applied(applied)})
    live = put(None, live, "kubectl-client-side-apply")
    sent = config({"a": "2", "b": "1"})
    merged = apply(live, sent, "kubectl")
    assert merged["data"] == {"a": "2", "b": "1"}
    assert json.loads(merged["metadata"]["annotations"][ANNOTATION]) == sent
    with pytest.raises(ApiError):
        apply(live, sent, "somebody-else")


def test_kubectl_without_metadata_still_keeps_the_annotation_up_to_date() -> None:
    live = put(None, config({"a": "1"}, annotations={ANNOTATION: "{}"}), "m")
    sent = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"b": "1"}}
    merged = apply(live, sent, "kubectl")
    assert json.loads(merged["metadata"]["annotations"][ANNOTATION]) == {**sent, "metadata": {}}


def test_the_deepest_object_that_is_let_in_is_merged_and_owned() -> None:
    deep: Any = "x"
    for _ in range(DEPTH_LIMIT - 1):
        deep = {"a": deep}
    first = apply(None, {**config(), "tree": deep}, schema=None)
    again = apply(first, {**config(), "tree": {"b": "y"}}, schema=None, now=at(1))
    assert again["tree"] == {"b": "y"}
    assert put(again, {**config(), "tree": deep}, "m2", schema=None)


def test_kubectl_does_not_take_over_what_was_changed_since() -> None:
    applied = config({"a": "1", "b": "1"})
    live = config({"a": "1", "b": "1"}, annotations={ANNOTATION: last_applied(applied)})
    live = put(None, live, "kubectl-client-side-apply")
    live = put(live, {**live, "data": {"a": "1", "b": "changed"}}, "m")
    with pytest.raises(ApiError) as refused:
        apply(live, config({"a": "2", "b": "2"}), "kubectl")
    assert refused.value.message == (
        'Apply failed with 1 conflict: conflict with "m" using v1: .data.b'
    )


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"apiVersion":"v2"}', '{"apiVersion":"v1","x":1}']
)
def test_an_empty_last_applied_annotation_has_no_effect(text: str) -> None:
    live = put(None, config({"a": "1"}, annotations={ANNOTATION: text}), "m")
    with pytest.raises(ApiError, match="1 conflict"):
        apply(live, config({"a": "2"}), "kubectl")


def test_a_schema_that_makes_a_map_atomic_makes_its_owners_own_it_as_a_whole() -> None:
    live = apply(None, config({"a": "1"}), "m1")
    atomic = {
        "type": "object",
        "properties": {"data": {**TEXTS, "x-kubernetes-map-type": "atomic"}},
    }
    live = put(live, {**live, "immutable": True}, "m2", schema=atomic)
    assert owners(live)[0] == ("m1", "Apply", at(0), {"f:data": {}})
