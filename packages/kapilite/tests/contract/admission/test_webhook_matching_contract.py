"""Which webhooks are asked about which writes."""

from __future__ import annotations

from typing import Any

import pytest

LABEL = "admission.laneway.example/test"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations"


def paths(hooks: Any) -> list[str]:
    found = sorted(call.path for call in hooks.calls)
    hooks.calls.clear()
    return found


async def test_resources_and_subresources(kube: Any, hooks: Any) -> None:
    await kube.define()
    patterns = {
        "/one": "widgets",
        "/status": "widgets/status",
        "/subs": "widgets/*",
        "/star": "*",
        "/statuses": "*/status",
        "/all": "*/*",
        "/other": "configmaps",
    }
    rule = {"operations": ["UPDATE"]}
    hookups = [kube.webhook(path, pattern, rule=rule) for path, pattern in patterns.items()]
    await kube.configure("validating", *hookups)
    await kube.post(kube.path("widgets"), kube.widget("x"))
    assert paths(hooks) == []
    await kube.merge(kube.path("widgets", "x"), {"spec": {"size": 2}})
    assert paths(hooks) == ["/all", "/one", "/star", "/subs"]
    await kube.merge(kube.path("widgets", "x/status"), {"status": {"phase": "a"}})
    assert paths(hooks) == ["/all", "/status", "/statuses", "/subs"]
    await kube.merge(kube.path("widgets", "x/scale"), {"spec": {"replicas": 1}})
    assert paths(hooks) == ["/all", "/subs"]


async def test_operations_groups_and_versions(kube: Any, hooks: Any) -> None:
    await kube.define()
    rules: dict[str, dict[str, Any]] = {
        "/create": {"operations": ["CREATE"]},
        "/update": {"operations": ["UPDATE", "DELETE"]},
        "/any": {"operations": ["*"]},
        "/group": {"apiGroups": ["admission.laneway.example"]},
        "/core": {"apiGroups": [""]},
        "/v1": {"apiVersions": ["v1"]},
        "/v9": {"apiVersions": ["v9"]},
    }
    await kube.configure(
        "validating", *(kube.webhook(path, "*", rule=rule) for path, rule in rules.items())
    )
    await kube.post(kube.path("widgets"), kube.widget("x"))
    assert paths(hooks) == ["/any", "/create", "/group", "/v1"]
    await kube.call("DELETE", kube.path("widgets", "x"))
    assert paths(hooks) == ["/any", "/update"]
    await kube.post(kube.path("configmaps"), kube.configmap("x"))
    assert paths(hooks) == ["/any", "/core", "/create", "/v1"]


async def test_another_version_of_the_resource(kube: Any, hooks: Any, answers: Any) -> None:
    """A webhook for v1 sees what is written as v2, as v1; unless it wants to match exactly."""
    await kube.define()
    rule = {"apiVersions": ["v1"]}
    await kube.configure(
        "mutating",
        kube.webhook("/equivalent", "widgets", rule=rule),
        kube.webhook("/exact", "widgets", rule=rule, matchPolicy="Exact"),
        kube.webhook("/v2", "widgets", rule={"apiVersions": ["v2"]}),
    )
    size = {"op": "replace", "path": "/spec/size", "value": 7}
    hooks.on("/equivalent", lambda r: answers.patched(r, size))
    made = await kube.post(kube.path("widgets", version="v2"), kube.widget("x", "v2", spec={}))
    assert made.body["apiVersion"] == "admission.laneway.example/v2"
    assert made.body["spec"] == {"size": 7}
    (first, second) = (call.request for call in hooks.calls)
    assert (first["kind"]["version"], first["requestKind"]["version"]) == ("v1", "v2")
    assert (first["resource"]["version"], first["requestResource"]["version"]) == ("v1", "v2")
    assert first["object"]["apiVersion"] == "admission.laneway.example/v1"
    assert (second["kind"]["version"], second["requestKind"]["version"]) == ("v2", "v2")
    assert second["object"]["spec"] == {"size": 7}


@pytest.mark.parametrize("scope", ["Cluster", "Namespaced", "*"])
async def test_scopes(kube: Any, hooks: Any, scope: str) -> None:
    resources = ["configmaps", "namespaces"]
    rule = {"scope": scope, "operations": ["CREATE", "UPDATE"], "resources": resources}
    await kube.configure("validating", kube.webhook("/h", rule=rule))
    await kube.post(kube.path("configmaps"), kube.configmap("x"))
    assert paths(hooks) == ([] if scope == "Cluster" else ["/h"])
    labels = {"metadata": {"labels": {"a": "b"}}}
    await kube.merge(f"/api/v1/namespaces/{kube.namespace}", labels)
    assert paths(hooks) == ([] if scope == "Namespaced" else ["/h"])


