"""What webhooks are asked."""

from __future__ import annotations

from typing import Any

import pytest

EVERYTHING = {"operations": ["*"]}
OPTIONS = {"apiVersion": "meta.k8s.io/v1"}


@pytest.fixture
async def both(kube: Any) -> Any:
    """One webhook of each sort that sees everything in the namespace; /m comes first."""
    await kube.define()
    for kind, path in (("mutating", "/m"), ("validating", "/v")):
        await kube.configure(kind, kube.webhook(path, "*/*", rule=EVERYTHING), name=kind)
    return kube


def asked(hooks: Any) -> list[tuple[str, dict[str, Any]]]:
    found = [(call.path, call.request) for call in hooks.calls]
    hooks.calls.clear()
    return found


def spec(request: dict[str, Any], field: str = "object") -> Any:
    return request[field] and request[field].get("spec")


def sent(options: dict[str, Any]) -> dict[str, Any]:
    """The options that a client chose: what it is called by itself is not the same everywhere."""
    return {k: v for k, v in options.items() if k not in ("fieldManager", "fieldValidation")}


async def test_create(both: Any, hooks: Any) -> None:
    await both.post(both.path("widgets"), both.widget("x", spec={}))
    (first, shown), (second, stored) = asked(hooks)
    assert (first, second) == ("/m", "/v")
    head = {"group": "admission.laneway.example", "version": "v1"}
    for request in (shown, stored):
        assert request["kind"] == request["requestKind"] == head | {"kind": "Widget"}
        assert request["resource"] == request["requestResource"] == head | {"resource": "widgets"}
        assert (request["name"], request["namespace"]) == ("x", both.namespace)
        assert (request["operation"], request["dryRun"]) == ("CREATE", False)
        assert sent(request["options"]) == OPTIONS | {"kind": "CreateOptions"}
        assert request["userInfo"]["username"]
        assert "system:masters" in request["userInfo"]["groups"]
        assert "subResource" not in request
        assert request["oldObject"] is None
        assert spec(request) == {"size": 1}  # the default is there already
    assert shown["uid"] != stored["uid"]
    assert stored["object"]["metadata"]["uid"]
    assert stored["object"]["metadata"]["generation"] == 1
    assert "resourceVersion" not in stored["object"]["metadata"]


async def test_the_question_is_posted_as_json_with_the_time_left(both: Any, hooks: Any) -> None:
    await both.post(both.path("widgets"), both.widget("x"))
    call = hooks.calls[0]
    assert call.query == {"timeout": "10s"}
    assert call.headers["Content-Type"] == "application/json"
    assert call.headers["Accept"] == "application/json, */*"
    assert call.headers["User-Agent"] == "kube-apiserver-admission"
    assert call.review["apiVersion"] == "admission.k8s.io/v1"
    assert call.review["kind"] == "AdmissionReview"
    assert set(call.review) == {"apiVersion", "kind", "request"}


async def test_dry_run_is_passed_on(both: Any, hooks: Any) -> None:
    await both.post(both.path("widgets"), both.widget("x"), dryRun="All")
    for _, request in asked(hooks):
        assert request["dryRun"] is True
        assert request["options"]["dryRun"] == ["All"]


async def test_a_generated_name_is_there_when_it_is_validated(both: Any, hooks: Any) -> None:
    body = both.widget("")
    body["metadata"] = {"generateName": "gen-"}
    made = await both.post(both.path("widgets"), body)
    (_, shown), (_, stored) = asked(hooks)
    assert "name" not in shown or shown["name"] == made.body["metadata"]["name"]
    assert stored["name"] == made.body["metadata"]["name"]


async def test_updates_show_both_objects(both: Any, hooks: Any) -> None:
    path = both.path("widgets", "x")
    made = (await both.post(both.path("widgets"), both.widget("x", spec={"size": 1}))).body
    asked(hooks)
    await both.merge(path, {"spec": {"size": 2}}, fieldManager="me")
    (_, shown), (_, stored) = asked(hooks)
    for request in (shown, stored):
        assert request["operation"] == "UPDATE"
        assert (spec(request, "oldObject"), spec(request)) == ({"size": 1}, {"size": 2})
        before = request["oldObject"]["metadata"]
        assert before["resourceVersion"] == made["metadata"]["resourceVersion"]
        assert request["options"]["kind"] == "UpdateOptions"
        assert request["options"]["fieldManager"] == "me"
    made = (await both.call("GET", path)).body
    await both.call("PUT", path, made | {"spec": {"size": 3}})
    (_, shown), _ = asked(hooks)
    assert sent(shown["options"]) == OPTIONS | {"kind": "UpdateOptions"}
    assert spec(shown) == {"size": 3}


