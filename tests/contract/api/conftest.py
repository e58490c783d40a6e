"""One API server for all tests of this folder: ours, or in the realapi tier a real kube-apiserver.

The tests are the contract between both: what passes on one and fails on the other is a mistake of
the embedded server. `LANEWAY_REALAPI` is set when KUBECONFIG names a server to test on. The server
is shared, by all tests and by those that run beside them, so every test has a namespace of its own,
gives cluster-wide objects names that nobody else has, and takes nothing for granted about the rest.

The embedded server is started as `laneway up` starts it: TLS, tokens, access rules and all.
"""

from __future__ import annotations

import asyncio
import io
import os
import threading
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
import yaml

from laneway.api import VGPUDevice
from laneway.api.registry import KINDS
from laneway.kube.auth import credentials_for
from laneway.kube.client import Client, PatchType
from laneway.kube.config import load
from laneway.kube.errors import NotFoundError
from laneway.kube.resource import Resource as TypedResource
from laneway.kube.resource import served
from laneway.kube.stream import WatchEvent
from laneway.kube.tls import client_context
from laneway.roles import up
from laneway.roles.datadir import open_data_dir
from laneway.roles.install import install_crds

REAL = bool(os.environ.get("LANEWAY_REALAPI"))
SECONDS = 60.0

VGPUS: TypedResource[VGPUDevice] = served(VGPUDevice)

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

CUSTOM = yaml.safe_load_all((Path(__file__).parent / "custom.yaml").read_text())
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
            async for line in answer.content:
                event = msgspec.json.decode(line)
                found.append((event["type"], event["object"]))
                if len(found) == count:
                    break
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
                while not holds(answer := await self.get(path, **params)):  # noqa: ASYNC110
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
        await self.delete(self.of("namespaces").path(self.namespace))


def _content(how: str) -> dict[str, str]:
    return {"Content-Type": PATCHES.get(how, how)}


def _lists(answer: Answer, plural: str) -> bool:
    return any(found["name"] == plural for found in answer.json["resources"])


# ---- the server ----


class Embedded:
    """Our server in a thread and event loop of its own, so that it outlives each test's loop."""

    def __init__(self, directory: Path) -> None:
        self._thread = threading.Thread(target=self._run, name="embedded API server", daemon=True)
        self._directory = directory
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._failure: BaseException | None = None
        self.kubeconfig = ""

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        except BaseException as failure:  # noqa: BLE001 - told to whoever waits
            self._failure = failure
        finally:
            self._loop.close()
            self._ready.set()

    async def _serve(self) -> None:
        with open_data_dir(str(self._directory)) as data:
            async with up.api_server(data, 0):
                self.kubeconfig = data.kubeconfig
                self._ready.set()
                await self._stop.wait()

    def start(self) -> str:
        """The path of the administrator's kubeconfig, once the server listens."""
        self._thread.start()
        self._ready.wait(SECONDS)
        if self._failure:
            raise self._failure
        return self.kubeconfig

    def end(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(SECONDS)
        if self._failure:
            raise self._failure


@pytest.fixture(scope="session")
def embedded_kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    server = Embedded(tmp_path_factory.mktemp("embedded"))
    try:
        yield server.start()
    finally:
        server.end()


@pytest.fixture(scope="session")
def kubeconfig(request: pytest.FixtureRequest) -> str:
    """How an administrator reaches the server under test."""
    return os.environ["KUBECONFIG"] if REAL else request.getfixturevalue("embedded_kubeconfig")


@pytest.fixture
async def admin(kubeconfig: str) -> AsyncIterator[Kube]:
    """The server as its administrator sees it, with the namespace not made yet."""
    config = load(kubeconfig)
    identity = await credentials_for(config).identity()
    tls = client_context(config.cluster, identity.certificate, identity.key)
    headers = {"Authorization": identity.authorization} if identity.authorization else {}
    connector = aiohttp.TCPConnector(ssl=tls, limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        kube = Kube(session, config.cluster.server, f"c-{uuid.uuid4().hex[:8]}", 0, headers)
        kube.minor = int((await kube.get("/version")).ok["minor"].rstrip("+"))
        yield kube


@pytest.fixture(params=["real" if REAL else "embedded"])
async def kube(admin: Kube) -> AsyncIterator[Kube]:
    """The server as its administrator sees it, with a namespace for this test."""
    namespaces = admin.of("namespaces")
    (await admin.post(namespaces.path(), namespaces.new(admin.namespace))).ok  # noqa: B018
    yield admin
    await admin.clean()


# ---- custom kinds ----


@pytest.fixture
async def gizmos(kube: Kube) -> Resource:
    """A namespaced kind with status, scale, lists of all types, defaults and formats."""
    return await kube.shared("gizmos")


@pytest.fixture
async def gadgets(kube: Kube) -> Resource:
    """A cluster-wide kind without a status or any rule."""
    return await kube.shared("gadgets")


@pytest.fixture
def crd(kube: Kube) -> Callable[..., dict[str, Any]]:
    """Makes the CRD of a kind that is this test's own."""

    def make(schema: dict[str, Any] | None = None, **version: Any) -> dict[str, Any]:
        group = f"{kube.namespace}.example.com"
        shape = {"type": "object", **(schema or {"x-kubernetes-preserve-unknown-fields": True})}
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"things.{group}"},
            "spec": {
                "group": group,
                "names": {
                    "kind": "Thing",
                    "listKind": "ThingList",
                    "plural": "things",
                    "singular": "thing",
                },
                "scope": "Namespaced",
                "versions": [
                    {
                        "name": "v1",
                        "served": True,
                        "storage": True,
                        "schema": {"openAPIV3Schema": shape},
                        **version,
                    }
                ],
            },
        }

    return make


