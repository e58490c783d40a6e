"""What webhooks say, and what the client then hears."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from aiohttp import web

KINDS = ("validating", "mutating")
DENIED = 'admission webhook "h.example.com" denied the request'
FAILED = 'Internal error occurred: failed calling webhook "h.example.com": '


def without(text: str, newer: str) -> str:
    """A message without the words that only newer servers add."""
    return text.replace(newer, "")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("status", "refusal"),
    [
        ({}, (400, "", f"{DENIED} without explanation")),
        ({"message": "no"}, (400, "", f"{DENIED}: no")),
        ({"reason": "Forbidden"}, (400, "Forbidden", f"{DENIED}: Forbidden")),
        (
            {"code": 403, "reason": "Forbidden", "message": "no"},
            (403, "Forbidden", f"{DENIED}: no"),
        ),
        ({"code": 200, "status": "Success", "message": "no"}, (400, "", f"{DENIED}: no")),
        ({"code": 418, "message": 'a "tea" pot'}, (418, "", f'{DENIED}: a "tea" pot')),
        ({"code": 422, "reason": "Invalid", "message": "no"}, (422, "Invalid", f"{DENIED}: no")),
    ],
)
async def test_a_refusal(kube: Any, hooks: Any, kind: str, status: Any, refusal: Any) -> None:
    await kube.configure(kind, kube.webhook("/h"))
    hooks.on("/h", lambda review: hooks.answers.deny(review, **status))
    reply = await kube.post(kube.path("configmaps"), kube.configmap("x"))
    assert reply.refusal == refusal
    assert reply.body["status"] == "Failure"
    assert (await kube.call("GET", kube.path("configmaps", "x"))).status == 404


async def test_the_details_of_a_refusal_are_passed_on(kube: Any, hooks: Any, answers: Any) -> None:
    await kube.configure("validating", kube.webhook("/h"))
    causes = [{"reason": "FieldValueInvalid", "field": "data.a", "message": "bad"}]
    details = {"name": "x", "kind": "configmaps", "causes": causes}
    hooks.on("/h", lambda review: answers.deny(review, code=422, details=details))
    reply = await kube.post(kube.path("configmaps"), kube.configmap("x"))
    assert reply.body["details"] == details


async def test_updates_and_deletions_can_be_refused(kube: Any, hooks: Any, answers: Any) -> None:
    rule = {"operations": ["UPDATE", "DELETE"]}
    await kube.configure("validating", kube.webhook("/h", rule=rule))
    hooks.on("/h", lambda review: answers.deny(review, message=review["request"]["operation"]))
    path = kube.path("configmaps", "x")
    assert (await kube.post(kube.path("configmaps"), kube.configmap("x"))).status == 201
    for method, body in (("PUT", kube.configmap("x", data={"a": "b"})), ("DELETE", None)):
        operation = {"PUT": "UPDATE", "DELETE": "DELETE"}[method]
        reply = await kube.call(method, path, body)
        assert reply.refusal == (400, "", f"{DENIED}: {operation}")
    assert "data" not in (await kube.call("GET", path)).body


def status(code: int, text: str = "", **headers: str) -> Any:
    return lambda _: web.Response(status=code, text=text, headers=headers)


def review(**fields: Any) -> Any:
    """An answer that differs from a good one."""

    def make(found: Any) -> dict[str, Any]:
        response = {"uid": found["request"]["uid"], "allowed": True}
        head = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
        answer = head | {"response": response | fields.get("response", {})}
        return answer | {k: v for k, v in fields.items() if k != "response"}

    return make


FAILURES = {
    "server error": (
        status(500, "it is broken"),
        'an error on the server ("it is broken") has prevented the request from succeeding',
    ),
    "not found": (status(404), "the server could not find the requested resource"),
    "busy": (status(503), "the server is currently unable to handle the request"),
    "bad request": (status(400), "the server rejected our request for an unknown reason"),
    "unauthorized": (status(401), "the server has asked for the client to provide credentials"),
    "teapot": (
        status(418),
        "the server responded with the status code 418 but did not return more information",
    ),
    "status object": (
        lambda _: web.json_response(
            {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "I say so"},
            status=500,
        ),
        "I say so",
    ),
    "no response": (
        lambda _: {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"},
        "webhook response was absent",
    ),
    "patch type only": (
        review(response={"patchType": "JSONPatch"}),
        {
            "mutating": "webhook returned response.patchType but not response.patch",
            "validating": "validating webhook may not return response.patchType",
        },
    ),
    "patch only": (
        review(response={"patch": "W10="}),
        {
            "mutating": "webhook returned response.patch but not response.patchType",
            "validating": "validating webhook may not return response.patch",
        },
    ),
}
NEWER = ("failed to call webhook: ", "received invalid webhook response: ")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", FAILURES)
async def test_a_failure(kube: Any, hooks: Any, kind: str, case: str) -> None:
    behaviour, why = FAILURES[case]
    await kube.configure(kind, kube.webhook("/h"))
    hooks.on("/h", behaviour)
    reply = await kube.post(kube.path("configmaps"), kube.configmap("x"))
    code, reason, message = reply.refusal
    assert (code, reason) == (500, "InternalError")
    for text in NEWER:
        message = message.replace(text, "")
    assert message == FAILED + (why if isinstance(why, str) else why[kind])
    assert reply.body["details"]["causes"][0]["message"] in reply.body["message"]
    assert (await kube.call("GET", kube.path("configmaps", "x"))).status == 404


BROKEN = {
    "garbage": status(200, "hello"),
    "empty": status(200),
    "other kind": review(kind="Review"),
    "other version": review(apiVersion="admission.k8s.io/v2"),
    "other uid": review(response={"uid": "0"}),
    "no uid": review(response={"uid": None}),
    "wrong types": review(response={"allowed": "yes"}),
    "list": status(200, "[]"),
    "patch is not base64": review(response={"patch": "!", "patchType": "JSONPatch"}),
    "patch type": review(response={"patch": "W10=", "patchType": "Merge"}),
}


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
@pytest.mark.parametrize("case", BROKEN)
async def test_an_answer_that_is_none(kube: Any, hooks: Any, case: str, policy: str) -> None:
    await kube.configure("validating", kube.webhook("/h", failurePolicy=policy))
    hooks.on("/h", BROKEN[case])
    reply = await kube.post(kube.path("configmaps"), kube.configmap("x"))
    if policy == "Ignore":
        assert reply.status == 201
    else:
        code, reason, message = reply.refusal
        assert (code, reason) == (500, "InternalError")
        assert message.startswith(FAILED)


async def test_the_content_type_of_an_answer_does_not_matter(
    kube: Any, hooks: Any, answers: Any
) -> None:
    await kube.configure("validating", kube.webhook("/h"))

    def plain(review: Any) -> web.Response:
        body = msgspec.json.encode(answers.deny(review, message="no"))
        return web.Response(body=body, content_type="text/plain")

    hooks.on("/h", plain)
    reply = await kube.post(kube.path("configmaps"), kube.configmap("x"))
    assert reply.refusal == (400, "", f"{DENIED}: no")


async def test_a_webhook_that_takes_too_long(kube: Any, hooks: Any) -> None:
    rules = {"failurePolicy": "Ignore", "timeoutSeconds": 1}
    await kube.configure("validating", kube.webhook("/h", timeoutSeconds=1))
    hooks.on("/h", hooks.hang)
    code, reason, message = (await kube.post(kube.path("configmaps"), kube.configmap("x"))).refusal
    assert (code, reason) == (500, "InternalError")
    url = f"{hooks.base}/h?timeout=1s"
    assert without(message, NEWER[0]) == f'{FAILED}Post "{url}": context deadline exceeded'
    await kube.configure("mutating", kube.webhook("/i", **rules), name="i")
    hooks.on("/h", hooks.answers.allow)
    hooks.on("/i", hooks.hang)
    assert (await kube.post(kube.path("configmaps"), kube.configmap("x"))).status == 201


async def test_there_is_no_listener(kube: Any, hooks: Any) -> None:
    config = {"url": "https://127.0.0.1:1/a/b/", "caBundle": hooks.config("/")["caBundle"]}
    await kube.configure("validating", kube.webhook("/h", clientConfig=config))
    reply = await kube.post(kube.path("configmaps"), kube.configmap("x"))
    why = (
        'Post "https://127.0.0.1:1/a/b?timeout=10s": '
        "dial tcp 127.0.0.1:1: connect: connection refused"
    )
    assert without(reply.refusal[2], NEWER[0]) == FAILED + why


async def test_a_connection_that_is_closed_without_an_answer(kube: Any, hooks: Any) -> None:
    await kube.configure("validating", kube.webhook("/h"))
    hooks.on("/h", hooks.close)
    reply = await kube.post(kube.path("configmaps"), kube.configmap("x"))
    why = f'Post "{hooks.base}/h?timeout=10s": EOF'
    assert without(reply.refusal[2], NEWER[0]) == FAILED + why


async def test_an_unknown_authority(kube: Any, hooks: Any, strangers: Any) -> None:
    config = hooks.config("/h") | {"caBundle": strangers.config("/h")["caBundle"]}
    await kube.configure("validating", kube.webhook("/h", clientConfig=config))
    message = (await kube.post(kube.path("configmaps"), kube.configmap("x"))).refusal[2]
    assert message.startswith(FAILED)
    assert "x509: certificate signed by unknown authority" in message
    assert hooks.calls == []


async def test_a_name_that_the_certificate_lacks(kube: Any, hooks: Any) -> None:
    url = hooks.base.replace("127.0.0.1", "127.0.0.2") + "/h"
    config = hooks.config("/h") | {"url": url}
    await kube.configure("validating", kube.webhook("/h", clientConfig=config))
    message = (await kube.post(kube.path("configmaps"), kube.configmap("x"))).refusal[2]
    assert "x509: certificate is" in message
    assert "127.0.0.2" in message.partition("x509: ")[2]
    assert hooks.calls == []


async def test_a_ca_bundle_that_is_none(kube: Any, hooks: Any) -> None:
    config = hooks.config("/h") | {"caBundle": "Cg=="}
    await kube.configure("validating", kube.webhook("/h", clientConfig=config))
    message = (await kube.post(kube.path("configmaps"), kube.configmap("x"))).refusal[2]
    assert message.startswith(FAILED)


async def test_warnings(kube: Any, hooks: Any, answers: Any) -> None:
    for kind in KINDS:
        await kube.configure(kind, kube.webhook(f"/{kind}"), name=kind)
        hooks.on(f"/{kind}", lambda r, k=kind: answers.allow(r, warnings=[f'the "{k}" one', ""]))
    reply = await kube.post(kube.path("configmaps"), kube.configmap("x"))
    assert reply.status == 201
    assert reply.headers.getall("Warning") == [
        r'299 - "the \"mutating\" one"',
        r'299 - "the \"validating\" one"',
    ]


async def test_a_refusal_with_warnings(kube: Any, hooks: Any, answers: Any) -> None:
    await kube.configure("validating", kube.webhook("/h"))
    hooks.on("/h", lambda r: answers.deny(r, message="no") | _warned(r))
    reply = await kube.post(kube.path("configmaps"), kube.configmap("x"))
    assert reply.status == 400
    assert reply.headers.getall("Warning") == ['299 - "careful"']


def _warned(review: Any) -> dict[str, Any]:
    uid = review["request"]["uid"]
    status = {"message": "no"}
    return {"response": {"uid": uid, "allowed": False, "status": status, "warnings": ["careful"]}}


async def test_validating_webhooks_are_asked_at_once(kube: Any, hooks: Any, answers: Any) -> None:
    await kube.configure("validating", kube.webhook("/a"), kube.webhook("/b"))
    barrier = asyncio.Barrier(2)

    async def together(review: Any) -> Any:
        await barrier.wait()
        return answers.allow(review)

    hooks.on("/a", together)
    hooks.on("/b", together)
    assert (await kube.post(kube.path("configmaps"), kube.configmap("x"))).status == 201


async def test_an_apply_that_was_overtaken_merges(kube: Any, hooks: Any, answers: Any) -> None:
    """While its webhook is asked about the new object, another client makes it."""
    path = kube.path("configmaps", "x")
    await kube.configure("mutating", kube.webhook("/overtake"), name="o")
    overtaken = False

    async def apply(manager: str, **data: str) -> Any:
        body = kube.configmap("x", data=data)
        how = "application/apply-patch+yaml"
        return await kube.call("PATCH", path, body, how, fieldManager=manager)

    async def behaviour(review: Any) -> Any:
        nonlocal overtaken
        if not overtaken:
            overtaken = True
            assert (await apply("quick", b="2")).status == 201
        return answers.allow(review)

    hooks.on("/overtake", behaviour)

    assert (await apply("slow", a="1")).status == 200

    found = (await kube.call("GET", path)).body
    assert overtaken
    assert found["data"] == {"a": "1", "b": "2"}
    owners = {e["manager"]: e["fieldsV1"]["f:data"] for e in found["metadata"]["managedFields"]}
    assert owners == {"quick": {"f:b": {}}, "slow": {"f:a": {}}}


async def test_a_webhook_may_call_back(kube: Any, hooks: Any, answers: Any) -> None:
    """It writes another object, about which it is asked as well, before it answers."""
    for kind in KINDS:
        await kube.configure(kind, kube.webhook(f"/{kind}"), name=kind)

        async def behaviour(review: Any, kind: str = kind) -> Any:
            name = review["request"]["name"]
            if name == "x":
                made = await kube.post(kube.path("configmaps"), kube.configmap(f"{kind}-from-x"))
                assert made.status == 201
            return answers.allow(review)

        hooks.on(f"/{kind}", behaviour)
    assert (await kube.post(kube.path("configmaps"), kube.configmap("x"))).status == 201
    for kind in KINDS:
        assert (await kube.call("GET", kube.path("configmaps", f"{kind}-from-x"))).status == 200
