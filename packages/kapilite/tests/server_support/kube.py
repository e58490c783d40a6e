"""An API server as a test talks to it: raw requests, and what their answers mean."""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
import yaml

REAL = bool(os.environ.get("LANEWAY_REALAPI"))
"""Whether the server is a real kube-apiserver."""
SECONDS = 60.0
LEFT: list[str] = []
"""Namespaces of tests that are over, to be deleted after the last one: a real server takes longer
to empty one than most tests run, and one that a test waits for must not queue behind them."""

PATCHES = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}

BUILT_IN = {
    "namespaces": ("v1", "Namespace", False),
    "nodes": ("v1", "Node", False),
    "configmaps": ("v1", "ConfigMap", True),
    "secrets": ("v1", "Secret", True),
    "serviceaccounts": ("v1", "ServiceAccount", True),
    "services": ("v1", "Service", True),
    "pods": ("v1", "Pod", True),
    "events": ("v1", "Event", True),
    "deployments": ("apps/v1", "Deployment", True),
    "daemonsets": ("apps/v1", "DaemonSet", True),
    "leases": ("coordination.k8s.io/v1", "Lease", True),
    "networkpolicies": ("networking.k8s.io/v1", "NetworkPolicy", True),
    "poddisruptionbudgets": ("policy/v1", "PodDisruptionBudget", True),
    "roles": ("rbac.authorization.k8s.io/v1", "Role", True),
    "rolebindings": ("rbac.authorization.k8s.io/v1", "RoleBinding", True),
    "clusterroles": ("rbac.authorization.k8s.io/v1", "ClusterRole", False),
    "clusterrolebindings": ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", False),
    "customresourcedefinitions": ("apiextensions.k8s.io/v1", "CustomResourceDefinition", False),
    "selfsubjectaccessreviews": ("authorization.k8s.io/v1", "SelfSubjectAccessReview", False),
    "selfsubjectrulesreviews": ("authorization.k8s.io/v1", "SelfSubjectRulesReview", False),
    "subjectaccessreviews": ("authorization.k8s.io/v1", "SubjectAccessReview", False),
    "localsubjectaccessreviews": ("authorization.k8s.io/v1", "LocalSubjectAccessReview", True),
    "tokenreviews": ("authentication.k8s.io/v1", "TokenReview", False),
    "selfsubjectreviews": ("authentication.k8s.io/v1", "SelfSubjectReview", False),
}

_API = Path(__file__).parents[1] / "contract/api"
CUSTOM = yaml.safe_load_all((_API / "custom.yaml").read_text())
CRDS = {crd["spec"]["names"]["plural"]: crd for crd in CUSTOM}


