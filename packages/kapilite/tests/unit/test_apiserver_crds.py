"""CustomResourceDefinitions: served at once and after a restart, or refused with the place."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapilite.cel.rules import RULES
from kapilite.definitions import crds
from kapilite.server import ApiServer
from server_support.made_definitions import definition, root
from server_support.writes import DEFINITIONS, written

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


async def test_a_definition_is_established_and_served_at_once(
    api: Any, widgets: str, make_widget: Any
) -> None:
    crd = (await api("GET", f"{CRDS}/widgets.lab.example.com")).body
    conditions = {c["type"]: c["status"] for c in crd["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}
    assert crd["status"]["storedVersions"] == ["v1"]
    assert crd["spec"]["names"]["listKind"] == "WidgetList"
    assert (await api("POST", widgets, make_widget("a"))).status == 201
    found = (await api("GET", "/apis/lab.example.com/v1")).body
    assert [r["name"] for r in found["resources"]] == ["widgets", "widgets/status"]


async def test_definitions_and_objects_survive_a_restart(
    tmp_path: Path, api: Any, server: ApiServer, widgets: str, make_widget: Any
) -> None:
    made = (await api("POST", widgets, make_widget("a"))).body
    await server.stop()

    again = ApiServer(str(tmp_path / "state.db"))
    await again.start()
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{again.url}{widgets}/a") as response,
    ):
        assert await response.json() == made
    await again.stop()


async def test_a_changed_schema_counts_for_the_next_write(
    api: Any, widgets: str, make_widget: Any
) -> None:
    await api("POST", widgets, make_widget("a", size=50))
    path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/size/maximum"
    change = [{"op": "add", "path": path, "value": 10}]
    patched = await api.patch(f"{CRDS}/widgets.lab.example.com", change, "json-patch")
    assert patched.body["metadata"]["generation"] == 2
    assert (await api("POST", widgets, make_widget("b", size=50))).status == 422
    assert (await api("GET", f"{widgets}/a")).status == 200


async def test_a_new_default_is_a_change_of_the_next_write(
    api: Any, widgets: str, make_widget: Any
) -> None:
    await api("POST", widgets, make_widget("a"))
    path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/color/default"
    change = [{"op": "add", "path": path, "value": "red"}]
    await api.patch(f"{CRDS}/widgets.lab.example.com", change, "json-patch")

    written = (await api.patch(f"{widgets}/a", {})).body
    assert written["spec"]["color"] == "red"
    assert written["metadata"]["generation"] == 2


async def test_several_versions_are_one_object(api: Any, widget_crd: Any, make_widget: Any) -> None:
    old = widget_crd["spec"]["versions"][0]
    widget_crd["spec"]["versions"].append({**old, "name": "v1beta1", "storage": False})
    widget_crd["spec"]["versions"].append(
        {**old, "name": "v1alpha1", "storage": False, "served": False}
    )
    assert (await api("POST", CRDS, widget_crd)).status == 201
    v1, beta = (f"/apis/lab.example.com/{v}/namespaces/default/widgets" for v in ("v1", "v1beta1"))

    sent = make_widget("a", size=5) | {"apiVersion": "lab.example.com/v1beta1"}
    made = await api("POST", beta, sent)
    assert made.body["apiVersion"] == "lab.example.com/v1beta1"
    read = (await api("GET", f"{v1}/a")).body
    assert read == made.body | {"apiVersion": "lab.example.com/v1"}
    assert (await api("GET", beta)).body["items"][0]["apiVersion"] == "lab.example.com/v1beta1"
    async with api.watch(beta) as events:
        assert (await anext(events))["object"]["apiVersion"] == "lab.example.com/v1beta1"
    assert (await api("GET", v1.replace("v1", "v1alpha1"))).status == 404
    groups = (await api("GET", "/apis/lab.example.com")).body
    assert groups["preferredVersion"]["version"] == "v1"


def _set(crd: dict[str, Any], path: str, value: Any) -> None:
    *parents, last = path.split("/")
    for name in parents:
        crd = crd[int(name)] if isinstance(crd, list) else crd[name]
    crd[last] = value


SCHEMA = "spec/versions/0/schema/openAPIV3Schema/properties/spec/properties"
PLACE = "spec.validation.openAPIV3Schema.properties[spec].properties"


@pytest.mark.parametrize(
    ("path", "value", "field", "part"),
    [
        ("metadata/name", "other.lab.example.com", "metadata.name", "spec.names.plural"),
        ("spec/scope", "Everywhere", "spec.scope", "Unsupported value"),
        ("spec/versions/0/storage", False, "spec.versions", "exactly one"),
        (
            "spec/conversion",
            {"strategy": "Webhook"},
            "spec.conversion.strategy",
            "no conversion webhooks",
        ),
        (
            "spec/versions/0/additionalPrinterColumns/0/jsonPath",
            "spec.size",
            "spec.additionalPrinterColumns[0].JSONPath",
            "must be a simple json path starting with .",
        ),
        (f"{SCHEMA}/size", {}, f"{PLACE}[size].type", "must not be empty"),
        (f"{SCHEMA}/size", {"type": "thing"}, f"{PLACE}[size].type", "Unsupported value"),
        (f"{SCHEMA}/size", {"$ref": "#/x"}, f"{PLACE}[size].$ref", "not supported"),
        (f"{SCHEMA}/size", {"type": "array"}, f"{PLACE}[size].items", "must be specified"),
        (
            f"{SCHEMA}/size",
            {"type": "string", "pattern": "("},
            f"{PLACE}[size].pattern",
            "regular expression",
        ),
        (
            f"{SCHEMA}/size",
            {"type": "string", "default": 5},
            f"{PLACE}[size].default",
            "must be of type string",
        ),
        (
            f"{SCHEMA}/size",
            {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 'a'"}]},
            f"{PLACE}[size].x-kubernetes-validations[0].rule",
            "found no matching overload for '_>_' applied to '(int, string)'",
        ),
        (
            f"{SCHEMA}/size",
            {
                "type": "array",
                "maxItems": 5,
                "items": {
                    "type": "string",
                    "maxLength": 5,
                    "x-kubernetes-validations": [{"rule": "self == oldSelf"}],
                },
            },
            f"{PLACE}[size].items.x-kubernetes-validations[0].rule",
            "uncorrelatable",
        ),
    ],
)
async def test_a_bad_definition_is_refused_with_the_place(
    api: Any, widget_crd: Any, *, path: str, value: Any, field: str, part: str
) -> None:
    _set(widget_crd, path, value)
    refused = await api("POST", CRDS, widget_crd)
    assert refused.status == 422
    messages = {c["field"]: c["message"] for c in refused.body["details"]["causes"]}
    assert part in messages[field]
    assert (await api("GET", CRDS)).body["items"] == []


async def test_an_unknown_keyword_is_dropped_or_refused_as_a_field_of_any_object_is(
    api: Any, widget_crd: Any
) -> None:
    _set(widget_crd, f"{SCHEMA}/size", {"type": "integer", "maximun": 5})
    strict = await api("POST", f"{CRDS}?fieldValidation=Strict", widget_crd)
    field = f"{SCHEMA.replace('/', '.').replace('.0.', '[0].')}.size.maximun"
    assert (strict.status, f'unknown field "{field}"' in strict.body["message"]) == (400, True)

    made = await api("POST", CRDS, widget_crd)
    assert made.status == 201
    schema = made.body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert schema["properties"]["spec"]["properties"]["size"] == {"type": "integer"}


async def test_a_keyword_of_another_type_cannot_be_read(api: Any, widget_crd: Any) -> None:
    _set(widget_crd, f"{SCHEMA}/size", {"type": "integer", "maximum": "5"})
    refused = await api("POST", CRDS, widget_crd)
    assert refused.status == 400
    assert "json: cannot unmarshal string into Go struct field" in refused.body["message"]


async def test_rules_of_all_versions_are_not_longer_than_any_are(api: Any, widget_crd: Any) -> None:
    (version,) = widget_crd["spec"]["versions"]
    rule = {"rule": " || ".join(["has(self.spec)"] * 1000)}
    versions = [
        {**version, "name": f"v{n}", "storage": n == 1, "schema": copy.deepcopy(version["schema"])}
        for n in range(1, 13)
    ]
    for n, one in enumerate(versions):
        one["schema"]["openAPIV3Schema"] |= {"description": f"{n}", RULES: [rule]}
    widget_crd["spec"]["versions"] = versions[:2]
    assert (await api("POST", CRDS, widget_crd, dryRun="All")).status == 201
    widget_crd["spec"]["versions"] = versions
    refused = await api("POST", CRDS, widget_crd, dryRun="All")
    assert "characters together, the limit is 200000" in refused.body["message"]


def test_a_definition_whose_names_are_taken_is_stored_and_not_served(widget_crd: Any) -> None:
    crds.default_names(widget_crd)
    first = widget_crd | {"status": crds.established(widget_crd, None, ())}
    second = copy.deepcopy(widget_crd)
    second["metadata"]["name"] = "gadgets.lab.example.com"
    second["spec"]["names"] |= {"plural": "gadgets", "singular": "gadget"}
    assert crds.problems(second, None, crds.kinds(first)) == []
    second["status"] = crds.established(second, None, crds.kinds(first))
    conditions = {c["type"]: c for c in second["status"]["conditions"]}
    assert conditions["NamesAccepted"]["status"] == "False"
    assert conditions["NamesAccepted"]["reason"] == "ListKindConflict"
    assert '"WidgetList" is already in use' in conditions["NamesAccepted"]["message"]
    assert conditions["Established"]["reason"] == "NotAccepted"
    assert second["status"]["acceptedNames"] == {"plural": "gadgets", "singular": "gadget"}
    assert crds.kinds(second) == []

    freed = second | {"status": crds.established(second, second, ())}
    assert [kind.plural for kind in crds.kinds(freed)] == ["gadgets"]


def test_an_established_definition_keeps_the_names_it_has(widget_crd: Any) -> None:
    crds.default_names(widget_crd)
    other = copy.deepcopy(widget_crd)
    other["spec"]["names"] = {
        "plural": "gadgets",
        "singular": "gadget",
        "kind": "Gadget",
        "listKind": "GadgetList",
        "shortNames": ["gd"],
    }
    other["status"] = crds.established(other, None, ())
    widget_crd["status"] = crds.established(widget_crd, None, ())
    old = copy.deepcopy(widget_crd)
    widget_crd["spec"]["names"]["shortNames"] = ["gd"]
    widget_crd["status"] = crds.established(widget_crd, old, crds.kinds(other))
    assert widget_crd["status"]["acceptedNames"]["shortNames"] == ["wd"]
    assert [kind.short_names for kind in crds.kinds(widget_crd)] == [("wd",)]


def test_a_version_that_objects_may_be_stored_in_stays(widget_crd: Any) -> None:
    crds.default_names(widget_crd)
    versions = widget_crd["spec"]["versions"]
    versions.append({**versions[0], "name": "v2", "storage": False})
    widget_crd["status"] = crds.established(widget_crd, None, ())
    moved = copy.deepcopy(widget_crd)
    moved["spec"]["versions"][0]["storage"] = False
    moved["spec"]["versions"][1]["storage"] = True
    moved["status"] = crds.established(moved, widget_crd, ())
    assert moved["status"]["storedVersions"] == ["v1", "v2"]

    dropped = copy.deepcopy(moved)
    del dropped["spec"]["versions"][0]
    found = crds.problems(dropped, moved, ())
    assert [(p.field, p.message) for p in found] == [
        (
            "status.storedVersions[0]",
            (
                'Invalid value: "v1": missing from spec.versions; v1 was previously a storage '
                "version, and must remain in spec.versions until a storage migration ensures no "
                "data remains persisted in v1 and removes v1 from status.storedVersions"
            ),
        )
    ]
    dropped["status"]["storedVersions"] = ["v2"]
    assert crds.problems(dropped, moved, ()) == []


def test_scale_and_deprecation_are_part_of_the_kind(widget_crd: Any) -> None:
    crds.default_names(widget_crd)
    version = widget_crd["spec"]["versions"][0]
    version["deprecated"] = True
    version["subresources"]["scale"] = {
        "specReplicasPath": ".spec.size",
        "statusReplicasPath": ".status.size",
        "labelSelectorPath": ".status.selector",
    }
    assert crds.problems(widget_crd, None, ()) == []
    widget_crd["status"] = crds.established(widget_crd, None, ())
    (kind,) = crds.kinds(widget_crd)
    assert kind.scale is not None
    assert kind.scale.spec_replicas == ("spec", "size")
    assert kind.scale.label_selector == ("status", "selector")
    assert kind.warnings == ("lab.example.com/v1 Widget is deprecated",)


@pytest.mark.parametrize(
    ("path", "value", "field", "part"),
    [
        ("subresources/scale", {"statusReplicasPath": ".status.n"}, "specReplicasPath", "Required"),
        (
            "subresources/scale",
            {"specReplicasPath": ".status.n", "statusReplicasPath": ".status.n"},
            "specReplicasPath",
            "should be a json path under .spec",
        ),
        ("deprecationWarning", "old", "deprecationWarning", "deprecated versions"),
        ("selectableFields", [{"jsonPath": ".spec.none"}], "[0].jsonPath", "valid field"),
        ("selectableFields", [{"jsonPath": ".metadata.name"}], "[0].jsonPath", "metadata"),
        ("selectableFields", [{"jsonPath": ".spec"}], "[0].jsonPath", "string, boolean or integer"),
    ],
)
def test_a_bad_version_is_refused_with_the_place(
    widget_crd: Any, *, path: str, value: Any, field: str, part: str
) -> None:
    _set(widget_crd, f"spec/versions/0/{path}", value)
    crds.default_names(widget_crd)
    found = crds.problems(widget_crd, None, ())
    assert [p.field.endswith(field) for p in found] == [True]
    assert part in found[0].message


async def test_what_storage_hangs_on_cannot_change(api: Any, widgets: str, widget_crd: Any) -> None:
    core = {**widget_crd, "metadata": {"name": "gadgets.coordination.k8s.io"}}
    core["spec"] = {**core["spec"], "group": "coordination.k8s.io"}
    assert (await api("POST", CRDS, core)).status == 422
    scope = await api.patch(f"{CRDS}/widgets.lab.example.com", {"spec": {"scope": "Cluster"}})
    assert "field is immutable" in scope.body["message"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "properties", "items", "enum", "pattern", "required", "default"]
            )
            | st.text(max_size=4),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(json_values)
def test_any_value_is_judged_without_failing(value: Any) -> None:
    schema = root({"spec": value})
    for crd in (definition(schema), definition(value), {**definition(schema), "spec": value}):
        judged = written(DEFINITIONS, crd)
        assert judged.errors or judged.stored or not judged.is_readable
