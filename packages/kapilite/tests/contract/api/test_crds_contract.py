"""Custom kinds: made, changed and removed at run time, and what their schemas do to objects."""

from __future__ import annotations

from typing import Any

import pytest

TEXT = {"type": "string"}
SPEC = {"properties": {"spec": {"type": "object", "properties": {"a": TEXT, "b": TEXT}}}}


def conditions(obj: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {c["type"]: (c["status"], c["reason"]) for c in obj["status"]["conditions"]}


async def refused(kube: Any, gizmos: Any, spec: dict[str, Any]) -> list[tuple[str, str, str]]:
    answer = await kube.post(gizmos.path(), gizmos.new("bad", spec=spec))
    assert answer.refusal[:2] == (422, "Invalid")
    return answer.causes


async def test_a_new_kind_is_announced(kube: Any, crd: Any) -> None:
    things = await kube.define(crd(SPEC))

    crds = kube.of("customresourcedefinitions")
    made = (await kube.get(crds.path(f"things.{things.group}"))).ok

    assert conditions(made) == {
        "NamesAccepted": ("True", "NoConflicts"),
        "Established": ("True", "InitialNamesAccepted"),
    }
    assert made["status"]["storedVersions"] == ["v1"]
    assert made["status"]["acceptedNames"] == made["spec"]["names"]
    assert made["spec"]["conversion"] == {"strategy": "None"}
    assert "customresourcecleanup.apiextensions.k8s.io" not in made["metadata"].get(
        "finalizers", []
    )
    groups = (await kube.get("/apis")).ok["groups"]
    assert things.group in [group["name"] for group in groups]
    (listed,) = (await kube.get(f"/apis/{things.api_version}")).ok["resources"]
    assert (listed["name"], listed["kind"], listed["namespaced"]) == ("things", "Thing", True)
    assert sorted(listed["verbs"]) == sorted(
        ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]
    )


async def test_a_removed_kind_takes_its_objects_along(kube: Any, crd: Any) -> None:
    things = await kube.define(crd(SPEC))
    (await kube.post(things.path(), things.new("x", spec={"a": "1"}))).ok
    path = kube.of("customresourcedefinitions").path(f"things.{things.group}")

    assert (await kube.delete(path)).status == 200
    await kube.gone(path)

    await kube.gone(things.path())
    await kube.define(crd(SPEC))
    assert (await kube.get(things.path())).ok["items"] == []


async def test_a_second_version_serves_the_same_objects(kube: Any, crd: Any) -> None:
    definition = crd(SPEC)
    things = await kube.define(definition)
    (await kube.post(things.path(), things.new("x", spec={"a": "1"}))).ok
    first = definition["spec"]["versions"][0]
    versions = [{**first, "storage": False}, {**first, "name": "v2"}]
    path = kube.of("customresourcedefinitions").path(definition["metadata"]["name"])

    (await kube.patch(path, {"spec": {"versions": versions}})).ok

    newer = kube.custom(things.group, "things", "Thing", "v2")
    found = await kube.until(newer.path("x"), lambda answer: answer.status == 200)
    assert (found.json["apiVersion"], found.json["spec"]) == (newer.api_version, {"a": "1"})
    assert (await kube.get(things.path("x"))).ok["apiVersion"] == things.api_version
    assert (await kube.get(path)).ok["status"]["storedVersions"] == ["v1", "v2"]
    path = f"/apis/{things.group}"
    group = (await kube.until(path, lambda answer: len(answer.ok["versions"]) == 2)).ok
    assert [v["version"] for v in group["versions"]] == ["v2", "v1"]
    assert group["preferredVersion"]["version"] == "v2"


async def test_fields_that_a_schema_lacks_are_pruned(kube: Any, gizmos: Any) -> None:
    spec = {"size": "large", "typo": 1, "free": {"any": {"thing": [1]}}, "limits": {"gpu": 1}}
    body = gizmos.new("x", spec=spec, other={})

    made = (await kube.post(gizmos.path(), body)).ok

    assert made["spec"] == {
        "size": "large",
        "free": {"any": {"thing": [1]}},
        "limits": {"cpu": 1},
    }
    assert "other" not in made


