"""Server-side apply: who owns what, who may change it, and what goes when no manager applies it."""

from __future__ import annotations

from typing import Any

import pytest


def fields(obj: dict[str, Any], manager: str, sub: str = "") -> Any:
    """What a manager owns of an object by applying it; None where it owns nothing."""
    found = [
        entry["fieldsV1"]
        for entry in obj["metadata"].get("managedFields", [])
        if (entry["manager"], entry["operation"]) == (manager, "Apply")
        and entry.get("subresource", sub) == sub
    ]
    return found[0] if found else None


def managers(obj: dict[str, Any]) -> list[tuple[str, str]]:
    return sorted((e["manager"], e["operation"]) for e in obj["metadata"]["managedFields"])


async def test_a_manager_owns_what_it_applied(kube: Any, gizmos: Any) -> None:
    ports = [{"name": "a", "number": 1}]
    wish = {"size": "large", "ports": ports, "tags": ["x"], "order": ["y"], "whole": {"a": "1"}}

    made = (await kube.apply(gizmos, gizmos.new("x", spec=wish), "one")).ok

    assert managers(made) == [("one", "Apply")]
    assert fields(made, "one") == {
        "f:spec": {
            "f:order": {},
            "f:ports": {'k:{"name":"a"}': {".": {}, "f:name": {}, "f:number": {}}},
            "f:size": {},
            "f:tags": {'v:"x"': {}},
            "f:whole": {},
        }
    }
    (entry,) = made["metadata"]["managedFields"]
    assert entry["apiVersion"] == gizmos.api_version
    assert entry["fieldsType"] == "FieldsV1"
    assert entry["time"].endswith("Z")


async def test_another_value_is_a_conflict_that_names_the_manager(kube: Any, gizmos: Any) -> None:
    obj = gizmos.new("x", spec={"size": "large", "replicas": 1})
    await kube.apply(gizmos, obj, "one")

    other = gizmos.new("x", spec={"size": "small", "replicas": 1})
    refused = await kube.apply(gizmos, other, "two")

    assert refused.refusal == (
        409,
        "Conflict",
        'Apply failed with 1 conflict: conflict with "one": .spec.size',
    )
    assert refused.causes == [(".spec.size", "FieldManagerConflict", 'conflict with "one"')]
    assert (await kube.get(gizmos.path("x"))).ok["spec"]["size"] == "large"


async def test_several_conflicts_are_reported_by_manager(kube: Any, gizmos: Any) -> None:
    await kube.apply(gizmos, gizmos.new("x", spec={"size": "large", "replicas": 1}), "one")
    change = {"spec": {"note": "hello"}}
    (await kube.patch(gizmos.path("x"), change, fieldManager="writer")).ok

    other = gizmos.new("x", spec={"size": "small", "replicas": 2, "note": "bye"})
    code, reason, message = (await kube.apply(gizmos, other, "two")).refusal

    assert (code, reason) == (409, "Conflict")
    assert message.startswith("Apply failed with 3 conflicts: conflicts with ")
    assert 'conflicts with "one":\n- .spec.replicas\n- .spec.size' in message
    assert 'conflicts with "writer" using contract.laneway.example/v1' in message


async def test_the_same_value_is_owned_together(kube: Any, gizmos: Any) -> None:
    obj = gizmos.new("x", spec={"size": "large"})
    await kube.apply(gizmos, obj, "one")

    both = (await kube.apply(gizmos, obj, "two")).ok

    assert fields(both, "one") == fields(both, "two") == {"f:spec": {"f:size": {}}}
    left = (await kube.apply(gizmos, gizmos.new("x", spec={}), "one")).ok
    assert left["spec"]["size"] == "large"
    assert fields(left, "two") == {"f:spec": {"f:size": {}}}


async def test_force_takes_a_field_over(kube: Any, gizmos: Any) -> None:
    await kube.apply(gizmos, gizmos.new("x", spec={"replicas": 1, "note": "a"}), "one")

    wish = gizmos.new("x", spec={"replicas": 2})
    taken = (await kube.apply(gizmos, wish, "two", force="true")).ok

    assert taken["spec"]["replicas"] == 2
    assert fields(taken, "one") == {"f:spec": {"f:note": {}}}
    assert fields(taken, "two") == {"f:spec": {"f:replicas": {}}}


async def test_what_is_applied_no_more_goes(kube: Any, gizmos: Any) -> None:
    wish = {
        "replicas": 1,
        "tags": ["x", "y"],
        "ports": [{"name": "a", "number": 1}, {"name": "b", "number": 2}],
        "labels": {"k": "v", "l": "w"},
    }
    await kube.apply(gizmos, gizmos.new("x", spec=wish), "one")
    less = {"tags": ["y"], "ports": [{"name": "b"}], "labels": {"l": "w"}}

    left = (await kube.apply(gizmos, gizmos.new("x", spec=less), "one")).ok["spec"]

    assert left == {
        "size": "small",
        "tags": ["y"],
        "ports": [{"name": "b", "protocol": "TCP"}],
        "labels": {"l": "w"},
    }