async def test_an_apply_creates_or_updates(both: Any, hooks: Any) -> None:
    for size, operation in ((1, "CREATE"), (2, "UPDATE")):
        body = both.widget("x", spec={"size": size})
        kind = "application/apply-patch+yaml"
        await both.call("PATCH", both.path("widgets", "x"), body, kind, fieldManager="a")
        for _, request in asked(hooks):
            assert request["operation"] == operation
            assert request["options"]["kind"] == f"{operation.capitalize()}Options"
            assert request["options"]["fieldManager"] == "a"


async def test_subresources(both: Any, hooks: Any) -> None:
    await both.post(both.path("widgets"), both.widget("x", spec={"replicas": 1}))
    asked(hooks)
    await both.merge(both.path("widgets", "x/status"), {"status": {"phase": "b"}})
    for _, request in asked(hooks):
        assert request["subResource"] == request["requestSubResource"] == "status"
        assert request["kind"]["kind"] == "Widget"
        assert request["object"]["status"] == {"phase": "b"}
        assert "status" not in request["oldObject"]
    await both.merge(both.path("widgets", "x/scale"), {"spec": {"replicas": 4}})
    for _, request in asked(hooks):
        assert request["subResource"] == "scale"
        assert request["kind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
        assert request["resource"]["resource"] == "widgets"
        assert (spec(request, "oldObject"), spec(request)) == ({"replicas": 1}, {"replicas": 4})


async def test_binding_a_pod(both: Any, hooks: Any) -> None:
    containers = [{"name": "a", "image": "b"}]
    await both.post(
        both.path("pods"), both.configmap("p", kind="Pod", spec={"containers": containers})
    )
    asked(hooks)
    binding = both.configmap("p", kind="Binding", target={"kind": "Node", "name": "n"})
    await both.post(both.path("pods", "p/binding"), binding)
    for _, request in asked(hooks):
        assert (request["operation"], request["subResource"]) == ("CREATE", "binding")
        assert request["kind"] == {"group": "", "version": "v1", "kind": "Binding"}
        assert request["resource"]["resource"] == "pods"
        assert request["object"]["target"]["name"] == "n"


async def test_deletions_show_what_goes(both: Any, hooks: Any) -> None:
    await both.post(both.path("widgets"), both.widget("x", spec={"size": 1}))
    asked(hooks)
    gone = await both.call("DELETE", both.path("widgets", "x"), {"propagationPolicy": "Background"})
    assert gone.status == 200
    for _, request in asked(hooks):
        assert (request["operation"], request["name"]) == ("DELETE", "x")
        assert request["object"] is None
        assert spec(request, "oldObject") == {"size": 1}
        assert request["options"]["kind"] == "DeleteOptions"
        assert request["options"]["propagationPolicy"] == "Background"


async def test_every_object_of_a_collection_is_asked_about(both: Any, hooks: Any) -> None:
    for name in ("x", "y"):
        await both.post(both.path("widgets"), both.widget(name))
    asked(hooks)
    await both.call("DELETE", both.path("widgets"))
    found = asked(hooks)
    assert {request["operation"] for _, request in found} == {"DELETE"}
    names = sorted((path, request["oldObject"]["metadata"]["name"]) for path, request in found)
    assert names == [("/m", "x"), ("/m", "y"), ("/v", "x"), ("/v", "y")]


async def test_a_namespace_is_in_itself(kube: Any, hooks: Any) -> None:
    rule = {"operations": ["UPDATE"], "scope": "Cluster"}
    await kube.configure("validating", kube.webhook("/v", "namespaces", rule=rule))
    path = f"/api/v1/namespaces/{kube.namespace}"
    await kube.merge(path, {"metadata": {"annotations": {"a": "b"}}})
    [(_, request)] = asked(hooks)
    assert request["name"] == request["namespace"] == kube.namespace
    assert request["object"]["metadata"]["annotations"] == {"a": "b"}