async def test_defaults_fill_in_what_is_missing(kube: Any, gizmos: Any) -> None:
    spec = {"limits": {"memory": 1}, "ports": [{"name": "a"}]}

    made = (await kube.post(gizmos.path(), gizmos.new("x", spec=spec))).ok

    assert made["spec"] == {
        "size": "small",
        "limits": {"memory": 1, "cpu": 1},
        "ports": [{"name": "a", "protocol": "TCP"}],
    }


async def test_null_is_kept_only_where_it_is_allowed(kube: Any, gizmos: Any) -> None:
    body = gizmos.new("x", spec={"note": None, "size": None, "flag": None})

    made = (await kube.post(gizmos.path(), body)).ok

    assert made["spec"] == {"note": None, "size": "small"}


NEWER = {
    'Invalid value: "number"': 'Invalid value: "float64": spec.replicas in body must be of type',
    'Invalid value: "yesterday"': 'Invalid value: "yesterday": spec.since in body must be of type',
    'Invalid value: "***"': 'Invalid value: "***": spec.secret in body must be of type byte',
}
"""What newer releases answer about formats, all of them with reason FieldValueTypeInvalid."""


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (
            {"size": "huge"},
            ("spec.size", "FieldValueNotSupported", 'Unsupported value: "huge": supported values:'),
        ),
        (
            {"replicas": 11},
            (
                "spec.replicas",
                "FieldValueInvalid",
                "Invalid value: 11: spec.replicas in body should be less than or equal to 10",
            ),
        ),
        (
            {"replicas": -1},
            (
                "spec.replicas",
                "FieldValueInvalid",
                "Invalid value: -1: spec.replicas in body should be greater than or equal to 0",
            ),
        ),
        (
            {"replicas": "1"},
            (
                "spec.replicas",
                "FieldValue",
                'Invalid value: "string": spec.replicas in body must be of type integer: "string"',
            ),
        ),
        (
            {"replicas": 1.5},
            (
                "spec.replicas",
                "FieldValue",
                'Invalid value: "number": spec.replicas in body must be of type integer: "number"',
            ),
        ),
        (
            {"note": "UPPER"},
            (
                "spec.note",
                "FieldValueInvalid",
                "Invalid value: \"UPPER\": spec.note in body should match '^[a-z ]*$'",
            ),
        ),
        ({"note": "a" * 21}, ("spec.note", "", "")),
        ({"since": "yesterday"}, ("spec.since", "FieldValueInvalid", 'Invalid value: "yesterday"')),
        ({"secret": "***"}, ("spec.secret", "FieldValueInvalid", 'Invalid value: "***"')),
        ({"ratio": 0.7}, ("spec.ratio", "FieldValueInvalid", "Invalid value: 0.7: spec.ratio in")),
        ({"order": ["a"] * 5}, ("spec.order", "", "")),
        ({"order": [1]}, ("spec.order", "FieldValue", 'Invalid value: "integer"')),
        ({"labels": {"a": 1}}, ("spec.labels.a", "FieldValue", 'Invalid value: "integer"')),
        ({"free": []}, ("spec.free", "FieldValue", 'Invalid value: "array"')),
        ({"tags": ["a", "a"]}, ("spec.tags[1]", "FieldValueDuplicate", 'Duplicate value: "a"')),
        (
            {"ports": [{"number": 1}]},
            ("spec.ports", "FieldValueRequired", "Required value"),
        ),
        (
            {"ports": [{"name": "a"}, {"name": "a"}]},
            ("spec.ports[1]", "FieldValueDuplicate", "Duplicate value: "),
        ),
    ],
    ids=str,
)
async def test_a_schema_refuses(
    kube: Any, gizmos: Any, spec: dict[str, Any], expected: tuple[str, str, str]
) -> None:
    causes = await refused(kube, gizmos, spec)

    field, _, message = expected
    newer = next((NEWER[old] for old in NEWER if message.startswith(old)), "")
    if kube.minor >= 36 and newer:
        expected = (field, "FieldValueTypeInvalid", newer)
    assert any(all(map(str.startswith, cause, expected)) for cause in causes), causes


