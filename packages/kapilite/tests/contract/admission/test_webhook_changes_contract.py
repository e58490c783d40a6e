"""What mutating webhooks make of objects."""

from __future__ import annotations

from typing import Any

import pytest

UPDATES = {"operations": ["UPDATE"]}
NAMESPACE = "the namespace of the provided object does not match the namespace sent on the request"


def add(path: str, value: Any) -> dict[str, Any]:
    return {"op": "add", "path": path, "value": value}


def appended(answers: Any, letter: str, *, only_once: bool = False) -> Any:
    """A webhook that appends its letter to an annotation."""

    def behaviour(review: Any) -> Any:
        notes = review["request"]["object"]["metadata"].get("annotations") or {}
        trace = notes.get("trace", "")
        if only_once and letter in trace:
            return answers.allow(review)
        return answers.patched(review, add("/metadata/annotations", {"trace": trace + letter}))

    return behaviour


async def test_a_patch(kube: Any, hooks: Any, answers: Any) -> None:
    await kube.configure("mutating", kube.webhook("/h"))
    hooks.on("/h", lambda r: answers.patched(r, add("/data", {"a": "b"})))
    made = await kube.post(kube.path("configmaps"), kube.configmap("x"))
    assert made.body["data"] == {"a": "b"}
    stored = await kube.call("GET", kube.path("configmaps", "x"))
    assert stored.body["data"] == {"a": "b"}


async def test_a_patch_without_operations(kube: Any, hooks: Any, answers: Any) -> None:
    await kube.configure("mutating", kube.webhook("/h"))
    hooks.on("/h", answers.patched)
    made = await kube.post(kube.path("configmaps"), kube.configmap("x"))
    assert made.status == 201


async def test_each_sees_what_those_before_made_of_it(kube: Any, hooks: Any, answers: Any) -> None:
    """In the order of the names of their configurations, and within one as they stand."""
    await kube.configure("mutating", kube.webhook("/c"), name="y")
    await kube.configure("mutating", kube.webhook("/b"), kube.webhook("/a"), name="x")
    await kube.configure("validating", kube.webhook("/v"))
    for letter in "abc":
        hooks.on(f"/{letter}", appended(answers, letter))
    made = await kube.post(kube.path("configmaps"), kube.configmap("x"))
    assert made.body["metadata"]["annotations"] == {"trace": "bac"}
    (seen,) = hooks.to("/v")
    assert seen["object"]["metadata"]["annotations"] == {"trace": "bac"}


async def test_those_before_are_asked_again_if_they_want(
    kube: Any, hooks: Any, answers: Any
) -> None:
    again = {"reinvocationPolicy": "IfNeeded"}
    await kube.configure(
        "mutating", kube.webhook("/a", **again), kube.webhook("/b"), kube.webhook("/c", **again)
    )
    for letter in "abc":
        hooks.on(f"/{letter}", appended(answers, letter, only_once=True))
    made = await kube.post(kube.path("configmaps"), kube.configmap("x"))
    assert made.body["metadata"]["annotations"] == {"trace": "abc"}
    # The object did not change after c.
    assert [call.path for call in hooks.calls] == ["/a", "/b", "/c", "/a"]


async def test_there_is_no_third_request(kube: Any, hooks: Any, answers: Any) -> None:
    again = {"reinvocationPolicy": "IfNeeded"}
    await kube.configure("mutating", kube.webhook("/a", **again), kube.webhook("/b", **again))
    for letter in "ab":
        hooks.on(f"/{letter}", appended(answers, letter))
    made = await kube.post(kube.path("configmaps"), kube.configmap("x"))
    assert made.body["metadata"]["annotations"] == {"trace": "abab"}


async def test_one_that_was_passed_over_is_not_asked_in_the_second_turn(
    kube: Any, hooks: Any, answers: Any
) -> None:
    again = {"reinvocationPolicy": "IfNeeded"}
    labelled = again | {"objectSelector": {"matchLabels": {"l": "x"}}}
    await kube.configure(
        "mutating",
        kube.webhook("/a", **labelled),
        kube.webhook("/b"),
        kube.webhook("/c", **labelled),
    )
    hooks.on("/b", lambda r: answers.patched(r, add("/metadata/labels", {"l": "x"})))
    await kube.post(kube.path("configmaps"), kube.configmap("x"))
    assert [call.path for call in hooks.calls] == ["/b", "/c"]


