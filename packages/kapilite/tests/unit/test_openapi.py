"""The OpenAPI documents hold together and say what kubectl looks for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kapilite import builtin
from kapilite.errors import ApiError
from kapilite.kinds import Kind
from kapilite.openapi import documents

WIDGET = Kind(
    group="parts.example.com",
    version="v1beta1",
    kind="Widget",
    plural="widgets",
    singular="widget",
    namespaced=True,
    has_status=True,
    custom=True,
    schema={
        "description": "A part.",
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "required": ["size"],
                "properties": {
                    "size": {"type": "integer", "default": 1, "nullable": True},
                    "default": {"type": "string", "description": "Named like a keyword."},
                    "any": {
                        "anyOf": [{"type": "integer"}, {"type": "string"}],
                        "x-kubernetes-int-or-string": True,
                    },
                    "list": {"type": "array", "items": {"type": "string", "nullable": True}},
                },
            },
        },
    },
)
NODE = Kind(group="", version="v1", kind="Node", plural="nodes", singular="node", namespaced=False)
KINDS = [NODE, WIDGET]
NAME = "com.example.parts.v1beta1.Widget"
GVK = {"group": "parts.example.com", "version": "v1beta1", "kind": "Widget"}


def references(document: Any) -> Iterator[str]:
    if isinstance(document, dict):
        if isinstance(document.get("$ref"), str):
            yield document["$ref"]
        for value in document.values():
            yield from references(value)
    elif isinstance(document, list):
        for value in document:
            yield from references(value)


def resolve(document: Any, reference: str) -> Any:
    for key in reference.removeprefix("#/").split("/"):
        document = document[key]
    return document


@pytest.mark.parametrize(
    "document",
    [
        documents.v2(KINDS),
        documents.v3(KINDS, "", "v1"),
        documents.v3(KINDS, "parts.example.com", "v1beta1"),
        documents.v2(builtin.KINDS),
        documents.v3(builtin.KINDS, "", "v1"),
        documents.v3(builtin.KINDS, "apps", "v1"),
    ],
)
def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    found = list(references({k: v for k, v in document.items() if k != "paths"}))
    found += list(references(document["paths"]))
    assert found
    assert all({"type", "oneOf"} & resolve(document, reference).keys() for reference in found)


def test_explain_finds_the_schema_through_the_address() -> None:
    document = documents.v3(KINDS, "parts.example.com", "v1beta1")
    collection = "/apis/parts.example.com/v1beta1/namespaces/{namespace}/widgets"
    assert document["paths"][collection]["get"]["x-kubernetes-group-version-kind"] == GVK
    schema = document["components"]["schemas"][NAME]
    assert schema["x-kubernetes-group-version-kind"] == [GVK]
    assert schema["description"] == "A part."
    assert schema["properties"]["spec"] == WIDGET.schema["properties"]["spec"]  # type: ignore[index]
    metadata = resolve(document, schema["properties"]["metadata"]["allOf"][0]["$ref"])
    assert all(field["description"] for field in metadata["properties"].values())
    assert "io.k8s.api.core.v1.Node" not in document["components"]["schemas"]


def test_built_in_kinds_have_the_names_of_a_cluster() -> None:
    schemas = documents.v3(KINDS, "", "v1")["components"]["schemas"]
    assert {"io.k8s.api.core.v1.Node", "io.k8s.api.core.v1.NodeList"} <= set(schemas)


def test_every_patch_says_that_the_server_validates_fields() -> None:
    for document in (documents.v2(KINDS), documents.v3(KINDS, "parts.example.com", "v1beta1")):
        patches = {p: item["patch"] for p, item in document["paths"].items() if "patch" in item}
        assert any(path.endswith("/status") for path in patches)
        for patch in patches.values():
            assert "fieldValidation" in {parameter["name"] for parameter in patch["parameters"]}
            assert patch["x-kubernetes-action"] == "patch"


def test_path_parameters_are_declared() -> None:
    paths = documents.v3(KINDS, "parts.example.com", "v1beta1")["paths"]
    for path, item in paths.items():
        declared = {p["name"] for p in item["parameters"]}
        assert {part[1:-1] for part in path.split("/") if part.startswith("{")} == declared


def test_the_index_tells_when_a_document_changed() -> None:
    before = documents.v3_index(KINDS)["paths"]
    assert set(before) == {"api/v1", "apis/parts.example.com/v1beta1"}
    address = before["api/v1"]["serverRelativeURL"]
    assert address.startswith("/openapi/v3/api/v1?hash=")
    other = Kind(
        group="", version="v1", kind="Event", plural="events", singular="event", namespaced=True
    )
    after = documents.v3_index([*KINDS, other])["paths"]
    assert after["api/v1"] != before["api/v1"]
    assert after["apis/parts.example.com/v1beta1"] == before["apis/parts.example.com/v1beta1"]


def test_the_old_form_leaves_out_what_it_cannot_say() -> None:
    spec = documents.v2(KINDS)["definitions"][NAME]["properties"]["spec"]
    assert spec == {
        "type": "object",
        "required": ["size"],
        "properties": {
            "size": {"type": "integer"},
            "default": {"type": "string", "description": "Named like a keyword."},
            "any": {"x-kubernetes-int-or-string": True},
            "list": {"type": "array", "items": {"type": "string"}},
        },
    }


def test_documents_leave_the_kinds_as_they_were() -> None:
    before = repr(WIDGET)
    documents.v2(KINDS)
    documents.v3(KINDS, "parts.example.com", "v1beta1")
    assert repr(WIDGET) == before


def test_an_unknown_version_is_not_found() -> None:
    with pytest.raises(ApiError) as caught:
        documents.v3(KINDS, "parts.example.com", "v2")
    assert caught.value.code == 404


def test_a_struct_is_described_once_and_in_its_own_words() -> None:
    schemas = documents.v3(builtin.KINDS, "apps", "v1")["components"]["schemas"]
    spec = schemas["io.k8s.api.apps.v1.DeploymentSpec"]
    assert spec["required"] == ["selector", "template"]
    strategy = spec["properties"]["strategy"]
    assert strategy["allOf"] == [
        {"$ref": "#/components/schemas/io.k8s.api.apps.v1.DeploymentStrategy"}
    ]
    own = schemas["io.k8s.api.apps.v1.DeploymentStrategy"]
    assert own.get("description") != strategy["description"]
    assert own["properties"]["type"]["enum"] == ["Recreate", "RollingUpdate"]
    assert "x-kapilite" not in str(schemas)