async def test_all_faults_are_reported_at_once(kube: Any, gizmos: Any) -> None:
    causes = await refused(kube, gizmos, {"size": "huge", "replicas": 99, "flag": "no"})

    assert [field for field, _, _ in causes] == ["spec.flag", "spec.replicas", "spec.size"]


async def test_int_or_string_is_either(kube: Any, crd: Any) -> None:
    port = {"x-kubernetes-int-or-string": True}
    things = await kube.define(crd({"properties": {"port": port}}))

    for number, value in enumerate([5, "http"]):
        made = await kube.post(things.path(), things.new(f"x{number}", port=value))
        assert made.ok["port"] == value
    refusal = await kube.post(things.path(), things.new("y", port=True))
    assert refusal.refusal[:2] == (422, "Invalid")


async def test_an_embedded_resource_is_checked_as_one(kube: Any, crd: Any) -> None:
    template = {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    }
    things = await kube.define(crd({"properties": {"template": template}}))
    good = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"x": 1}}

    assert (await kube.post(things.path(), things.new("x", template=good))).ok["template"] == good
    bad = await kube.post(things.path(), things.new("y", template={"kind": "Pod"}))
    assert "template.apiVersion" in [field for field, _, _ in bad.causes]


async def test_status_is_written_only_through_its_own_path(kube: Any, gizmos: Any) -> None:
    body = gizmos.new("x", spec={}, status={"phase": "Mine"})
    made = (await kube.post(gizmos.path(), body)).ok
    assert "status" not in made

    change = {"spec": {"replicas": 5}, "status": {"phase": "Good"}, "metadata": {"labels": {}}}
    written = (await kube.patch(gizmos.path("x", "status"), change)).ok

    assert written["status"] == {"phase": "Good"}
    assert "replicas" not in written["spec"]
    assert written["metadata"]["generation"] == 1
    after = (await kube.patch(gizmos.path("x"), change)).ok
    assert after["spec"]["replicas"] == 5
    assert after["metadata"]["generation"] == 2
    assert (await kube.get(gizmos.path("x", "status"))).ok == after


async def test_without_a_status_everything_is_one(kube: Any, gadgets: Any) -> None:
    made = await kube.outside(gadgets, gadgets.new(kube.name(), status={"a": 1}))

    assert made["status"] == {"a": 1}
    changed = (await kube.patch(gadgets.path(kube.name()), {"status": {"a": 2}})).ok
    assert changed["metadata"]["generation"] == 2


async def test_scale_shows_and_sets_the_replicas(kube: Any, gizmos: Any) -> None:
    await kube.post(gizmos.path(), gizmos.new("x", spec={"replicas": 3}))
    status = {"status": {"replicas": 2, "selector": "a=b"}}
    made = (await kube.patch(gizmos.path("x", "status"), status)).ok

    scale = (await kube.get(gizmos.path("x", "scale"))).ok

    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    assert scale["metadata"] == {key: made["metadata"][key] for key in kept}
    assert scale["spec"] == {"replicas": 3}
    assert scale["status"] == {"replicas": 2, "selector": "a=b"}
    scale["spec"]["replicas"] = 7
    assert (await kube.put(gizmos.path("x", "scale"), scale)).ok["spec"] == {"replicas": 7}
    assert (await kube.get(gizmos.path("x"))).ok["spec"]["replicas"] == 7
    assert (await kube.put(gizmos.path("x", "scale"), scale)).refusal[:2] == (409, "Conflict")
    change = {"spec": {"replicas": 1}}
    assert (await kube.patch(gizmos.path("x", "scale"), change)).ok["spec"] == {"replicas": 1}
    assert (await kube.patch(gizmos.path("x", "scale"), {"spec": {"replicas": 99}})).status == 422


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        (["metadata", "name"], "wrong.name", "metadata.name"),
        (["spec", "scope"], "Galaxy", "spec.scope"),
        (["spec", "names", "plural"], "Things", "spec.names.plural"),
        (["spec", "names", "kind"], "", "spec.names.kind"),
        (["spec", "versions"], [], "spec.versions"),
        (["spec", "group"], "nodots", "spec.group"),
    ],
)
async def test_a_definition_that_is_none(
    kube: Any, crd: Any, path: list[str], value: Any, field: str
) -> None:
    definition = crd(SPEC)
    inner = definition
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value

    answer = await kube.post(kube.of("customresourcedefinitions").path(), definition)

    assert answer.refusal[:2] == (422, "Invalid")
    assert field in {found for found, _, _ in answer.causes}


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"properties": {"a": {}}}, "must not be empty for specified object fields"),
        ({"properties": {"a": {"type": "thing"}}}, "Unsupported value"),
        ({"properties": {"a": {"type": "array"}}}, "must be specified"),
        ({"properties": {"a": {"type": "string", "pattern": "("}}}, "must be a valid regular"),
        ({"properties": {"a": {"type": "integer", "default": "x"}}}, "must be of type integer"),
        ({"properties": {"a": {"type": "string", "x-kubernetes-list-type": "set"}}}, "must be"),
        (
            {
                "properties": {
                    "a": {
                        "type": "array",
                        "items": {"type": "object", "properties": {"k": TEXT}},
                        "x-kubernetes-list-type": "map",
                    }
                }
            },
            "must not be empty if",
        ),
        ({"type": "string"}, "must be object"),
    ],
)
async def test_a_schema_that_is_none(
    kube: Any, crd: Any, schema: dict[str, Any], text: str
) -> None:
    answer = await kube.post(kube.of("customresourcedefinitions").path(), crd(schema))

    assert answer.refusal[:2] == (422, "Invalid")
    assert text in answer.refusal[2]


