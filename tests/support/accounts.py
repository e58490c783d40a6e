"""Laneway as its chart installs it: the rendered objects on a server, and its three accounts.

What the chart makes is applied as it is, but for what a test cannot give it: no kubelet runs its
pods, so the webhook's Service names this machine, and the port on which the test runs it.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
import yaml
from aiohttp import web

from kapilite.credentials.pki import ensure
from laneway.kube import connection
from laneway.kube.client import Client
from laneway.kube.cluster import ClusterConfig, User
from laneway.kube.errors import AlreadyExistsError, ApiError, NotFoundError

NAMESPACE = "harvester-system"
AGENT, MANAGER, WEBHOOK = ACCOUNTS = ("laneway-agent", "laneway-manager", "laneway-webhook")
RELEASE = "laneway-release"
CHART = Path(__file__).parents[2] / "charts" / "laneway"
REAL = bool(os.environ.get("LANEWAY_REALAPI"))
SECONDS = 60.0

TOO_NEW = {
    "Job",
    "PodDisruptionBudget",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
}
"""Kinds in the chart that a server of Kubernetes 1.20, or ours, may lack in this version."""

Object = dict[str, Any]


async def ask(client: Client, method: str, path: str, body: Any = None, params: Any = None) -> Any:
    """One request, and the JSON of its answer."""
    return msgspec.json.decode(await client.call(method, path, params, body))


def rendered(values: Mapping[str, Any] | None = None) -> list[Object]:
    """The objects of the chart, without the definitions."""
    helm = pytest.importorskip("helm_python", reason="Helm as a library is for x86-64 Linux only")
    texts = helm.Chart.load(str(CHART)).render(
        dict(values or {}), name="laneway", namespace=NAMESPACE
    )
    return [
        obj
        for name, text in sorted(texts.items())
        if name.endswith(".yaml")
        for obj in yaml.safe_load_all(text)
        if obj
    ]


class Installed:
    """The chart's objects on a server, and clients of the accounts."""

    def __init__(self, client: Client, config: ClusterConfig, port: int) -> None:
        self.client = client
        self.port = port
        """Where the webhook is to listen."""
        self.left_out: set[str] = set()
        self.names: dict[str, str] = {}
        """The accounts that act, by the header that tells who they are."""
        self.config = config
        """The administrator's."""
        self._kinds: dict[str, dict[str, Object]] = {}
        self._made: list[str] = []

    async def install(self, values: Mapping[str, Any] | None = None) -> None:
        """Apply all that the server has kinds for."""
        for obj in rendered(values):
            await self.apply(_here(obj, self.port))

    async def apply(self, obj: Object) -> None:
        """Make an object that goes with the test; one that is there already is made again."""
        kinds = await self._served(obj["apiVersion"])
        if obj["kind"] not in kinds:
            self.left_out.add(obj["kind"])
            return
        kind = kinds[obj["kind"]]
        metadata = obj["metadata"]
        root = f"/{'apis' if '/' in obj['apiVersion'] else 'api'}/{obj['apiVersion']}"
        if kind["namespaced"]:
            root += f"/namespaces/{metadata.get('namespace', 'default')}"
        path = f"{root}/{kind['name']}"
        self._made.append(f"{path}/{metadata['name']}")
        try:
            await ask(self.client, "POST", path, obj)
        except AlreadyExistsError:
            await ask(self.client, "DELETE", f"{path}/{metadata['name']}")
            await ask(self.client, "POST", path, obj)

    async def uninstall(self) -> None:
        """Take all away, those first who could refuse the rest."""
        for path in sorted(self._made, key=lambda one: "webhookconf" not in one):
            with contextlib.suppress(NotFoundError):
                await ask(self.client, "DELETE", path, {"gracePeriodSeconds": 0})
        with contextlib.suppress(NotFoundError):
            await ask(self.client, "DELETE", secret_path())

    async def _served(self, version: str) -> dict[str, Object]:
        if version not in self._kinds:
            path = f"/{'apis' if '/' in version else 'api'}/{version}"
            try:
                found = await ask(self.client, "GET", path)
            except NotFoundError:
                found = {"resources": []}
            self._kinds[version] = {
                one["kind"]: one for one in found["resources"] if "/" not in one["name"]
            }
        return self._kinds[version]

    async def token(self, account: str, namespace: str = NAMESPACE, node: str = "") -> str:
        """A token of an account, as the kubelet of this node requests it for a pod there."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        spec = {}
        if node:
            pod = f"{account}-{node}"
            await self.apply(_pod(pod, account, node))
            spec = {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": pod}}
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        answer = await ask(self.client, "POST", path, body)
        return str(answer["status"]["token"])

    async def acting(self, account: str, namespace: str = NAMESPACE, node: str = "") -> Client:
        """A client that is this account, to be used as an async context manager."""
        user = User(token=await self.token(account, namespace, node))
        self.names[f"Bearer {user.token}"] = account
        return Client(replace(self.config, user=user))

    async def granted(self, client: Client, question: Object) -> None:
        """Wait until an account has a right; the real server learns of roles by watching them."""
        await until(lambda: may(client, question))


def _here(obj: Object, port: int) -> Object:
    """An object with this machine in the place of the cluster's pods."""
    if obj["kind"] == "Service" and obj["metadata"]["name"] in (WEBHOOK, "laneway-pools-webhook"):
        ports = [{"name": "https", "port": port}]
        spec = {"type": "ExternalName", "externalName": "localhost", "ports": ports}
        return {**obj, "spec": spec}
    for one in obj.get("webhooks", ()):
        one["clientConfig"]["service"]["port"] = port
    return obj