@dataclass(frozen=True)
class Answer:
    """What the server said."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def ok(self) -> Any:
        """The object of a success."""
        assert self.status < 300, (self.status, self.body)
        return self.json

    @property
    def refusal(self) -> tuple[int, str, str]:
        """Code, reason and message; a failure must be a Status that repeats its own code."""
        status = self.json
        assert self.status >= 400, self.body
        assert (status["kind"], status["apiVersion"]) == ("Status", "v1")
        assert (status["status"], status["code"]) == ("Failure", self.status)
        return self.status, status.get("reason", ""), status.get("message", "")

    @property
    def unwanted(self) -> str:
        """The message of a refusal whose code the real server takes less care of than we do."""
        assert 400 <= self.status < 500 or (REAL and self.status == 500), (self.status, self.body)
        return str(self.json["message"])

    @property
    def causes(self) -> list[tuple[str, str, str]]:
        """Field, reason and message of each."""
        causes = self.json["details"].get("causes", [])
        return sorted((c.get("field", ""), c["reason"], c["message"]) for c in causes)


@dataclass(frozen=True)
class Resource:
    """Where a kind is served, for the namespace of one test."""

    api_version: str
    plural: str
    kind: str
    namespace: str = ""

    @property
    def group(self) -> str:
        return self.api_version.rpartition("/")[0]

    def path(self, name: str = "", sub: str = "") -> str:
        root = "/apis" if "/" in self.api_version else "/api"
        inner = f"/namespaces/{self.namespace}" if self.namespace else ""
        tail = "".join(f"/{part}" for part in (name, sub) if part)
        return f"{root}/{self.api_version}{inner}/{self.plural}{tail}"

    def new(self, name: str, **fields: Any) -> dict[str, Any]:
        metadata = {"name": name, **fields.pop("metadata", {})}
        return {"apiVersion": self.api_version, "kind": self.kind, "metadata": metadata, **fields}


@dataclass
class Kube:
    """A server as one user sees it, and a namespace of the test's own on it."""

    session: aiohttp.ClientSession
    url: str
    namespace: str
    minor: int
    headers: dict[str, str]
    made: list[str] = field(default_factory=list)

    # ---- requests ----

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        **params: str,
    ) -> Answer:
        """A request; a body that is no bytes is sent as JSON."""
        data = body if isinstance(body, bytes | None) else msgspec.json.encode(body)
        kind = {"Content-Type": "application/json"} if data is not None else {}
        sent = self.headers | kind | dict(headers or {})
        url = f"{self.url}{path}"
        source = None if data is None else io.BytesIO(data)
        async with self.session.request(
            method,
            url,
            data=source,
            params=params,
            headers=sent,
            skip_auto_headers=["Content-Type"],
        ) as answer:
            return Answer(answer.status, dict(answer.headers), await answer.read())

    async def get(self, path: str, *, accept: str = "application/json", **params: str) -> Answer:
        return await self.call("GET", path, headers={"Accept": accept}, **params)

    async def post(self, path: str, body: Any, **params: str) -> Answer:
        return await self.call("POST", path, body, **params)

    async def put(self, path: str, body: Any, **params: str) -> Answer:
        return await self.call("PUT", path, body, **params)

    async def patch(self, path: str, body: Any, how: str = "merge", **params: str) -> Answer:
        return await self.call("PATCH", path, body, headers=_content(how), **params)

    async def delete(self, path: str, body: Any = None, **params: str) -> Answer:
        return await self.call("DELETE", path, body, **params)

    async def apply(
        self, resource: Resource, obj: dict[str, Any], manager: str, sub: str = "", **params: str
    ) -> Answer:
        path = resource.path(obj["metadata"]["name"], sub)
        return await self.patch(path, obj, "apply", fieldManager=manager, **params)

    async def watch(self, path: str, count: int, **params: str) -> list[tuple[str, Any]]:
        """The first events of a watch: type and object. Fewer where the server ended it."""
        found: list[tuple[str, Any]] = []
        wanted = {"watch": "1", "timeoutSeconds": "30", **params}
        url = f"{self.url}{path}"
        async with (
            asyncio.timeout(SECONDS),
            self.session.get(url, params=wanted, headers=self.headers) as answer,
        ):
            assert answer.status == 200, await answer.read()
            try:
                async for line in answer.content:
                    event = msgspec.json.decode(line)
                    found.append((event["type"], event["object"]))
                    if len(found) == count:
                        break
            finally:
                _hang_up(answer)
        return found

    # ---- things to ask about ----

    def of(self, plural: str) -> Resource:
        """A built-in kind."""
        api_version, kind, namespaced = BUILT_IN[plural]
        return Resource(api_version, plural, kind, self.namespace if namespaced else "")

    def custom(self, group: str, plural: str, kind: str, version: str = "v1") -> Resource:
        """A kind of a CRD that is namespaced."""
        return Resource(f"{group}/{version}", plural, kind, self.namespace)

    def name(self, suffix: str = "x") -> str:
        """A name for something outside of the namespace."""
        return f"{self.namespace}-{suffix}"

    def needs(self, minor: int, what: str) -> None:
        """Skip on a server of a release that cannot do this yet."""
        if self.minor < minor:
            pytest.skip(f"Kubernetes 1.{self.minor} has no {what}: that came with 1.{minor}")

    def acting(self, user: str = "", groups: Sequence[str] = (), token: str = "") -> Kube:
        """The same server as another user: by a token, or by impersonation."""
        headers = {"Authorization": f"Bearer {token}"} if token else dict(self.headers)
        if user:
            headers["Impersonate-User"] = user
        if groups:
            assert len(groups) == 1, "aiohttp's headers as a dict take one value a name"
            headers["Impersonate-Group"] = groups[0]
        return Kube(self.session, self.url, self.namespace, self.minor, headers, self.made)

    async def until(self, path: str, holds: Callable[[Answer], bool], **params: str) -> Answer:
        """Ask until the answer is as expected: for what no event announces."""
        answer = None
        try:
            async with asyncio.timeout(SECONDS):
                while not holds(answer := await self.get(path, **params)):  # noqa: ASYNC110 - no event does
                    await asyncio.sleep(0.05)
        except TimeoutError:
            pytest.fail(f"{path} stays {answer and (answer.status, answer.body)!r}")
        return answer

    async def gone(self, path: str) -> None:
        await self.until(path, lambda answer: answer.status == 404)

    async def outside(self, resource: Resource, obj: dict[str, Any]) -> Any:
        """Make an object outside of the namespace; it is removed after the test."""
        made = (await self.post(resource.path(), obj)).ok
        self.made.append(resource.path(made["metadata"]["name"]))
        return made

    async def define(self, crd: dict[str, Any]) -> Resource:
        """Make a CRD, wait until its kind is served; it is removed after the test."""
        await self.outside(self.of("customresourcedefinitions"), crd)
        return await self.serving(crd)

    async def shared(self, plural: str) -> Resource:
        """A kind of all tests: it is made by the first and never removed."""
        made = await self.post(self.of("customresourcedefinitions").path(), CRDS[plural])
        assert made.status in (201, 409), made.body
        return await self.serving(CRDS[plural])

    async def serving(self, crd: dict[str, Any]) -> Resource:
        """The first version of a CRD, once it is served in full: in discovery and in lists."""
        spec = crd["spec"]
        names = spec["names"]
        inner = self.namespace if spec["scope"] == "Namespaced" else ""
        version = f"{spec['group']}/{spec['versions'][0]['name']}"
        resource = Resource(version, names["plural"], names["kind"], inner)
        await self.until(
            f"/apis/{version}", lambda a: a.status == 200 and _lists(a, names["plural"])
        )
        await self.until(resource.path(), lambda a: a.status == 200)
        return resource

    async def clean(self) -> None:
        for path in reversed(self.made):
            await self.patch(path, {"metadata": {"finalizers": None}})
            await self.delete(path)
        LEFT.append(self.namespace)


def _hang_up(answer: aiohttp.ClientResponse) -> None:
    """End the connection of an answer that has no end, without waiting for the other side."""
    if answer.connection is not None and answer.connection.transport is not None:
        answer.connection.transport.abort()


def _content(how: str) -> dict[str, str]:
    return {"Content-Type": PATCHES.get(how, how)}


def _lists(answer: Answer, plural: str) -> bool:
    return any(found["name"] == plural for found in answer.json["resources"])
