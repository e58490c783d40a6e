"""A server to configure webhooks on, ours or a real kube-apiserver, and a server of webhooks.

As in the other contract tests `LANEWAY_REALAPI` is set when KUBECONFIG names a server to test on.
The webhooks run in the test's own event loop, on loopback, with certificates of their own. Each
test has a namespace, and its webhooks see that namespace only.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import msgspec
import pytest
from aiohttp import web

from kapilite.credentials import pki
from kapilite.server import ApiServer
from server_support.kube import LEFT, REAL
from server_support.reaching import given
from server_support.sweep import sweep  # noqa: F401 - a fixture

SECONDS = 60.0
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUP = "admission.laneway.example"
LABEL = f"{GROUP}/test"

Object = dict[str, Any]
Behaviour = Callable[[Object], Object | web.StreamResponse | Awaitable[Any]]


class Call(NamedTuple):
    """What a webhook received."""

    path: str
    query: dict[str, str]
    headers: dict[str, str]
    review: Object
    peer: Any = None
    """The other end of the connection."""

    @property
    def request(self) -> Object:
        found: Object = self.review["request"]
        return found


class _Close(Exception):  # noqa: N818 - a request
    """A webhook wants the connection to end."""


class Hooks:
    """A server of webhooks: `on` says what the one at a path answers."""

    def __init__(self, directory: Path, *names: str, now: datetime | None = None) -> None:
        self.pki = pki.ensure(str(directory), names, now=now)
        self.calls: list[Call] = []
        self.base = ""
        self.answers = Answers
        self.request: web.Request | None = None
        """The latest: for behaviours that write their answer themselves."""
        self.probed = self.reached = False
        """While a configuration is waited for, everything is allowed and nothing recorded."""
        self._behaviours: dict[str, Behaviour] = {}
        self._stop = asyncio.Event()

    def on(self, path: str, behaviour: Behaviour) -> None:
        self._behaviours[path] = behaviour

    def to(self, path: str) -> list[Object]:
        """The requests that came to a path."""
        return [call.request for call in self.calls if call.path == path]

    def config(self, path: str) -> Object:
        """The clientConfig for a path."""
        return {"url": self.base + path, "caBundle": _b64(self.pki.ca_pem)}

    @staticmethod
    def bundle(pem: bytes) -> str:
        return _b64(pem)

    async def hang(self, _: Object) -> web.Response:
        """Never answers, until the test is over."""
        await self._stop.wait()
        return web.Response()

    async def close(self, _: Object) -> web.Response:
        """Ends the connection instead of answering."""
        raise _Close

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        review = msgspec.json.decode(await request.read())
        self.request = request
        assert request.transport is not None
        peer = request.transport.get_extra_info("peername")
        if self.probed:
            self.reached |= request.path == "/probe"
            return web.json_response(allow(review))
        self.calls.append(
            Call(request.path, dict(request.query), dict(request.headers), review, peer)
        )
        result = self._behaviours.get(request.path, allow)(review)
        if not isinstance(result, dict | web.StreamResponse):
            try:
                result = await result
            except _Close:
                request.transport.close()
                return web.Response()
        return web.json_response(result) if isinstance(result, dict) else result

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Hooks]:
        app = web.Application(client_max_size=1 << 26)
        app.router.add_route("*", "/{any:.*}", self._serve)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
        await runner.setup()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.pki.server_cert, self.pki.server_key)
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        port = runner.addresses[0][1]
        self.base = f"https://127.0.0.1:{port}"
        # An address that the certificate does not know.
        await web.TCPSite(runner, "127.0.0.2", port, ssl_context=context).start()
        try:
            yield self
        finally:
            self._stop.set()
            await self._disconnect(runner)
            await runner.cleanup()

    @staticmethod
    async def _disconnect(runner: web.AppRunner) -> None:
        """End the connections that clients keep; without waiting for their goodbye."""
        assert runner.server is not None
        while runner.server.connections:
            for connection in runner.server.connections:
                if connection.transport is not None:
                    connection.transport.abort()
            await asyncio.sleep(0)


def allow(review: Object, **response: Any) -> Object:
    """The answer that lets a request pass."""
    head = {"apiVersion": review["apiVersion"], "kind": "AdmissionReview"}
    return head | {"response": {"uid": review["request"]["uid"], "allowed": True, **response}}


def deny(review: Object, **status: Any) -> Object:
    """The answer that refuses a request, with this status."""
    return allow(review, allowed=False, **({"status": status} if status else {}))


def patched(review: Object, *operations: Object) -> Object:
    """The answer that changes the object."""
    patch = _b64(msgspec.json.encode(operations))
    return allow(review, patch=patch, patchType="JSONPatch")


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


class Answers:
    """What webhooks may say, for tests."""

    allow = staticmethod(allow)
    deny = staticmethod(deny)
    patched = staticmethod(patched)


class Reply(NamedTuple):
    """What the API server said."""

    status: int
    body: Any
    headers: Any

    @property
    def refusal(self) -> tuple[int, str, str]:
        """Code, reason and message."""
        assert self.body["kind"] == "Status", self.body
        assert self.body["code"] == self.status, self.body
        return self.status, self.body.get("reason", ""), self.body["message"]

    @property
    def causes(self) -> list[tuple[str, str, str]]:
        causes = self.body["details"].get("causes", [])
        return [(c.get("field", ""), c.get("reason", ""), c["message"]) for c in causes]


class Kube:
    """The API server, with a namespace of the test's own."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        url: str,
        headers: dict[str, str],
        hooks: Hooks,
        *,
        namespace: str,
    ) -> None:
        self.session = session
        self.url = url
        self.headers = headers
        self.hooks = hooks
        self.namespace = namespace
        self.minor = 0
        self._made: list[str] = []

    async def call(
        self, method: str, path: str, body: Any = None, how: str = "application/json", **params: str
    ) -> Reply:
        data = None if body is None else msgspec.json.encode(body)
        headers = self.headers | ({"Content-Type": how} if data else {})
        async with self.session.request(
            method, self.url + path, data=data, params=params, headers=headers
        ) as response:
            is_json = response.content_type == "application/json"
            answer = await (response.json() if is_json else response.text())
            return Reply(response.status, answer, response.headers)

    async def post(self, path: str, body: Object, **params: str) -> Reply:
        reply = await self.call("POST", path, body, **params)
        if reply.status == 201 and not params and "resourceVersion" in reply.body["metadata"]:
            made = f"{path}/{reply.body['metadata']['name']}"
            if "namespaces/" not in path:
                self._made.append(made)
            await self.call("GET", made, resourceVersion=reply.body["metadata"]["resourceVersion"])
        return reply

    async def merge(self, path: str, body: Object, **params: str) -> Reply:
        reply = await self.call("PATCH", path, body, "application/merge-patch+json", **params)
        if reply.status == 200 and not params:
            # A real server tries an update on what its cache holds first, webhooks included, and
            # again on what is stored: wait until that is the same.
            version = reply.body["metadata"]["resourceVersion"]
            whole = path.removesuffix("/status").removesuffix("/scale")
            await self.call("GET", whole, resourceVersion=version)
        return reply

    def path(self, plural: str, name: str = "", version: str = "v1") -> str:
        """Of an object in the test's namespace: a built-in one, or one of `GROUP`."""
        root = f"/apis/{GROUP}/{version}" if plural == "widgets" else "/api/v1"
        tail = f"/{name}" if name else ""
        return f"{root}/namespaces/{self.namespace}/{plural}{tail}"

    def configmap(self, name: str, **fields: Any) -> Object:
        metadata = {"name": name, **fields.pop("metadata", {})}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **fields}

    def widget(self, name: str, version: str = "v1", **fields: Any) -> Object:
        metadata = {"name": name, **fields.pop("metadata", {})}
        return {
            "apiVersion": f"{GROUP}/{version}",
            "kind": "Widget",
            "metadata": metadata,
            **fields,
        }

    def webhook(self, path: str, resource: str = "configmaps", **fields: Any) -> Object:
        """A webhook that sees what is created in the test's namespace.

        No namespace selector keeps away what is in no namespace, which on a real server is what
        other tests write meanwhile. A rule of another scope must name what is the test's own.
        """
        rule = {
            "apiGroups": ["*"],
            "apiVersions": ["*"],
            "operations": ["CREATE"],
            "resources": [resource],
            "scope": "Namespaced",
        } | fields.pop("rule", {})
        return {
            "name": f"{path.strip('/').replace('/', '-')}.example.com",
            "clientConfig": self.hooks.config(path),
            "rules": [rule],
            "namespaceSelector": {"matchLabels": {LABEL: self.namespace}},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            **fields,
        }

    def configuration(self, kind: str, name: str, *webhooks: Object) -> Object:
        return {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": f"{kind.capitalize()}WebhookConfiguration",
            "metadata": {"name": f"{self.namespace}-{name}"},
            "webhooks": list(webhooks),
        }

    async def configure(self, kind: str, *webhooks: Object, name: str = "x") -> Object:
        """Store a configuration and wait until it is in force."""
        probe = self.webhook("/probe", objectSelector={"matchLabels": {"probe": f"{kind}-{name}"}})
        obj = self.configuration(kind, name, *webhooks, probe)
        made = await self.post(CONFIGURATIONS.format(kind), obj)
        assert made.status == 201, made.body
        body = self.configmap("probe", metadata={"labels": {"probe": f"{kind}-{name}"}})
        self.hooks.probed, self.hooks.reached = True, False
        async with asyncio.timeout(SECONDS):
            while not self.hooks.reached:
                await self.post(self.path("configmaps"), body, dryRun="All")
        self.hooks.probed = False
        return made.body

    def needs_embedded(self, why: str) -> None:
        """Skip on a real server."""
        if REAL:
            pytest.skip(why)

    async def eventually(self, ask: Callable[[], Awaitable[Any]], expected: Any) -> None:
        """Ask until the answer is as expected: a real server learns of changes a moment later."""
        async with asyncio.timeout(SECONDS):
            while await ask() != expected:  # noqa: ASYNC110 - nothing announces it
                await asyncio.sleep(0.05)

    async def table(self, path: str) -> Object:
        accept = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
        async with self.session.get(self.url + path, headers=self.headers | accept) as response:
            found: Object = await response.json()
            return found

    async def define(self) -> None:
        """Serve widgets in the versions v1 and v2."""
        made = await self.call("POST", CRDS, WIDGETS)
        assert made.status in (201, 409), made.body

        async def served() -> int:
            return (await self.call("GET", self.path("widgets", version="v2"))).status

        await self.eventually(served, 200)

    async def begin(self) -> None:
        version = (await self.call("GET", "/version")).body
        self.minor = int(version["minor"].rstrip("+"))
        labels = {LABEL: self.namespace}
        body = {"metadata": {"name": self.namespace, "labels": labels}}
        made = await self.call("POST", "/api/v1/namespaces", body)
        assert made.status == 201, made.body

    async def clean(self) -> None:
        for path in reversed(self._made):
            await self.call("DELETE", path)
        LEFT.append(self.namespace)