async def test_lists_of_two_managers_are_joined(kube: Any, gizmos: Any) -> None:
    one = {"tags": ["x"], "ports": [{"name": "a", "number": 1}], "labels": {"k": "v"}}
    two = {"tags": ["y", "x"], "ports": [{"name": "b", "number": 2}], "labels": {"l": "w"}}
    await kube.apply(gizmos, gizmos.new("x", spec=one), "one")

    both = (await kube.apply(gizmos, gizmos.new("x", spec=two), "two")).ok["spec"]

    assert sorted(both["tags"]) == ["x", "y"]
    assert sorted(port["name"] for port in both["ports"]) == ["a", "b"]
    assert both["labels"] == {"k": "v", "l": "w"}
    left = (await kube.apply(gizmos, gizmos.new("x", spec={}), "one")).ok["spec"]
    assert left["tags"] in (["x", "y"], ["y", "x"])
    assert [port["name"] for port in left["ports"]] == ["b"]
    assert left["labels"] == {"l": "w"}


@pytest.mark.parametrize(
    ("ours", "theirs", "field"),
    [
        ({"order": ["a"]}, {"order": ["a", "b"]}, ".spec.order"),
        ({"whole": {"a": "1"}}, {"whole": {"b": "1"}}, ".spec.whole"),
        (
            {"ports": [{"name": "a", "number": 1}]},
            {"ports": [{"name": "a", "number": 2}]},
            '.spec.ports[name="a"].number',
        ),
        ({"labels": {"a": "1"}}, {"labels": {"a": "2"}}, ".spec.labels.a"),
        ({"free": {"a": 1}}, {"free": {"a": 2}}, ".spec.free.a"),
        ({"limits": {"cpu": 2}}, {"limits": {"cpu": 3}}, ".spec.limits.cpu"),
    ],
)
async def test_a_conflict_is_where_the_schema_says(
    kube: Any, gizmos: Any, ours: Any, theirs: Any, field: str
) -> None:
    await kube.apply(gizmos, gizmos.new("x", spec=ours), "one")

    refused = await kube.apply(gizmos, gizmos.new("x", spec=theirs), "two")

    assert refused.causes == [(field, "FieldManagerConflict", 'conflict with "one"')]


async def test_an_update_takes_what_it_changes(kube: Any, gizmos: Any) -> None:
    made = (await kube.apply(gizmos, gizmos.new("x", spec={"replicas": 1}), "one")).ok
    made["spec"] |= {"replicas": 2, "note": "a"}

    changed = (await kube.put(gizmos.path("x"), made, fieldManager="writer")).ok

    assert fields(changed, "one") is None
    (entry,) = [e for e in changed["metadata"]["managedFields"] if e["manager"] == "writer"]
    assert entry["operation"] == "Update"
    assert entry["fieldsV1"] == {"f:spec": {"f:note": {}, "f:replicas": {}}}


async def test_status_is_owned_apart(kube: Any, gizmos: Any) -> None:
    await kube.apply(gizmos, gizmos.new("x", spec={"replicas": 1}), "one")
    condition = {"type": "Ready", "status": "True"}
    status = {"phase": "Yes", "conditions": [condition]}

    done = (await kube.apply(gizmos, gizmos.new("x", status=status), "two", "status")).ok

    assert done["status"] == status
    assert done["spec"] == {"replicas": 1, "size": "small"}
    owned = fields(done, "two", "status")["f:status"]
    assert set(owned) == {"f:phase", "f:conditions"}
    again = (await kube.apply(gizmos, gizmos.new("x", spec={"replicas": 3}), "one")).ok
    assert again["status"] == status


async def test_the_managers_of_subresources_are_marked(kube: Any, gizmos: Any) -> None:
    kube.needs(22, "subresource in managedFields")
    await kube.apply(gizmos, gizmos.new("x", spec={"replicas": 1, "size": "small"}), "one")
    await kube.apply(gizmos, gizmos.new("x", status={"phase": "A"}), "one", "status")
    change = {"spec": {"replicas": 2}}
    (await kube.patch(gizmos.path("x", "scale"), change, fieldManager="scaler")).ok

    obj = (await kube.get(gizmos.path("x"))).ok

    marks = {(e["manager"], e.get("subresource", "")) for e in obj["metadata"]["managedFields"]}
    assert marks == {("one", ""), ("one", "status"), ("scaler", "scale")}


