"""What a server tells programs about its kinds: discovery, old and aggregated, and OpenAPI."""

from __future__ import annotations

from typing import Any

import pytest

SERVED = {
    "/api/v1": [
        "configmaps",
        "events",
        "namespaces",
        "namespaces/finalize",
        "namespaces/status",
        "nodes",
        "nodes/status",
        "pods",
        "pods/binding",
        "pods/status",
        "secrets",
        "serviceaccounts",
        "serviceaccounts/token",
        "services",
        "services/status",
    ],
    "/apis/apps/v1": [
        "daemonsets",
        "daemonsets/status",
        "deployments",
        "deployments/scale",
        "deployments/status",
    ],
    "/apis/authentication.k8s.io/v1": ["tokenreviews"],
    "/apis/authorization.k8s.io/v1": [
        "localsubjectaccessreviews",
        "selfsubjectaccessreviews",
        "selfsubjectrulesreviews",
        "subjectaccessreviews",
    ],
    "/apis/coordination.k8s.io/v1": ["leases"],
    "/apis/events.k8s.io/v1": ["events"],
    "/apis/rbac.authorization.k8s.io/v1": [
        "clusterrolebindings",
        "clusterroles",
        "rolebindings",
        "roles",
    ],
    "/apis/admissionregistration.k8s.io/v1": [
        "mutatingwebhookconfigurations",
        "validatingwebhookconfigurations",
    ],
    "/apis/apiextensions.k8s.io/v1": [
        "customresourcedefinitions",
        "customresourcedefinitions/status",
    ],
}
REAL_RESOURCES: dict[str, dict[str, Any]] = {
    "configmaps": {"kind": "ConfigMap", "namespaced": True, "shortNames": ["cm"]},
    "namespaces/finalize": {"kind": "Namespace", "namespaced": False, "verbs": ["update"]},
    "namespaces/status": {
        "kind": "Namespace",
        "namespaced": False,
        "verbs": ["get", "patch", "update"],
    },
    "namespaces": {
        "kind": "Namespace",
        "namespaced": False,
        "shortNames": ["ns"],
        "verbs": ["create", "delete", "get", "list", "patch", "update", "watch"],
    },
    "pods": {"kind": "Pod", "namespaced": True, "shortNames": ["po"], "categories": ["all"]},
    "pods/binding": {"kind": "Binding", "namespaced": True, "verbs": ["create"]},
    "serviceaccounts/token": {
        "kind": "TokenRequest",
        "namespaced": True,
        "verbs": ["create"],
        "group": "authentication.k8s.io",
        "version": "v1",
    },
    "deployments/scale": {
        "kind": "Scale",
        "namespaced": True,
        "verbs": ["get", "patch", "update"],
        "group": "autoscaling",
        "version": "v1",
    },
    "subjectaccessreviews": {
        "kind": "SubjectAccessReview",
        "namespaced": False,
        "verbs": ["create"],
    },
    "leases": {
        "kind": "Lease",
        "namespaced": True,
        "verbs": [
            "create",
            "delete",
            "deletecollection",
            "get",
            "list",
            "patch",
            "update",
            "watch",
        ],
    },
    "roles": {"kind": "Role", "namespaced": True},
    "customresourcedefinitions": {
        "kind": "CustomResourceDefinition",
        "namespaced": False,
        "shortNames": ["crd", "crds"],
    },
}


async def test_the_core_is_version_one(kube: Any) -> None:
    found = (await kube.get("/api")).ok

    assert (found["kind"], found["versions"]) == ("APIVersions", ["v1"])


async def test_groups_name_their_versions(kube: Any, gizmos: Any) -> None:
    found = (await kube.get("/apis")).ok

    assert (found["kind"], found["apiVersion"]) == ("APIGroupList", "v1")
    groups = {group["name"]: group for group in found["groups"]}
    expected = {"groupVersion": gizmos.api_version, "version": "v1"}
    one = {"name": gizmos.group, "versions": [expected], "preferredVersion": expected}
    assert groups[gizmos.group] == one
    assert (await kube.get(f"/apis/{gizmos.group}")).ok == {
        "kind": "APIGroup",
        "apiVersion": "v1",
        **one,
    }


