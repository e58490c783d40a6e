"""Webhooks of a Deployment behind a Service, and what kubelets and kube-proxy do for them."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import random
from pathlib import Path
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry

from laneway.api import ObjectMeta
from laneway.controllers.cluster.certificates import CONFIGURATIONS, SECRET, SECRETS, SERVICE
from laneway.kube.client import Client
from laneway.kube.errors import NotFoundError
from laneway.kube.resource import Resource
from laneway.roles.manager import NAMESPACE
from laneway.roles.webhook import Webhook
from support.reviewing import GROUP, KnownCaches, known_world

SECONDS = 30.0


class Named(msgspec.Struct, frozen=True):
    """Any object."""

    metadata: ObjectMeta = ObjectMeta()


SERVICES = Resource("", "v1", "services", True, Named)
HOOKS = {
    kind: Resource("admissionregistration.k8s.io", "v1", f"{kind.lower()}s", False, Named, kind)
    for kind in CONFIGURATIONS
}


class Replica:
    """A pod with a webhook, and the volume with the Secret."""

    def __init__(self, client: Client, folder: Path, drain_seconds: float = 1.0) -> None:
        self._client = client
        self._folder = folder
        self._drain_seconds = drain_seconds
        self._generation = 0
        self._task: asyncio.Task[None] | None = None
        self.caches = KnownCaches(known_world())
        self.webhook: Webhook | None = None
        folder.mkdir()

    async def mount(self) -> None:
        """Have the Secret in the volume as it is now, by the swap of a link as a kubelet does."""
        secret = await self._client.get(SECRETS, SECRET, NAMESPACE)
        self._generation += 1
        data = self._folder / f"..{self._generation}"
        data.mkdir()
        for name in ("tls.crt", "tls.key"):
            if name in secret.data:
                (data / name).write_bytes(base64.b64decode(secret.data[name]))
        swap = self._folder / "..data_tmp"
        swap.symlink_to(data.name)
        swap.replace(self._folder / "..data")
        for name in ("tls.crt", "tls.key"):
            if not (self._folder / name).is_symlink():
                (self._folder / name).symlink_to(f"..data/{name}")

    @property
    def certificate(self) -> bytes:
        return (self._folder / "tls.crt").read_bytes()

    @property
    def ready(self) -> bool:
        return self.webhook is not None and not self.webhook.waiting_for()

    def start(self) -> None:
        self.webhook = Webhook(
            self._client,
            CollectorRegistry(),
            self.caches,
            cert_file=str(self._folder / "tls.crt"),
            key_file=str(self._folder / "tls.key"),
            host="127.0.0.1",
            port=0,
            drain_seconds=self._drain_seconds,
        )
        self._task = asyncio.create_task(self.webhook.run())

    async def stop(self) -> None:
        """As on SIGTERM."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    def hurry(self) -> None:
        """As on the second SIGTERM: it does not go on answering."""
        if self._task is not None:
            self._task.cancel()


class Switch:
    """kube-proxy: gives each connection to one of those that are ready, by chance, for good."""

    def __init__(self, replicas: list[Replica]) -> None:
        self._replicas = replicas
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self.port = 0
        self.made = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)
        self.made += 1
        ready = [one for one in self._replicas if one.ready]
        try:
            if not ready:
                return
            webhook = random.choice(ready).webhook
            assert webhook is not None
            there = await asyncio.open_connection("127.0.0.1", webhook.port)
            await asyncio.gather(_pipe(reader, there[1]), _pipe(there[0], writer))
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            writer.close()


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()


async def configure(client: Client, port: int) -> None:
    """The Service, and configurations as the chart has them, which trust no authority yet."""
    service: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": SERVICE},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    }
    await client.create(SERVICES, service, NAMESPACE)
    for kind, name in CONFIGURATIONS.items():
        what = "mutation" if kind.startswith("Mutating") else "validation"
        rule = {
            "apiGroups": [GROUP],
            "apiVersions": ["*"],
            "operations": ["*"],
            "resources": ["vgpulayouts"],
        }
        where = {"name": SERVICE, "namespace": NAMESPACE, "port": port}
        hooks = [
            {
                "name": f"{part}.laneway.harvesterhci.io",
                "clientConfig": {"service": where | {"path": f"/v1/webhook/{what}"}},
                "rules": [rule],
                "failurePolicy": "Fail",
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }
            for part in ("first", "second")
        ]
        body = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": name},
            "webhooks": hooks,
        }
        await client.create(HOOKS[kind], body)


async def bundles(client: Client) -> list[bytes]:
    """Whom the API server trusts, webhook by webhook."""
    found = []
    for resource, name in zip(HOOKS.values(), CONFIGURATIONS.values(), strict=True):
        body = msgspec.json.decode(await client.raw(resource.path(name=name)))
        found += [
            base64.b64decode(hook["clientConfig"].get("caBundle", "")) for hook in body["webhooks"]
        ]
    return found


async def secret_data(client: Client) -> dict[str, bytes]:
    try:
        secret = await client.get(SECRETS, SECRET, NAMESPACE)
    except NotFoundError:
        return {}
    return {name: base64.b64decode(value) for name, value in secret.data.items()}