def _version(name: str, *, storage: bool) -> Object:
    spec = {
        "type": "object",
        "properties": {
            "size": {"type": "integer", "default": 1},
            "color": {"type": "string", "enum": ["red", "blue"]},
            "replicas": {"type": "integer"},
            "template": {
                "type": "object",
                "x-kubernetes-embedded-resource": True,
                "x-kubernetes-preserve-unknown-fields": True,
            },
        },
    }
    status = {
        "type": "object",
        "properties": {"phase": {"type": "string"}, "replicas": {"type": "integer"}},
    }
    schema = {"type": "object", "properties": {"spec": spec, "status": status}}
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    return {
        "name": name,
        "served": True,
        "storage": storage,
        "subresources": {"status": {}, "scale": scale},
        "schema": {"openAPIV3Schema": schema},
    }


WIDGETS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"widgets.{GROUP}"},
    "spec": {
        "group": GROUP,
        "names": {"kind": "Widget", "plural": "widgets"},
        "scope": "Namespaced",
        "versions": [_version("v1", storage=True), _version("v2", storage=False)],
    },
}


@pytest.fixture
def answers() -> type[Answers]:
    return Answers


@pytest.fixture
def namespace() -> str:
    return f"a-{uuid.uuid4().hex[:8]}"


@pytest.fixture
async def hooks(tmp_path: Path, namespace: str) -> AsyncIterator[Hooks]:
    """The webhooks, which are also the service `hooks` of the namespace."""
    async with Hooks(tmp_path / "webhooks", f"hooks.{namespace}.svc").running() as found:
        yield found


