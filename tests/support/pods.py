"""A cluster on which nothing of Laneway's is installed yet, and what runs there once it is.

Whatever Kubernetes itself would do with what a user installs is done here: the pods of Laneway's
DaemonSet and Deployments run, with tokens of their accounts, on simulated nodes; they start again
with another image, and end with their objects. All else is for the typed commands to do.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from laneway.admission.caches import AdmissionCaches
from laneway.kube.client import Client, PatchType
from laneway.kube.cluster import User
from laneway.kube.config import load
from laneway.kube.errors import ApiError, NotFoundError
from laneway.roles.webhook import Webhook, trusted
from laneway.simcluster.kubevirt.install import install as install_kubevirt
from support.accounts import ACCOUNTS, AGENT, MANAGER, NAMESPACE, WEBHOOK, ask, secret_path
from support.embedded import Embedded
from support.world_parts import Parts
from support.worlds import World

SECONDS = 60.0
LOOK_SECONDS = 0.1
"""How often it is looked what is installed now."""
CORE = f"/api/v1/namespaces/{NAMESPACE}"
APPS = f"/apis/apps/v1/namespaces/{NAMESPACE}"
WORKLOADS = {
    AGENT: f"{APPS}/daemonsets/{AGENT}",
    MANAGER: f"{APPS}/deployments/{MANAGER}",
    WEBHOOK: f"{APPS}/deployments/{WEBHOOK}",
}


class Pods:
    """The cluster, in threads of its own. `nodes` are names with what is simulated there."""

    def __init__(self, folder: Path, nodes: dict[str, str]) -> None:
        self._server = Embedded(folder / "server")
        self._folder, self._nodes = folder, nodes
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="pods", daemon=True)
        self._ready = threading.Event()
        self._stop = asyncio.Event()
        self._failure: BaseException | None = None
        self._runs = 0

    def start(self) -> str:
        """The administrator's kubeconfig, once the nodes are there."""
        kubeconfig = self._server.start()
        self._config = load(kubeconfig)
        self._thread.start()
        self._ready.wait(SECONDS)
        if self._failure:
            raise self._failure
        return kubeconfig

    def end(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(SECONDS)
        self._server.end()
        if self._failure:
            raise self._failure

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._main())
        except BaseException as failure:  # noqa: BLE001 - reported to the caller that waits
            self._failure = failure
        finally:
            self._loop.close()
            self._ready.set()

    async def _main(self) -> None:
        async with Client(self._config) as client:
            await install_kubevirt(client)
            cluster = Parts(client, client, client)
            world = World(cluster, self._folder / "world")
            try:
                world.start_kubernetes()
                for name, spec in self._nodes.items():
                    await world.add(name, spec, agent=False)
                self._ready.set()
                await self._follow(client, world)
            finally:
                await world.stop()

    async def _follow(self, client: Client, world: World) -> None:
        """Run what is installed, as it is installed now, until the end."""
        while not self._stop.is_set():
            if (images := await self._images(client)) is None:
                await asyncio.sleep(LOOK_SECONDS)
                continue
            async with self._installed(client, world):
                while await self._images(client) == images and not self._stop.is_set():  # noqa: ASYNC110 - polling
                    await asyncio.sleep(LOOK_SECONDS)

    async def _images(self, client: Client) -> tuple[str, ...] | None:
        """What all three are to run; None while one is missing."""
        found = []
        for path in WORKLOADS.values():
            try:
                workload = await ask(client, "GET", path)
            except NotFoundError:
                return None
            found.append(workload["spec"]["template"]["spec"]["containers"][0]["image"])
        return tuple(found)

    @contextlib.asynccontextmanager
    async def _installed(self, client: Client, world: World) -> Any:
        """The pods of one version."""
        async with contextlib.AsyncExitStack() as stack:
            clients = {}
            for name in ACCOUNTS:
                clients[name] = await stack.enter_async_context(await self._acting(client, name))
            world.agent_clients = dict.fromkeys(world.nodes, clients[AGENT])
            world.managers_client = clients[MANAGER]
            world.certificates = True
            await world.start_manager()
            stack.push_async_callback(world.kill_manager)
            await stack.enter_async_context(self._webhook(client, clients[WEBHOOK]))
            for node in world.nodes.values():
                await world.start_agent(node)
                stack.push_async_callback(world.kill_agent, node)
                await stack.enter_async_context(_agent_pod(client, node.name))
            await self._tell(client, len(world.nodes))
            yield

    async def _acting(self, client: Client, account: str) -> Client:
        """A client with a token as the kubelet requests it."""
        path = f"{CORE}/serviceaccounts/{account}/token"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        token = (await ask(client, "POST", path, body))["status"]["token"]
        return Client(replace(self._config, user=User(token=token)))

    @contextlib.asynccontextmanager
    async def _webhook(self, client: Client, acting: Client) -> Any:
        """The webhook, where its Service leads."""
        self._runs += 1
        folder = self._folder / f"tls-{self._runs}"
        folder.mkdir()
        while not (secret := await _secret(client)):  # noqa: ASYNC110 - a request is the event
            await asyncio.sleep(0.05)
        for key in ("tls.crt", "tls.key"):
            (folder / key).write_bytes(base64.b64decode(secret["data"][key]))
        webhook = Webhook(
            acting,
            CollectorRegistry(),
            AdmissionCaches.of(acting, trusted(NAMESPACE)),
            cert_file=str(folder / "tls.crt"),
            key_file=str(folder / "tls.key"),
            host="127.0.0.1",
            port=0,
        )
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(webhook.run())
            try:
                async with asyncio.timeout(SECONDS):
                    await webhook.ready.wait()
                await _serves(client, webhook.port)
                yield
            finally:
                task.cancel()

    async def _tell(self, client: Client, nodes: int) -> None:
        """What controllers of Kubernetes say of workloads whose pods run."""
        daemons = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady")
        more = ("updatedNumberScheduled", "numberAvailable")
        deployed = ("replicas", "readyReplicas", "updatedReplicas", "availableReplicas")
        for name, path in WORKLOADS.items():
            generation = (await ask(client, "GET", path))["metadata"]["generation"]
            counted = dict.fromkeys((*daemons, *more), nodes)
            if name != AGENT:
                counted = dict.fromkeys(deployed, 2)
            status = {"observedGeneration": generation, "numberMisscheduled": 0, **counted}
            if name != AGENT:
                del status["numberMisscheduled"]
            await _merge(client, f"{path}/status", {"status": status})