async def test_a_dry_run_applies_nothing(kube: Any, gizmos: Any) -> None:
    obj = gizmos.new("x", spec={"replicas": 1})
    assert (await kube.apply(gizmos, obj, "one", dryRun="All")).status == 201
    assert (await kube.get(gizmos.path("x"))).status == 404
    made = (await kube.apply(gizmos, obj, "one")).ok

    would = await kube.apply(gizmos, gizmos.new("x", spec={"replicas": 2}), "one", dryRun="All")

    assert would.ok["spec"]["replicas"] == 2
    assert (await kube.get(gizmos.path("x"))).ok == made
    refused = await kube.apply(gizmos, gizmos.new("x", spec={"replicas": 2}), "two", dryRun="All")
    assert refused.status == 409


async def test_managed_fields_can_be_given_up(kube: Any, gizmos: Any) -> None:
    await kube.apply(gizmos, gizmos.new("x", spec={"replicas": 1}), "one")

    reset = {"metadata": {"managedFields": [{}]}}
    cleared = (await kube.patch(gizmos.path("x"), reset)).ok

    assert not cleared["metadata"].get("managedFields")
    assert (await kube.apply(gizmos, gizmos.new("x", spec={"replicas": 2}), "two")).status in (
        200,
        409,  # with what "before-first-apply" then owns
    )


async def test_managed_fields_are_not_for_the_applier(kube: Any, gizmos: Any) -> None:
    body = gizmos.new("x", spec={}, metadata={"managedFields": [{"manager": "me"}]})

    assert (await kube.apply(gizmos, body, "one")).refusal == (
        400,
        "BadRequest",
        "metadata.managedFields must be nil",
    )


async def test_apply_needs_a_manager(kube: Any, gizmos: Any) -> None:
    body = gizmos.new("x", spec={})

    refused = await kube.patch(gizmos.path("x"), body, "apply")

    assert refused.refusal[:2] == (422, "Invalid")
    assert "fieldManager: Required value: is required for apply patch" in refused.refusal[2]
    forced = await kube.patch(gizmos.path("x"), {}, "merge", force="true")
    assert "force: Forbidden: may not be specified for non-apply patch" in forced.refusal[2]


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": {"name": "other"}},
        {"kind": "Other"},
        {"apiVersion": "contract.laneway.example/v9"},
        {"apiVersion": ""},
        {"spec": {"tags": ["a", "a"]}},
        {"spec": {"ports": [{"number": 1}]}},
        {"spec": {"ports": [{"name": "a"}, {"name": "a"}]}},
        {"spec": {"replicas": "many"}},
        {"spec": {"labels": []}},
    ],
)
async def test_what_cannot_be_applied(kube: Any, gizmos: Any, change: Any) -> None:
    body = {**gizmos.new("x", spec={}), **change}

    refused = await kube.patch(gizmos.path("x"), body, "apply", fieldManager="one")

    assert refused.unwanted
    assert (await kube.get(gizmos.path("x"))).status == 404


async def test_a_stale_version_is_a_conflict(kube: Any, gizmos: Any) -> None:
    await kube.apply(gizmos, gizmos.new("x", spec={"replicas": 1}), "one")
    stale = gizmos.new("x", spec={"replicas": 2}, metadata={"resourceVersion": "1"})

    code, reason, message = (await kube.apply(gizmos, stale, "one")).refusal

    assert (code, reason) == (409, "Conflict")
    assert "the object has been modified" in message


async def test_yaml_is_what_is_applied(kube: Any, gizmos: Any) -> None:
    text = (
        "apiVersion: contract.laneway.example/v1\nkind: Gizmo\n"
        "metadata:\n  name: x\nspec: {note: hello}  # YAML\n"
    )

    made = await kube.patch(gizmos.path("x"), text.encode(), "apply", fieldManager="one")

    assert made.status == 201
    assert made.json["spec"] == {"note": "hello", "size": "small"}


async def test_keys_of_built_in_lists_are_known(kube: Any) -> None:
    services = kube.of("services")
    http = {"name": "http", "port": 80, "protocol": "TCP"}
    await kube.apply(services, services.new("x", spec={"ports": [http]}), "one")
    https = {"name": "https", "port": 443, "protocol": "TCP"}

    both = (await kube.apply(services, services.new("x", spec={"ports": [https]}), "two")).ok

    assert sorted(port["port"] for port in both["spec"]["ports"]) == [80, 443]
    key = 'k:{"port":443,"protocol":"TCP"}'
    assert list(fields(both, "two")["f:spec"]["f:ports"]) == [key]


async def test_a_creation_and_an_update_are_managed_too(kube: Any) -> None:
    configmaps = kube.of("configmaps")
    headers = {"User-Agent": "my-program/v1 (linux)"}
    body = configmaps.new("x", data={"a": "1"}, metadata={"labels": {"l": "1"}})

    made = (await kube.call("POST", configmaps.path(), body, headers=headers)).ok

    (entry,) = made["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"]) == ("my-program", "Update")
    assert entry["fieldsV1"] == {
        "f:data": {".": {}, "f:a": {}},
        "f:metadata": {"f:labels": {".": {}, "f:l": {}}},
    }