# ---- our own kinds, through our own client ----


class Api:
    """VGPUDevices; every object that a test makes has a name of its own and is removed after it."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.run = uuid.uuid4().hex[:8]
        self._made: list[str] = []

    def name(self, suffix: str = "x") -> str:
        return f"{self.run}-{suffix}"

    async def call(
        self,
        method: str,
        name: str = "",
        body: Any = None,
        *,
        params: dict[str, str] | None = None,
        content_type: str = "application/json",
    ) -> dict[str, Any]:
        """A request for VGPUDevices as JSON; a refusal is an ApiError."""
        path = VGPUS.path("", *name.split("/")) if name else VGPUS.path()
        answer = await self.client._call(method, path, params, body, content_type)
        return msgspec.json.decode(answer)

    async def create(self, suffix: str = "x", **fields: Any) -> dict[str, Any]:
        body = vgpu(self.name(suffix), **fields)
        made = await self.call("POST", body=body)
        self._made.append(made["metadata"]["name"])
        return made

    async def merge(self, name: str, body: dict[str, Any]) -> dict[str, Any]:
        return await self.call("PATCH", name, body, content_type=PatchType.MERGE)

    async def version(self) -> str:
        """The resourceVersion of the collection now."""
        return (await self.call("GET"))["metadata"]["resourceVersion"]

    async def events(
        self, count: int, *, ours: bool = True, **options: Any
    ) -> list[tuple[str, dict[str, Any]]]:
        """The first changes of a watch that are no bookmarks; of this test's objects only."""
        found: list[tuple[str, dict[str, Any]]] = []
        event: WatchEvent
        async with asyncio.timeout(SECONDS):
            async for event in self.client.watch(VGPUS, **options):
                obj = msgspec.json.decode(event.object)
                if event.type != "BOOKMARK" and obj["metadata"]["name"].startswith(self.run):
                    found.append((event.type, obj))
                if len(found) == count:
                    break
        return found

    async def clean(self) -> None:
        for name in self._made:
            try:
                await self.merge(name, {"metadata": {"finalizers": None}})
                await self.call("DELETE", name)
            except NotFoundError:
                pass


def vgpu(name: str, **fields: Any) -> dict[str, Any]:
    metadata = {"name": name, **fields.pop("metadata", {})}
    spec = {"address": "0000:08:00.4", "nodeName": "node1", "enabled": False}
    return {
        "apiVersion": "devices.harvesterhci.io/v1beta1",
        "kind": "VGPUDevice",
        "metadata": metadata,
        "spec": {**spec, **fields.pop("spec", {})},
        **fields,
    }


async def _until_served(client: Client) -> None:
    """Wait until every kind is: a server that took a CRD serves its kind a moment later."""
    async with asyncio.timeout(SECONDS):
        for kind in KINDS:
            while True:
                try:
                    await client.raw(kind.path, {"limit": "1"})
                    break
                except NotFoundError:
                    await asyncio.sleep(0.1)


@pytest.fixture(params=["real" if REAL else "embedded"])
async def api(kubeconfig: str) -> AsyncIterator[Api]:
    async with Client(load(kubeconfig)) as client:
        await install_crds(client)
        await _until_served(client)
        found = Api(client)
        yield found
        await found.clean()