@contextlib.asynccontextmanager
async def _agent_pod(client: Client, node: str) -> Any:
    """The object of an agent's pod; the simulated kubelet says that it runs."""
    daemon_set = await ask(client, "GET", WORKLOADS[AGENT])
    metadata, template = daemon_set["metadata"], daemon_set["spec"]["template"]
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "controller": True}
    owner |= {key: metadata[key] for key in ("name", "uid")}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{AGENT}-{node}",
            "labels": template["metadata"]["labels"],
            "ownerReferences": [owner],
        },
        "spec": {**template["spec"], "nodeName": node},
    }
    await ask(client, "POST", f"{CORE}/pods", body)
    try:
        yield
    finally:
        now = {"gracePeriodSeconds": 0}
        with contextlib.suppress(NotFoundError):
            await ask(client, "DELETE", f"{CORE}/pods/{AGENT}-{node}", now)


async def _serves(client: Client, port: int) -> None:
    """Endpoints, as for the ready pods of a Service."""
    body = {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": WEBHOOK, "namespace": NAMESPACE},
        "subsets": [
            {"addresses": [{"ip": "127.0.0.1"}], "ports": [{"name": "https", "port": port}]}
        ],
    }
    with contextlib.suppress(NotFoundError):
        await ask(client, "DELETE", f"{CORE}/endpoints/{WEBHOOK}")
    await ask(client, "POST", f"{CORE}/endpoints", body)


async def _secret(client: Client) -> Any:
    try:
        return await ask(client, "GET", secret_path())
    except NotFoundError:
        return None


async def _merge(client: Client, path: str, body: Any) -> None:
    with contextlib.suppress(ApiError):  # It may be gone again.
        await client.call("PATCH", path, None, body, PatchType.MERGE)
