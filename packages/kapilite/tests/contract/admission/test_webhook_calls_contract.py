"""How webhooks are reached, and what keeps the server from reaching them."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from aiohttp import web

FAILED = 'Internal error occurred: failed calling webhook "h.example.com": '
NEWER = "failed to call webhook: "


async def failure(kube: Any, **config: Any) -> str:
    """Why a webhook with this clientConfig cannot be asked."""
    await kube.configure("validating", kube.webhook("/h", clientConfig=config))
    reply = await kube.post(kube.path("configmaps"), kube.configmap("x"))
    code, reason, message = reply.refusal
    assert (code, reason) == (500, "InternalError")
    assert message.startswith(FAILED)
    return message.removeprefix(FAILED).replace(NEWER, "", 1)


async def service(kube: Any, **spec: Any) -> None:
    port = int(kube.hooks.base.rpartition(":")[2])
    obj = kube.configmap("hooks", kind="Service")
    obj["spec"] = {"ports": [{"name": "https", "port": port}], **spec}
    made = await kube.post(kube.path("services"), obj)
    assert made.status == 201, made.body


def behind(kube: Any, **more: Any) -> dict[str, Any]:
    """The clientConfig of the service `hooks`."""
    port = int(kube.hooks.base.rpartition(":")[2])
    reference = {"name": "hooks", "namespace": kube.namespace, "path": "/h", "port": port}
    return {"service": reference | more, "caBundle": kube.hooks.config("/")["caBundle"]}


async def reached(kube: Any, **config: Any) -> Any:
    """The call that a webhook with this clientConfig gets."""
    await kube.configure("validating", kube.webhook("/h", clientConfig=config))
    reply = await kube.post(kube.path("configmaps"), kube.configmap("x"))
    assert reply.status == 201, reply.body
    (call,) = kube.hooks.calls
    return call


# ---- URLs ----


async def test_the_path_is_kept_without_slashes_at_its_end(kube: Any, hooks: Any) -> None:
    config = hooks.config("//a//b%20c/")
    call = await reached(kube, **config)
    assert call.path == "/a/b c"


async def test_a_host_name(kube: Any, hooks: Any) -> None:
    config = hooks.config("/h")
    config["url"] = config["url"].replace("127.0.0.1", "localhost")
    call = await reached(kube, **config)
    assert call.headers["Host"].startswith("localhost:")


async def test_a_host_that_does_not_exist(kube: Any) -> None:
    config = {"url": "https://nowhere.invalid/h", "caBundle": kube.hooks.config("/")["caBundle"]}
    why = await failure(kube, **config)
    assert why.startswith('Post "https://nowhere.invalid/h?timeout=10s": dial tcp: lookup ')


async def test_a_redirect_is_not_followed(kube: Any, hooks: Any) -> None:
    kube.needs_embedded("Kubernetes 1.20 followed redirects")
    hooks.on("/h", lambda _: web.Response(status=302, headers={"Location": f"{hooks.base}/ok"}))
    await kube.configure("validating", kube.webhook("/h"))
    reply = await kube.post(kube.path("configmaps"), kube.configmap("x"))
    assert reply.refusal[2] == (
        f"{FAILED}{NEWER}the server responded with the status code 302 "
        "but did not return more information"
    )
    assert hooks.to("/ok") == []


async def test_an_answer_without_end(kube: Any, hooks: Any) -> None:
    kube.needs_embedded("Kubernetes reads on until the time is over")

    async def flood(_: Any) -> web.Response:
        response = web.StreamResponse()
        await response.prepare(hooks.request)
        while True:
            await response.write(b" " * 65536)

    hooks.on("/h", flood)
    assert "the answer is longer than 8388608 bytes" in await failure(kube, **hooks.config("/h"))


async def test_an_answer_that_stops_in_the_middle(kube: Any, hooks: Any) -> None:
    async def stop(_: Any) -> web.Response:
        response = web.StreamResponse(headers={"Content-Length": "100"})
        await response.prepare(hooks.request)
        await response.write(b"{")
        return await hooks.close(_)

    hooks.on("/h", stop)
    assert (await failure(kube, **hooks.config("/h"))).endswith("unexpected EOF")


async def test_a_certificate_that_has_expired(kube: Any, relics: Any) -> None:
    why = await failure(kube, **relics.config("/h"))
    assert "x509: certificate has expired or is not yet valid" in why
    assert relics.calls == []


async def test_a_bundle_of_several_authorities(kube: Any, hooks: Any, strangers: Any) -> None:
    bundle = hooks.bundle(strangers.pki.ca_pem + b"\n" + hooks.pki.ca_pem)
    await reached(kube, url=f"{hooks.base}/h", caBundle=bundle)


async def test_without_a_bundle_the_systems_authorities_count(kube: Any, hooks: Any) -> None:
    why = await failure(kube, url=f"{hooks.base}/h")
    assert "x509: certificate signed by unknown authority" in why


async def test_proxies_of_the_environment_are_not_used(
    kube: Any, hooks: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    kube.needs_embedded("the environment is ours")
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    await reached(kube, **hooks.config("/h"))


async def test_connections_are_kept(kube: Any, hooks: Any) -> None:
    await kube.configure("validating", kube.webhook("/h"))
    for number in range(5):
        await kube.post(kube.path("configmaps"), kube.configmap(f"x{number}"))
    # Waiting for the configuration, two webhooks were asked at once.
    assert len({call.peer for call in hooks.calls}) <= 2


async def test_a_kept_connection_that_was_closed_meanwhile(kube: Any, hooks: Any) -> None:
    """The webhook restarted, or keeps connections for a shorter time: no client is to notice."""
    await kube.configure("validating", kube.webhook("/h"))
    assert (await kube.post(kube.path("configmaps"), kube.configmap("x"))).status == 201
    closed = []

    async def once(review: Any) -> Any:
        if not closed:
            closed.append(review)
            return await hooks.close(review)
        return hooks.answers.allow(review)

    kube.needs_embedded("Go repeats only what the other side cannot have begun to read")
    hooks.on("/h", once)
    assert (await kube.post(kube.path("configmaps"), kube.configmap("y"))).status == 201


# ---- services ----


async def test_a_service_that_does_not_exist(kube: Any) -> None:
    host = f"hooks.{kube.namespace}.svc"
    config = behind(kube, port=443)
    why = await failure(kube, **config)
    assert why == f'Post "https://{host}:443/h?timeout=10s": service "hooks" not found'


async def test_a_service_with_an_external_name(kube: Any) -> None:
    await service(kube, type="ExternalName", externalName="localhost")
    call = await reached(kube, **behind(kube))
    assert call.headers["Host"].startswith(f"hooks.{kube.namespace}.svc")


async def test_the_certificate_must_name_the_service(kube: Any, strangers: Any) -> None:
    await service(kube, type="ExternalName", externalName="localhost")
    port = int(strangers.base.rpartition(":")[2])
    config = behind(kube, port=port) | {"caBundle": strangers.config("/")["caBundle"]}
    why = await failure(kube, **config)
    assert "x509: certificate is" in why
    assert strangers.calls == []


async def test_a_service_without_that_port(kube: Any) -> None:
    kube.needs_embedded("cluster IPs need a network")
    await service(kube, clusterIP="None")
    why = await failure(kube, **behind(kube, port=4711))
    assert why.endswith('no service port 4711 found for service "hooks"')


@pytest.mark.parametrize("kind", ["Endpoints", "EndpointSlice", "externalIPs"])
async def test_a_service_with_addresses(kube: Any, kind: str) -> None:
    kube.needs_embedded("cluster IPs need a network")
    port = int(kube.hooks.base.rpartition(":")[2])
    spec: dict[str, Any] = {"ports": [{"name": "https", "port": 443, "targetPort": port}]}
    if kind == "externalIPs":
        spec = {"externalIPs": ["127.0.0.1"]}
    await service(kube, **spec)
    ports = [{"name": "other", "port": 1}, {"name": "https", "port": port}]
    if kind == "Endpoints":
        subsets = [{"addresses": [{"ip": "127.0.0.1"}], "ports": ports}]
        obj = kube.configmap("hooks", kind=kind, subsets=subsets)
        made = await kube.post(kube.path("endpoints"), obj)
        assert made.status == 201, made.body
    elif kind == "EndpointSlice":
        labels = {"kubernetes.io/service-name": "hooks"}
        obj = kube.configmap("hooks-1", kind=kind, metadata={"labels": labels})
        down = {"addresses": ["127.0.0.9"], "conditions": {"ready": False}}
        obj |= {
            "apiVersion": "discovery.k8s.io/v1",
            "addressType": "IPv4",
            "ports": ports,
            "endpoints": [down, {"addresses": ["127.0.0.1"]}],
        }
        path = f"/apis/discovery.k8s.io/v1/namespaces/{kube.namespace}/endpointslices"
        made = await kube.post(path, obj)
        assert made.status == 201, made.body
    await reached(kube, **behind(kube, **({} if kind == "externalIPs" else {"port": 443})))


async def test_a_service_without_addresses(kube: Any) -> None:
    kube.needs_embedded("cluster IPs need a network")
    await service(kube, clusterIP="None")
    why = await failure(kube, **behind(kube))
    assert why.endswith('no endpoints available for service "hooks"')


# ---- time ----


@pytest.mark.slow
async def test_many_requests_at_once(kube: Any, hooks: Any, answers: Any) -> None:
    """Each waits for a nested one, so none may wait for another's connection."""
    await kube.configure("validating", kube.webhook("/h"))
    count = 150

    async def nested(review: Any) -> Any:
        name = review["request"]["name"]
        if name.startswith("outer"):
            inner = kube.configmap(name.replace("outer", "inner"))
            assert (await kube.post(kube.path("configmaps"), inner, dryRun="All")).status == 201
        return answers.allow(review)

    hooks.on("/h", nested)
    replies = await asyncio.gather(
        *(
            kube.post(kube.path("configmaps"), kube.configmap(f"outer-{n}"), dryRun="All")
            for n in range(count)
        )
    )
    assert {reply.status for reply in replies} == {201}


async def test_a_large_object_goes_both_ways(kube: Any, hooks: Any, answers: Any) -> None:
    await kube.configure("mutating", kube.webhook("/h"))
    text = "x" * 900_000
    operation = {"op": "add", "path": "/data/b", "value": "y"}
    replace = {"op": "add", "path": "/data/a", "value": text[::-1]}
    hooks.on("/h", lambda r: answers.patched(r, operation, replace))
    made = await kube.post(kube.path("configmaps"), kube.configmap("x", data={"a": text}))
    assert made.body["data"] == {"a": text, "b": "y"}
    assert len(msgspec.json.encode(hooks.calls[0].review)) > 900_000