async def test_the_result_is_completed_and_checked(kube: Any, hooks: Any, answers: Any) -> None:
    await kube.define()
    await kube.configure("mutating", kube.webhook("/h", "widgets"))
    for value, check in (
        ({}, {"size": 1}),
        ({"size": 2, "unknown": True}, {"size": 2}),
    ):
        hooks.on("/h", lambda r, value=value: answers.patched(r, add("/spec", value)))
        made = await kube.post(kube.path("widgets"), kube.widget("x"), dryRun="All")
        assert made.body["spec"] == check
    hooks.on("/h", lambda r: answers.patched(r, add("/spec", {"color": "green"})))
    refused = await kube.post(kube.path("widgets"), kube.widget("x"))
    assert refused.status == 422
    assert refused.causes[0][:2] == ("spec.color", "FieldValueNotSupported")


async def test_an_embedded_resource_is_read_as_one_that_a_client_sends(
    kube: Any, hooks: Any, answers: Any
) -> None:
    await kube.define()
    await kube.configure("mutating", kube.webhook("/h", "widgets"))

    async def made(metadata: Any) -> Any:
        template = {"apiVersion": "v1", "kind": "A", "metadata": metadata}
        hooks.on("/h", lambda r: answers.patched(r, add("/spec", {"template": template})))
        return await kube.post(kube.path("widgets"), kube.widget("x"), dryRun="All")

    pruned = await made({"name": "a", "unknown": True})
    assert pruned.body["spec"]["template"]["metadata"] == {"name": "a"}
    refused = await made({"generation": "one"})
    assert refused.status == 422
    assert refused.causes[0][:2] == ("spec.template.metadata", "FieldValueInvalid")


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "replace", "path": "/nope/nope", "value": 1},
        {"op": "remove", "path": "/nope"},
        {"op": "test", "path": "/kind", "value": "Other"},
        # Debian builds the libraries with another release of json-patch than Kubernetes.
        pytest.param({"op": "unheard-of", "path": "/data"}, marks=pytest.mark.whole_kubernetes),
        add("/metadata/labels", {"a": 5}),
        add("/metadata", 5),
    ],
)
async def test_a_patch_that_does_not_apply_fails_whatever_the_policy(
    kube: Any, hooks: Any, answers: Any, operation: Any
) -> None:
    await kube.configure("mutating", kube.webhook("/h", failurePolicy="Ignore"))
    hooks.on("/h", lambda r: answers.patched(r, operation))
    code, reason, message = (await kube.post(kube.path("configmaps"), kube.configmap("x"))).refusal
    assert (code, reason) == (500, "InternalError")
    assert message.startswith("Internal error occurred: ")


async def test_a_deletion_cannot_be_patched(kube: Any, hooks: Any, answers: Any) -> None:
    await kube.configure("mutating", kube.webhook("/h", rule={"operations": ["DELETE"]}))
    await kube.post(kube.path("configmaps"), kube.configmap("x"))
    hooks.on("/h", lambda r: answers.patched(r, add("/data", {})))
    refused = await kube.call("DELETE", kube.path("configmaps", "x"))
    text = (
        'Internal error occurred: admission webhook "h.example.com" attempted to modify the '
        "object, which is not supported for this operation"
    )
    assert refused.refusal == (500, "InternalError", text)


@pytest.mark.parametrize("plural", ["configmaps", "widgets"])
async def test_a_new_object_may_get_another_name(
    kube: Any, hooks: Any, answers: Any, plural: str
) -> None:
    await kube.define()
    await kube.configure("mutating", kube.webhook("/h", plural))
    hooks.on("/h", lambda r: answers.patched(r, add("/metadata/name", "other")))
    obj = kube.widget("x") if plural == "widgets" else kube.configmap("x")
    made = await kube.post(kube.path(plural), obj)
    assert (made.status, made.body["metadata"]["name"]) == (201, "other")
    assert (await kube.call("GET", kube.path(plural, "other"))).status == 200


async def test_what_the_server_decides_about_a_new_object(
    kube: Any, hooks: Any, answers: Any
) -> None:
    await kube.define()
    await kube.configure("mutating", kube.webhook("/h", "widgets"))
    past = "2001-01-01T00:00:00Z"
    theirs = {
        "uid": "theirs",
        "creationTimestamp": past,
        "deletionTimestamp": past,
        "generation": 9,
    }
    patch = [add(f"/metadata/{field}", value) for field, value in theirs.items()]
    hooks.on("/h", lambda r: answers.patched(r, *patch, add("/status", {"phase": "x"})))
    made = (await kube.post(kube.path("widgets"), kube.widget("x"))).body
    meta = made["metadata"]
    assert meta["uid"] != "theirs"
    assert meta["creationTimestamp"] != past
    if kube.minor < 36:
        assert "deletionTimestamp" not in meta
    assert meta["generation"] == 1
    assert "status" not in made