async def test_object_selectors_see_both_states(kube: Any, hooks: Any) -> None:
    expressions = [
        {"key": "l", "operator": "In", "values": ["a", "b"]},
        {"key": "m", "operator": "DoesNotExist"},
    ]
    selector = {"objectSelector": {"matchExpressions": expressions}}
    await kube.configure("validating", kube.webhook("/h", rule={"operations": ["*"]}, **selector))
    path = kube.path("configmaps", "x")
    await kube.post(kube.path("configmaps"), kube.configmap("x"))
    assert paths(hooks) == []
    for labels, asked in (
        ({"l": "c"}, []),
        ({"l": "a"}, ["/h"]),
        ({"l": "b", "m": "x"}, ["/h"]),  # it was chosen before
        ({"l": "a"}, []),
        ({"m": None}, ["/h"]),
    ):
        await kube.merge(path, {"metadata": {"labels": labels}})
        assert paths(hooks) == asked, labels
    await kube.call("DELETE", path)
    assert paths(hooks) == ["/h"]


async def test_namespace_selectors(kube: Any, hooks: Any) -> None:
    """They choose by the labels of the namespace now, of a Namespace itself by its own to come."""
    selector = {"matchLabels": {LABEL: kube.namespace}, "matchExpressions": []}
    selector["matchExpressions"] = [{"key": "off", "operator": "DoesNotExist"}]
    resources = ["configmaps", "namespaces"]
    rule = {"operations": ["CREATE", "UPDATE"], "resources": resources, "scope": "*"}
    await kube.configure("validating", kube.webhook("/h", namespaceSelector=selector, rule=rule))
    await kube.post(kube.path("configmaps"), kube.configmap("x"))
    assert paths(hooks) == ["/h"]
    path = f"/api/v1/namespaces/{kube.namespace}"
    await kube.merge(path, {"metadata": {"labels": {"off": "x"}}})
    assert paths(hooks) == []
    await kube.merge(path, {"metadata": {"labels": {"off": None}}})
    assert paths(hooks) == ["/h"]
    other = {"metadata": {"name": f"{kube.namespace}-b", "labels": {LABEL: kube.namespace}}}
    await kube.post("/api/v1/namespaces", other)
    assert paths(hooks) == ["/h"]


async def test_cluster_wide_objects_have_no_namespace_to_select_by(kube: Any, hooks: Any) -> None:
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": f"{kube.namespace}-role", "labels": {LABEL: kube.namespace}},
    }
    chosen = {"objectSelector": {"matchLabels": {LABEL: kube.namespace}}}
    rule = {"resources": ["clusterroles"], "scope": "*"}
    await kube.configure("validating", kube.webhook("/h", rule=rule, **chosen))
    await kube.post("/apis/rbac.authorization.k8s.io/v1/clusterroles", role)
    assert paths(hooks) == ["/h"]


async def test_configurations_are_never_asked_about(kube: Any, hooks: Any, answers: Any) -> None:
    """Or one that refuses everything could not be removed any more."""
    chosen = {"objectSelector": {"matchLabels": {LABEL: kube.namespace}}}
    everything = {"operations": ["*"], "resources": ["*/*"], "scope": "*"}
    for kind in ("validating", "mutating"):
        await kube.configure(kind, kube.webhook("/h", rule=everything, **chosen), name="h")
    hooks.on("/h", answers.deny)
    for kind in ("validating", "mutating"):
        other = kube.configuration(kind, "other")
        other["metadata"]["labels"] = {LABEL: kube.namespace}
        made = await kube.post(CONFIGURATIONS.format(kind), other)
        assert made.status == 201
        path = f"{CONFIGURATIONS.format(kind)}/{made.body['metadata']['name']}"
        assert (await kube.call("DELETE", path)).status == 200
    assert paths(hooks) == []


async def test_a_configuration_that_is_removed_asks_no_more(
    kube: Any, hooks: Any, answers: Any
) -> None:
    made = await kube.configure("validating", kube.webhook("/h"))
    hooks.on("/h", answers.deny)
    refused = await kube.post(kube.path("configmaps"), kube.configmap("x"))
    assert refused.status == 400
    path = f"{CONFIGURATIONS.format('validating')}/{made['metadata']['name']}"
    assert (await kube.call("DELETE", path)).status == 200

    async def status() -> int:
        reply = await kube.post(kube.path("configmaps"), kube.configmap("x"))
        return reply.status

    await kube.eventually(status, 201)


async def test_a_configuration_that_is_changed(kube: Any, hooks: Any) -> None:
    made = await kube.configure("validating", kube.webhook("/h"))
    path = f"{CONFIGURATIONS.format('validating')}/{made['metadata']['name']}"
    made["webhooks"][0]["clientConfig"] = hooks.config("/new")
    assert (await kube.call("PUT", path, made)).status == 200

    async def asked() -> Any:
        hooks.calls.clear()
        await kube.post(kube.path("configmaps"), kube.configmap("x"), dryRun="All")
        return hooks.calls[0].path

    await kube.eventually(asked, "/new")


async def test_the_old_form_of_reviews(kube: Any, hooks: Any) -> None:
    """v1beta1 requested no uid in an answer."""
    webhook = kube.webhook("/h", admissionReviewVersions=["v7", "v1beta1", "v1"])
    await kube.configure("mutating", webhook)
    version = "admission.k8s.io/v1beta1"
    head = {"apiVersion": version, "kind": "AdmissionReview"}
    hooks.on("/h", lambda _: head | {"response": {"allowed": True}})
    reply = await kube.post(kube.path("configmaps"), kube.configmap("x"))
    assert hooks.calls[0].review["apiVersion"] == version
    assert reply.status == 201