@pytest.mark.whole_kubernetes
async def test_every_version_is_of_a_group(kube: Any) -> None:
    groups = {group["name"] for group in (await kube.get("/apis")).ok["groups"]}

    assert {path.split("/")[2] for path in SERVED if path != "/api/v1"} <= groups


@pytest.mark.whole_kubernetes
@pytest.mark.parametrize("path", SERVED)
async def test_a_version_lists_its_resources(kube: Any, path: str) -> None:
    found = (await kube.get(path)).ok

    assert found["kind"] == "APIResourceList"
    assert found["groupVersion"] == path.removeprefix("/apis/").removeprefix("/api/")
    listed = {resource["name"]: resource for resource in found["resources"]}
    assert set(SERVED[path]) <= set(listed)
    for name in SERVED[path]:
        wanted = REAL_RESOURCES.get(name, {})
        assert {key: listed[name].get(key) for key in wanted} == wanted


async def test_a_custom_kind_is_listed_with_its_subresources(kube: Any, gizmos: Any) -> None:
    found = (await kube.get(f"/apis/{gizmos.api_version}")).ok["resources"]

    listed = {resource["name"]: resource for resource in found}
    assert listed["gizmos"].pop("storageVersionHash", "x")
    assert listed["gizmos"] == {
        "name": "gizmos",
        "singularName": "gizmo",
        "namespaced": True,
        "kind": "Gizmo",
        "shortNames": ["gz"],
        "verbs": [
            "delete",
            "deletecollection",
            "get",
            "list",
            "patch",
            "create",
            "update",
            "watch",
        ],
    }
    assert listed["gizmos/status"]["verbs"] == ["get", "patch", "update"]
    scale = listed["gizmos/scale"]
    assert (scale["kind"], scale["group"], scale["version"]) == ("Scale", "autoscaling", "v1")


async def test_everything_in_one_document(kube: Any, gizmos: Any) -> None:
    kube.needs(27, "aggregated discovery")
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

    for path, group in (("/api", ""), ("/apis", gizmos.group)):
        answer = await kube.get(path, accept=f"{accept},application/json")
        found = answer.ok
        assert (found["kind"], found["apiVersion"]) == (
            "APIGroupDiscoveryList",
            "apidiscovery.k8s.io/v2",
        )
        assert answer.headers["Content-Type"] == accept
        named = {item["metadata"].get("name", ""): item for item in found["items"]}
        (version,) = named[group]["versions"]
        assert version["version"] == "v1"
    resources = {resource["resource"]: resource for resource in version["resources"]}
    assert resources["gizmos"]["responseKind"] == {
        "group": gizmos.group,
        "version": "v1",
        "kind": "Gizmo",
    }
    assert resources["gizmos"]["scope"] == "Namespaced"


def definitions(document: dict[str, Any], group: str, version: str, kind: str) -> dict[str, Any]:
    """The schema of a kind in a swagger document."""
    wanted = {"group": group, "version": version, "kind": kind}
    (found,) = [
        schema
        for schema in document["definitions"].values()
        if wanted in schema.get("x-kubernetes-group-version-kind", [])
    ]
    return found