async def test_two_versions_cannot_both_be_stored(kube: Any, crd: Any) -> None:
    definition = crd(SPEC)
    first = definition["spec"]["versions"][0]
    definition["spec"]["versions"] = [first, {**first, "name": "v2"}]

    answer = await kube.post(kube.of("customresourcedefinitions").path(), definition)

    assert "must have exactly one version marked as storage version" in answer.refusal[2]


async def test_names_that_are_taken_are_not_accepted(kube: Any, crd: Any) -> None:
    first = await kube.define(crd(SPEC))
    second = crd(SPEC)
    second["metadata"]["name"] = f"stuffs.{first.group}"
    second["spec"]["names"] |= {"plural": "stuffs", "singular": "stuff"}
    crds = kube.of("customresourcedefinitions")

    await kube.outside(crds, second)

    path = crds.path(second["metadata"]["name"])
    found = await kube.until(path, lambda a: bool(a.ok.get("status", {}).get("conditions")))
    states = conditions(found.json)
    assert states["NamesAccepted"][0] == "False"
    assert states["Established"][0] == "False"


async def test_rules_in_cel_hold(kube: Any, crd: Any) -> None:
    kube.needs(25, "CEL rules")
    rule = {"rule": "self.a == oldSelf.a", "message": "a stays"}
    schema = {"properties": {"spec": {**SPEC["properties"]["spec"]}}}
    schema["properties"]["spec"]["x-kubernetes-validations"] = [rule]
    things = await kube.define(crd(schema))
    (await kube.post(things.path(), things.new("x", spec={"a": "1"}))).ok

    answer = await kube.patch(things.path("x"), {"spec": {"a": "2"}})

    value = "" if kube.minor >= 36 else '"object": '
    assert answer.refusal == (
        422,
        "Invalid",
        f'Thing.{things.group} "x" is invalid: spec: Invalid value: {value}a stays',
    )
    broken = crd(schema)
    rule["rule"] = "self.none == 1"
    refusal = await kube.post(kube.of("customresourcedefinitions").path(), broken)
    assert "compilation failed" in refusal.refusal[2]


async def test_unknown_fields_are_reported_on_demand(kube: Any, gizmos: Any) -> None:
    kube.needs(25, "fieldValidation")
    body = gizmos.new("x", spec={"typo": 1})

    strict = await kube.post(gizmos.path(), body, fieldValidation="Strict")
    assert strict.refusal == (
        400,
        "BadRequest",
        (
            'Gizmo in version "v1" cannot be handled as a Gizmo: strict decoding error: '
            'unknown field "spec.typo"'
        ),
    )
    warned = await kube.post(gizmos.path(), body, fieldValidation="Warn")
    assert warned.status == 201
    assert warned.headers["Warning"] == '299 - "unknown field \\"spec.typo\\""'