@pytest.fixture
async def strangers(tmp_path: Path) -> AsyncIterator[Hooks]:
    """Webhooks of an unknown authority."""
    async with Hooks(tmp_path / "strangers").running() as found:
        yield found


@pytest.fixture
async def relics(tmp_path: Path) -> AsyncIterator[Hooks]:
    """Webhooks whose certificate has expired."""
    then = datetime.now(UTC) - timedelta(days=400)
    async with Hooks(tmp_path / "relics", now=then).running() as found:
        yield found


@asynccontextmanager
async def _embedded(directory: Path) -> AsyncIterator[tuple[str, dict[str, str], Any]]:
    server = ApiServer(str(directory / "state.db"))
    await server.start()
    try:
        yield server.url, {}, True
    finally:
        await server.stop()


@asynccontextmanager
async def _given(_: Path) -> AsyncIterator[tuple[str, dict[str, str], Any]]:
    yield given()


@pytest.fixture(params=["real" if REAL else "embedded"])
async def kube(tmp_path: Path, hooks: Hooks, namespace: str) -> AsyncIterator[Kube]:
    start = _given if REAL else _embedded
    async with (
        start(tmp_path) as (url, headers, tls),
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls, limit=0)) as session,
    ):
        found = Kube(session, url, headers, hooks, namespace=namespace)
        await found.begin()
        yield found
        await found.clean()