async def test_status_and_the_rest_are_changed_apart(kube: Any, hooks: Any, answers: Any) -> None:
    await kube.define()
    await kube.configure("mutating", kube.webhook("/h", "widgets/*", rule=UPDATES))
    await kube.post(kube.path("widgets"), kube.widget("x", spec={"size": 1}))
    both = (add("/spec/size", 5), add("/status", {"phase": "hook"}))
    hooks.on("/h", lambda r: answers.patched(r, *both))
    path = kube.path("widgets", "x")
    changed = (await kube.merge(path, {"spec": {"size": 2}})).body
    assert (changed["spec"], changed.get("status")) == ({"size": 5}, None)
    both = (add("/spec/size", 9), add("/status", {"phase": "hook"}))
    changed = (await kube.merge(f"{path}/status", {"status": {"phase": "a"}})).body
    assert (changed["spec"], changed["status"]) == ({"size": 5}, {"phase": "hook"})


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
async def test_the_namespace_stays(kube: Any, hooks: Any, answers: Any, operation: str) -> None:
    await kube.configure("mutating", kube.webhook("/h", rule={"operations": [operation]}))
    hooks.on("/h", lambda r: answers.patched(r, add("/metadata/namespace", "other")))
    reply = await kube.post(kube.path("configmaps"), kube.configmap("x"))
    if operation == "UPDATE":
        reply = await kube.merge(kube.path("configmaps", "x"), {"data": {"a": "b"}})
    assert reply.refusal == (400, "BadRequest", NAMESPACE)


@pytest.mark.parametrize("field", ["name", "uid"])
async def test_name_and_uid_of_what_exists_stay(
    kube: Any, hooks: Any, answers: Any, field: str
) -> None:
    await kube.configure("mutating", kube.webhook("/h", rule=UPDATES))
    await kube.post(kube.path("configmaps"), kube.configmap("x"))
    hooks.on("/h", lambda r: answers.patched(r, add(f"/metadata/{field}", "other")))
    reply = await kube.merge(kube.path("configmaps", "x"), {"data": {"a": "b"}})
    assert reply.status == 422
    assert reply.causes[0] == (
        f"metadata.{field}",
        "FieldValueInvalid",
        'Invalid value: "other": field is immutable',
    )


@pytest.mark.parametrize("field", ["kind", "apiVersion"])
async def test_the_kind_stays(kube: Any, hooks: Any, answers: Any, field: str) -> None:
    await kube.define()
    await kube.configure("mutating", kube.webhook("/h", "widgets"))
    hooks.on("/h", lambda r: answers.patched(r, add(f"/{field}", "Other")))
    reply = await kube.post(kube.path("widgets"), kube.widget("x"))
    assert reply.status in (422, 500)
    assert (await kube.call("GET", kube.path("widgets", "x"))).status == 404


async def test_a_dry_run_shows_the_change_and_keeps_nothing(
    kube: Any, hooks: Any, answers: Any
) -> None:
    await kube.configure("mutating", kube.webhook("/h", sideEffects="NoneOnDryRun"))
    hooks.on("/h", lambda r: answers.patched(r, add("/data", {"a": "b"})))
    made = await kube.post(kube.path("configmaps"), kube.configmap("x"), dryRun="All")
    assert made.body["data"] == {"a": "b"}
    assert (await kube.call("GET", kube.path("configmaps", "x"))).status == 404


async def test_an_update_that_a_webhook_undoes_changes_nothing(
    kube: Any, hooks: Any, answers: Any
) -> None:
    await kube.configure("mutating", kube.webhook("/h", rule=UPDATES))
    before = (await kube.post(kube.path("configmaps"), kube.configmap("x", data={"a": "b"}))).body
    hooks.on("/h", lambda r: answers.patched(r, add("/data", {"a": "b"})))
    reply = await kube.merge(kube.path("configmaps", "x"), {"data": {"a": "c"}})
    assert reply.status == 200
    assert reply.body["data"] == {"a": "b"}
    assert reply.body["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


async def test_a_patch_is_done_again_when_the_webhook_itself_changes_the_object(
    kube: Any, hooks: Any, answers: Any
) -> None:
    await kube.configure("mutating", kube.webhook("/h", rule=UPDATES))
    path = kube.path("configmaps", "x")
    await kube.post(kube.path("configmaps"), kube.configmap("x"))

    async def behaviour(review: Any) -> Any:
        if "by-client" in review["request"]["object"].get("data", {}) and len(hooks.calls) == 1:
            reply = await kube.merge(path, {"data": {"by-webhook": "1"}})
            assert reply.status == 200
        return answers.allow(review)

    hooks.on("/h", behaviour)
    reply = await kube.merge(path, {"data": {"by-client": "1"}})
    assert reply.status == 200
    assert reply.body["data"] == {"by-client": "1", "by-webhook": "1"}