async def test_swagger_has_the_schema_of_a_custom_kind(kube: Any, gizmos: Any) -> None:
    def told(answer: Any) -> bool:
        return '"Gizmo"' in answer.body.decode()

    document = (await kube.until("/openapi/v2", told)).json

    assert document["swagger"] == "2.0"
    schema = definitions(document, gizmos.group, "v1", "Gizmo")
    assert schema["description"] == "A gizmo, which has everything."
    assert schema["required"] == ["spec"]
    assert schema["properties"]["apiVersion"]["type"] == "string"
    assert ".meta.v1.ObjectMeta" in schema["properties"]["metadata"]["$ref"]
    spec = schema["properties"]["spec"]["properties"]
    assert spec["tags"] == {
        "type": "array",
        "items": {"type": "string"},
        "x-kubernetes-list-type": "set",
    }
    assert spec["ports"]["x-kubernetes-list-map-keys"] == ["name"]
    assert spec["free"]["x-kubernetes-preserve-unknown-fields"] is True
    assert spec["size"]["enum"] == ["small", "large"]
    listed = definitions(document, gizmos.group, "v1", "GizmoList")
    assert listed["properties"]["items"]["items"]["$ref"].endswith(".v1.Gizmo")


async def test_swagger_has_the_paths_of_a_custom_kind(kube: Any, gizmos: Any) -> None:
    root = f"/apis/{gizmos.api_version}/namespaces/{{namespace}}/gizmos"

    def told(answer: Any) -> bool:
        return root in answer.body.decode()

    paths = (await kube.until("/openapi/v2", told)).json["paths"]

    assert {"get", "post", "delete"} <= set(paths[root])
    assert {"get", "put", "patch", "delete"} <= set(paths[f"{root}/{{name}}"])
    assert {"get", "put", "patch"} <= set(paths[f"{root}/{{name}}/status"])
    assert {"get", "put", "patch"} <= set(paths[f"{root}/{{name}}/scale"])
    assert "get" in paths[f"/apis/{gizmos.api_version}/gizmos"]
    wanted = {"group": gizmos.group, "version": "v1", "kind": "Gizmo"}
    assert paths[root]["post"]["x-kubernetes-group-version-kind"] == wanted
    assert paths[root]["post"]["x-kubernetes-action"] == "post"


@pytest.mark.parametrize(
    ("kind", "group", "keys"),
    [
        ("ConfigMap", "", {"data", "binaryData", "immutable", "metadata"}),
        ("Pod", "", {"spec", "status"}),
        ("Deployment", "apps", {"spec", "status"}),
        ("Role", "rbac.authorization.k8s.io", {"rules"}),
        ("Lease", "coordination.k8s.io", {"spec"}),
    ],
)
async def test_swagger_has_the_built_in_kinds(
    kube: Any, kind: str, group: str, keys: set[str]
) -> None:
    document = (await kube.get("/openapi/v2")).ok

    schema = definitions(document, group, "v1", kind)

    assert keys | {"apiVersion", "kind", "metadata"} <= set(schema["properties"])


async def test_the_third_openapi_has_a_document_per_version(kube: Any, gizmos: Any) -> None:
    kube.needs(24, "OpenAPI v3")
    index = (await kube.get("/openapi/v3")).ok["paths"]

    url = index[f"apis/{gizmos.api_version}"]["serverRelativeURL"]
    path, _, digest = url.partition("?hash=")
    document = (await kube.get(path, hash=digest)).ok

    assert document["openapi"].startswith("3.0")
    schema = document["components"]["schemas"]["example.laneway.contract.v1.Gizmo"]
    assert schema["x-kubernetes-group-version-kind"] == [
        {"group": gizmos.group, "kind": "Gizmo", "version": "v1"}
    ]
    assert schema["properties"]["spec"]["properties"]["size"]["default"] == "small"


async def test_the_version_can_be_requested(kube: Any) -> None:
    found = (await kube.get("/version")).ok

    assert found["major"] == "1"
    assert found["gitVersion"].startswith(f"v1.{kube.minor}.")


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
async def test_health_is_a_word(kube: Any, path: str) -> None:
    answer = await kube.get(path)

    assert (answer.status, answer.body) == (200, b"ok")
    verbose = await kube.get(path, verbose="")
    assert verbose.body.startswith(b"[+]ping ok\n")
    assert verbose.body.endswith(f"{path[1:]} check passed\n".encode())
