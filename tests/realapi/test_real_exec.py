"""Programs in the driver's pod, through a real API server to a stand-in for the node's kubelet.

The API server is real, and so is what it does with a request: it checks it, finds the node's
kubelet, connects to it over TLS and passes the websocket on. Up to release 1.29 it passes it on
untouched. Newer ones turn version 5 of the protocol into SPDY on that last stretch, which the
stand-in does not speak; they offer the client the same websocket.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import errno
import ipaddress
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from laneway.api import CoreNode, ObjectMeta
from laneway.core.programs import NVIDIA_SMI, SRIOV_MANAGE
from laneway.host.executors.pod import NAMESPACE, PodExecutor
from laneway.host.port import CommandMissingError
from laneway.kube.errors import AlreadyExistsError, ApiError, NotFoundError
from laneway.kube.exec import Target, execute
from laneway.kube.pods import PODS, Pod
from laneway.kube.resource import Resource, served
from support.kubelet import Behaviour, ends, not_found, sends, upgrade


class Namespace(msgspec.Struct):
    metadata: ObjectMeta = ObjectMeta()


NAMESPACES = Resource("", "v1", "namespaces", False, Namespace)
NODES = served(CoreNode)


@dataclass
class Kubelet:
    """A node's kubelet: it runs what is asked for, or what looks so to whoever asks."""

    programs: dict[str, Behaviour] = field(default_factory=dict)
    asked: list[tuple[str, list[tuple[str, str]]]] = field(default_factory=list)

    async def execute(self, request: web.Request) -> web.StreamResponse:
        self.asked.append((request.path, list(request.query.items())))
        argv = request.query.getall("command")
        absent = sends((3, not_found(argv[0])))
        return await upgrade(request, self.programs.get(argv[0], absent))


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubelet")])
    now = datetime.datetime.now(datetime.UTC)
    loopback = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([loopback]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path / "kubelet.pem"
    path.write_bytes(
        made.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return path


@pytest.fixture
async def kubelet(server: Any, certificate: Path) -> AsyncIterator[Kubelet]:
    """The kubelet of the test's node, registered."""
    kubelet = Kubelet({"test": ends()})
    app = web.Application()
    app.router.add_get("/exec/{namespace}/{pod}/{container}", kubelet.execute)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    listening = TestServer(app, host="127.0.0.1", scheme="https")
    await listening.start_server(ssl=context)
    with contextlib.suppress(AlreadyExistsError):
        await server.client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    await server.client.create(NODES, {"metadata": {"name": server.node}})
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": listening.port}},
    }
    await server.client.patch(NODES, server.node, {"status": status}, subresource="status")
    yield kubelet
    await server.client.delete(NODES, server.node)
    await listening.close()


class DriverPod:
    """The driver's pod of the test's node."""

    def __init__(self, server: Any) -> None:
        self._client = server.client
        self._node = server.node
        self.name = f"driver-{server.node}"

    async def create(self) -> Pod:
        body = {
            "metadata": {
                "name": self.name,
                "labels": {"app": "nvidia-driver-daemonset"},
                "finalizers": ["example.org/containers-run"],
            },
            "spec": {
                "nodeName": self._node,
                "containers": [{"name": "driver", "image": "driver"}],
                "terminationGracePeriodSeconds": 0,
            },
        }
        return await self._client.create(PODS, body, NAMESPACE)

    async def ready(self, *, ready: bool = True) -> None:
        container = {
            "name": "driver",
            "containerID": "containerd://1",
            "image": "driver",
            "imageID": "",
            "ready": ready,
            "restartCount": 0,
            "state": {"running": {}},
        }
        status = {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
            "containerStatuses": [container],
        }
        await self._client.patch(
            PODS, self.name, {"status": status}, NAMESPACE, subresource="status"
        )

    async def delete(self) -> None:
        """Ask for its end; its containers take their time."""
        await self._client.delete(PODS, self.name, NAMESPACE)

    async def remove(self) -> None:
        """As the kubelet does once its containers have ended."""
        await self._client.patch(PODS, self.name, {"metadata": {"finalizers": None}}, NAMESPACE)
        with contextlib.suppress(NotFoundError):
            await self.delete()


@pytest.fixture
async def driver(server: Any, kubelet: Kubelet) -> AsyncIterator[DriverPod]:
    """A Ready driver pod."""
    pod = DriverPod(server)
    await pod.create()
    await pod.ready()
    yield pod
    with contextlib.suppress(NotFoundError):
        await pod.remove()


async def test_a_program_runs_in_the_driver_pod(
    server: Any, kubelet: Kubelet, driver: DriverPod
) -> None:
    kubelet.programs[NVIDIA_SMI] = ends(19, b"out\n", b"err\n")
    argv = [NVIDIA_SMI, "mig", "-i", "0000:08:00.0", "a b&c=d+e%/ü"]

    done = await PodExecutor(server.client, server.node).run(argv, 20)

    assert done == (19, "out\nerr\n")
    path, query = kubelet.asked[-1]
    assert path == f"/exec/{NAMESPACE}/{driver.name}/driver"
    assert [value for key, value in query if key == "command"] == argv
    assert {key for key, _ in query} == {"command", "output", "error"}, "no input, no terminal"


async def test_much_output_comes_through_bounded(
    server: Any, kubelet: Kubelet, driver: DriverPod
) -> None:
    pieces = [(1, b"x" * 32 * 1024)] * 200
    kubelet.programs[SRIOV_MANAGE] = sends(*pieces, (1, b"\nend"), (3, {"status": "Success"}))

    done = await PodExecutor(server.client, server.node).run([SRIOV_MANAGE, "-e", "ALL"], 20)

    assert done.status == 0
    assert done.output.startswith(f"[the first {200 * 32 * 1024 + 4 - 64 * 1024} bytes are left")
    assert done.output.endswith("x\nend")


async def test_a_program_that_is_missing_in_the_pod_is_told_so(
    server: Any, driver: DriverPod
) -> None:
    executor = PodExecutor(server.client, server.node)

    assert not await executor.has(SRIOV_MANAGE)
    with pytest.raises(CommandMissingError, match=f"missing in driver pod {driver.name}"):
        await executor.run([SRIOV_MANAGE, "-e", "ALL"], 20)


async def test_only_a_ready_pod_that_stays_is_used(
    server: Any, kubelet: Kubelet, driver: DriverPod
) -> None:
    kubelet.programs[NVIDIA_SMI] = ends()
    executor = PodExecutor(server.client, server.node)
    assert await executor.has(NVIDIA_SMI)

    await driver.ready(ready=False)
    with pytest.raises(CommandMissingError, match="is not Ready"):
        await executor.run([NVIDIA_SMI], 20)
    await driver.ready()
    await executor.run([NVIDIA_SMI], 20)
    await driver.delete()
    with pytest.raises(CommandMissingError, match="is being deleted"):
        await executor.run([NVIDIA_SMI], 20)
    await driver.remove()
    with pytest.raises(CommandMissingError, match=f"node {server.node} has no driver pod"):
        await executor.run([NVIDIA_SMI], 20)


async def test_a_pod_recreated_under_its_name_is_another(
    server: Any, kubelet: Kubelet, driver: DriverPod
) -> None:
    kubelet.programs[NVIDIA_SMI] = ends()
    executor = PodExecutor(server.client, server.node)
    assert await executor.has(NVIDIA_SMI)
    await driver.remove()
    await driver.create()
    await driver.ready()

    kubelet.programs["test"] = ends(1)

    with pytest.raises(CommandMissingError, match="not installed yet"):
        await executor.run([NVIDIA_SMI], 20)


async def test_an_end_that_is_not_told_is_an_outcome_unknown(
    server: Any, kubelet: Kubelet, driver: DriverPod
) -> None:
    async def cut(socket: web.WebSocketResponse) -> None:
        await socket.send_bytes(b"\1half")
        assert socket._req is not None
        assert socket._req.transport is not None
        socket._req.transport.abort()

    kubelet.programs[NVIDIA_SMI] = cut

    with pytest.raises(OSError, match="whether it did its work is unknown") as caught:
        await PodExecutor(server.client, server.node).run([NVIDIA_SMI], 20)
    assert caught.value.errno == errno.EIO


async def test_a_kubelet_that_falls_silent_meets_the_limit(
    server: Any, kubelet: Kubelet, driver: DriverPod
) -> None:
    async def hang(socket: web.WebSocketResponse) -> None:
        await asyncio.Event().wait()

    kubelet.programs[NVIDIA_SMI] = hang

    with pytest.raises(TimeoutError):
        await PodExecutor(server.client, server.node).run([NVIDIA_SMI], 1)


async def test_the_servers_own_refusals_are_in_words(server: Any, driver: DriverPod) -> None:
    with pytest.raises(NotFoundError, match='pods "absent" not found'):
        await execute(server.client, Target(NAMESPACE, "absent", "driver"), ["x"], 20)
    with pytest.raises(ApiError, match="container other is not valid for pod"):
        await execute(server.client, Target(NAMESPACE, driver.name, "other"), ["x"], 20)