def _pod(name: str, account: str, node: str) -> Object:
    """A pod of a part of Laneway, as far as a token is about it."""
    spec = {
        "serviceAccountName": account,
        "nodeName": node,
        "containers": [{"name": "main", "image": "laneway"}],
    }
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def account(name: str) -> Object:
    """A user who is no part of Laneway."""
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}


def bound(name: str, role: str) -> Object:
    """Gives them what a ClusterRole says."""
    group = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"laneway-test-{name}"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}],
    }


def secret_path() -> str:
    """Of the Secret of the webhook's certificate."""
    return f"/api/v1/namespaces/{NAMESPACE}/secrets/laneway-webhook-tls"


async def may(client: Client, question: Object) -> bool:
    """Whether the requester has a right, by the word of the server."""
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": question},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    return bool((await ask(client, "POST", path, body))["status"]["allowed"])


def right(text: str) -> Object:
    """`verb resource[/subresource][.group] [namespace/][name]` as a question about a right."""
    verb, what, *rest = text.split()
    resource, _, group = what.partition(".")
    resource, _, subresource = resource.partition("/")
    question = {"verb": verb, "resource": resource, "group": group}
    if subresource:
        question["subresource"] = subresource
    if rest:
        namespace, _, name = rest[0].rpartition("/")
        question |= {"namespace": namespace, "name": name}
    return question


async def until(holds: Callable[[], Any]) -> Any:
    """Wait until the server gives an answer that is true; nothing announces it."""
    async with asyncio.timeout(SECONDS):
        while not (found := await holds()):  # noqa: ASYNC110 - a request is the event
            await asyncio.sleep(0.05)
        return found


@contextlib.asynccontextmanager
async def reviews(
    chart: Installed, folder: Path, rules: Sequence[Object]
) -> AsyncIterator[list[Object]]:
    """Every request that a server asks a webhook of ours about, which allows them all."""
    seen: list[Object] = []

    async def review(request: web.Request) -> web.Response:
        asked = (await request.json())["request"]
        seen.append(asked)
        answer = {"uid": asked["uid"], "allowed": True}
        kind = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
        return web.json_response({**kind, "response": answer})

    pki = await asyncio.to_thread(ensure, str(folder))
    app = web.Application(client_max_size=8 * 2**20)
    app.router.add_post("/", review)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "localhost", 0, ssl_context=pki.ssl_context()).start()
        port = runner.addresses[0][1]
        await chart.apply(
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "ValidatingWebhookConfiguration",
                "metadata": {"name": "laneway-test-reviews"},
                "webhooks": [
                    {
                        "name": "reviews.laneway.example",
                        "clientConfig": {
                            "url": f"https://localhost:{port}/",
                            "caBundle": base64.b64encode(pki.ca_pem).decode(),
                        },
                        "rules": list(rules),
                        "failurePolicy": "Ignore",
                        "sideEffects": "None",
                        "admissionReviewVersions": ["v1"],
                    }
                ],
            }
        )
        yield seen
    finally:
        await runner.cleanup()


@contextlib.contextmanager
def refusals(monkeypatch: pytest.MonkeyPatch, names: Mapping[str, str]) -> Iterator[list[str]]:
    """Every 403 that one of these is answered; `names` by authorization header."""
    seen: list[str] = []
    real = connection._refusal

    async def refusal(response: aiohttp.ClientResponse) -> ApiError:
        error = await real(response)
        info = response.request_info
        name = names.get(info.headers.get("Authorization", ""))
        if error.code == 403 and name:
            seen.append(f"{name}: {info.method} {info.url.path}: {error.message}")
        return error

    with monkeypatch.context() as patch:
        patch.setattr(connection, "_refusal", refusal)
        yield seen
