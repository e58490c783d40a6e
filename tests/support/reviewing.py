"""A webhook in a thread, over TLS, with a world of the test's; and what is asked of it."""

from __future__ import annotations

import asyncio
import base64
import copy
import http.client
import json
import ssl
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry

from kapilite.credentials.pki import ensure
from laneway.admission.indexes import INDEXERS
from laneway.admission.review import VERSIONS
from laneway.admission.world import World
from laneway.api import (
    CoreNode,
    ObjectMeta,
    PCIDevice,
    PCIDeviceClaim,
    PCIDeviceClaimSpec,
    PCIDeviceStatus,
    SRIOVGPUDevice,
    SRIOVGPUDeviceSpec,
    VGPUDevice,
    VGPUDeviceSpec,
    VGPUDeviceStatus,
    to_builtins,
)
from laneway.kube.client import Client
from laneway.kube.cluster import Cluster, ClusterConfig
from laneway.kube.store import Store
from laneway.roles.webhook import Webhook

SECONDS = 30.0
MUTATION, VALIDATION = "/v1/webhook/mutation", "/v1/webhook/validation"
GROUP = "devices.harvesterhci.io"
USER = {"username": "anna", "uid": "1", "groups": ["people"], "extra": {"scopes": ["a"]}}
SILENT = ClusterConfig(Cluster("http://127.0.0.1:1"))
"""A cluster without a server."""


class KnownCaches:
    """Caches that a test fills, and whose state it says."""

    def __init__(self, world: World, missing: list[str] | None = None) -> None:
        self.world = world
        self.missing = [] if missing is None else missing

    def waiting_for(self) -> list[str]:
        return list(self.missing)

    async def run(self) -> None:
        await asyncio.Event().wait()


class WebhookInThread:
    """Started and stopped like a process; `ask` may be called from anywhere."""

    def __init__(self, directory: Path, world: World, port: int = 0) -> None:
        self.pki = ensure(str(directory))
        self.caches = KnownCaches(world)
        self.registry = CollectorRegistry()
        self.port = port
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="webhook", daemon=True)
        self._task: asyncio.Task[None] | None = None
        self._failure: BaseException | None = None
        self._connection: http.client.HTTPSConnection | None = None
        self._tls = ssl.create_default_context(cadata=self.pki.ca_pem.decode())

    def start(self) -> None:
        self._thread.start()
        assert self._ready.wait(SECONDS)
        if self._failure:
            raise self._failure

    def stop(self) -> None:
        if self._connection is not None:
            self._connection.close()
        if self._task is not None:
            self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        except BaseException as failure:  # noqa: BLE001 - reported to the caller that waits
            self._failure = failure
        finally:
            self._loop.close()
            self._ready.set()

    async def _serve(self) -> None:
        async with Client(SILENT) as client:
            webhook = Webhook(
                client,
                self.registry,
                self.caches,
                cert_file=self.pki.server_cert,
                key_file=self.pki.server_key,
                host="127.0.0.1",
                port=self.port,
            )
            self._task = asyncio.create_task(webhook.run())
            ready = asyncio.create_task(webhook.ready.wait())
            await asyncio.wait({self._task, ready}, return_when=asyncio.FIRST_COMPLETED)
            self.port = webhook.port
            self._ready.set()
            try:
                await self._task
            except asyncio.CancelledError:
                pass
            finally:
                ready.cancel()

    def connect(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(
            "127.0.0.1", self.port, timeout=SECONDS, context=self._tls
        )

    def send(
        self,
        body: bytes,
        path: str = VALIDATION,
        *,
        method: str = "POST",
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, bytes]:
        """What is answered to a body; for one caller at a time."""
        connection = self._connection = self._connection or self.connect()
        kind = dict(headers or {"Content-Type": "application/json"})
        connection.request(method, path, body, kind)
        answer = connection.getresponse()
        content = answer.read()
        if answer.status == 413:  # The server does not read the rest.
            connection.close()
        return answer.status, content

    def ask(self, asked: Mapping[str, Any], path: str = VALIDATION) -> dict[str, Any]:
        """The response to a review that is one."""
        status, body = self.send(msgspec.json.encode(asked), path)
        assert status == 200, body
        return well_formed(body, asked["request"]["uid"])

    def counted(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(name, labels) or 0.0


def well_formed(body: bytes, uid: str) -> dict[str, Any]:
    """The response in an answer that is as Kubernetes wants it."""
    answer = json.loads(body)
    assert answer["apiVersion"] in VERSIONS
    assert answer["kind"] == "AdmissionReview"
    response: dict[str, Any] = answer["response"]
    assert response["uid"] == uid
    assert isinstance(response["allowed"], bool)
    if not response["allowed"]:
        status = response["status"]
        assert status["status"] == "Failure"
        assert 400 <= status["code"] < 600
        assert status["reason"]
        assert status["message"]
        for cause in status.get("details", {}).get("causes", ()):
            assert cause["reason"]
            assert cause["message"]
    warnings = response.get("warnings", [])
    assert all(0 < len(text) <= 256 and text.isprintable() for text in warnings)
    assert sum(map(len, warnings)) <= 4096
    assert ("patch" in response) == ("patchType" in response)
    if "patch" in response:
        assert response["patchType"] == "JSONPatch"
        assert isinstance(json.loads(base64.b64decode(response["patch"], validate=True)), list)
    return response


def review(
    resource: str,
    operation: str = "CREATE",
    new: Any = None,
    old: Any = None,
    *,
    group: str = GROUP,
    version: str = VERSIONS[0],
    uid: str = "7",
    **more: Any,
) -> dict[str, Any]:
    """A question as an API server asks it."""
    meta = (new or old or {}).get("metadata") or {}
    request = {
        "uid": uid,
        "kind": {"group": group, "version": "v1", "kind": "Any"},
        "resource": {"group": group, "version": "v1", "resource": resource},
        "name": meta.get("name", ""),
        "namespace": meta.get("namespace", ""),
        "operation": operation,
        "userInfo": copy.deepcopy(USER),
        "object": new,
        "oldObject": old,
        "dryRun": False,
        "options": None,
    }
    return {"apiVersion": version, "kind": "AdmissionReview", "request": request | more}


def claim(name: str = "node1-000001000", **spec: str) -> dict[str, Any]:
    said = {"nodeName": "node1", "address": "0000:01:00.0", "userName": "anna"} | spec
    return {
        "apiVersion": f"{GROUP}/v1beta1",
        "kind": "PCIDeviceClaim",
        "metadata": {"name": name},
        "spec": said,
    }


def make_vm(name: str = "vm", *devices: Mapping[str, str], **spec: Any) -> dict[str, Any]:
    domain = {"devices": {"hostDevices": list(devices)}}
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"runStrategy": "Always", "template": {"spec": {"domain": domain}}} | spec,
    }


def samples() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Group, resource and an object of every kind that is judged."""
    labels = {"nodename": "node1"}
    yield GROUP, "pcideviceclaims", claim()
    yield GROUP, "usbdeviceclaims", {"metadata": {"name": "node1-usb"}, "spec": {"userName": "bob"}}
    yield GROUP, "pcidevices", to_builtins(_device())
    yield GROUP, "vgpudevices", to_builtins(_vgpu())
    yield GROUP, "sriovgpudevices", to_builtins(_gpu())
    for resource in ("usbdevices", "sriovnetworkdevices", "nodes", "migconfigurations"):
        yield (
            GROUP,
            resource,
            {
                "metadata": {"name": "node1", "labels": labels},
                "spec": {"nodeName": "node1", "address": "0000:01:00.0", "numVFs": 3},
                "status": {"nodeName": "node1", "status": "synced", "enabled": True},
            },
        )
    layout = {"metadata": {"name": "l"}, "spec": {"gpus": [{"count": 1, "vgpus": [{"count": 2}]}]}}
    yield GROUP, "vgpulayouts", layout
    device = {"name": "node1-000001000", "deviceName": "nvidia.com/A2"}
    vm = make_vm("vm", device)
    yield "kubevirt.io", "virtualmachines", vm
    yield "kubevirt.io", "virtualmachineinstances", vm | {"spec": vm["spec"]["template"]["spec"]}
    yield "kubevirt.io", "virtualmachineinstancereplicasets", vm
    pool = {"replicas": 3, "virtualMachineTemplate": vm, "selector": {"matchLabels": {"a": "b"}}}
    yield "pool.kubevirt.io", "virtualmachinepools", vm | {"spec": pool}
    devices = [{"deviceId": 7864, "vendorId": 4318}, {"vGPUProfile": "grid_t4-16q"}]
    spec = {"template": "ubuntu", "pciDevices": devices, "vgpudevices": [{"profileName": "a"}]}
    clustered = {"metadata": {"name": "m", "namespace": "default"}, "spec": spec}
    infrastructure = "infrastructure.cluster.x-k8s.io"
    yield infrastructure, "vspheremachines", clustered
    yield infrastructure, "vspherevms", clustered
    template = {"template": {"spec": spec}}
    yield infrastructure, "vspheremachinetemplates", clustered | {"spec": template}
    machine = {"virtualMachineTemplate": {"spec": vm["spec"]}}
    template = {"template": {"spec": machine}}
    yield infrastructure, "kubevirtmachinetemplates", clustered | {"spec": template}
    ref = {"apiGroup": infrastructure, "kind": "VSphereMachineTemplate", "name": "m"}
    vms = {"replicas": 3, "template": {"spec": {"infrastructureRef": ref}}}
    for resource in ("machinedeployments", "machinesets"):
        yield "cluster.x-k8s.io", resource, clustered | {"spec": vms}
    control = {"replicas": 3, "machineTemplate": {"spec": {"infrastructureRef": ref}}}
    group, resource = "controlplane.cluster.x-k8s.io", "kubeadmcontrolplanes"
    yield group, resource, clustered | {"spec": control}


def _device() -> PCIDevice:
    return PCIDevice(
        metadata=ObjectMeta(name="node1-000001000", labels={"nodename": "node1"}),
        status=PCIDeviceStatus(
            address="0000:01:00.0",
            node_name="node1",
            resource_name="nvidia.com/A2",
            iommu_group="7",
        ),
    )


def _vgpu() -> VGPUDevice:
    return VGPUDevice(
        metadata=ObjectMeta(name="node1-000001004"),
        spec=VGPUDeviceSpec(
            node_name="node1",
            address="0000:01:00.4",
            parent_gpu_device_address="0000:01:00.0",
            enabled=True,
            vgpu_type_name="NVIDIA A2-4Q",
        ),
        status=VGPUDeviceStatus(available_types={"NVIDIA A2-4Q": "745"}),
    )


def _gpu() -> SRIOVGPUDevice:
    return SRIOVGPUDevice(
        metadata=ObjectMeta(name="node1-000001000"),
        spec=SRIOVGPUDeviceSpec(node_name="node1", address="0000:01:00.0", enabled=True),
    )


def known_world(*, trusted: frozenset[str] = frozenset()) -> World:
    """A world with one node that has a GPU, claimed by its user."""
    stores: dict[str, Any] = {name: Store(indexers) for name, indexers in INDEXERS.items()}
    world = World(**stores, trusted=trusted)
    world.nodes.put(CoreNode(metadata=ObjectMeta(name="node1")))
    world.pci_devices.put(_device())
    world.vgpus.put(_vgpu())
    world.gpus.put(_gpu())
    spec = PCIDeviceClaimSpec(node_name="node1", address="0000:01:00.0", user_name="anna")
    world.claims.put(PCIDeviceClaim(metadata=ObjectMeta(name="node1-000001000"), spec=spec))
    return world


def odd_bodies() -> Iterator[tuple[str, bytes]]:
    """What no API server would send, by what is odd about it."""
    yield "empty", b""
    yield "not JSON", b"{"
    yield "bad UTF-8", b'{"apiVersion": "\xff\xfe"}'
    yield "null", b"null"
    yield "number", b"7"
    yield "list", b"[]"
    yield "nothing in it", b"{}"
    yield "deep", b"[" * 200_000
    yield "deep objects", b'{"request":' * 100_000 + b"1" + b"}" * 100_000
    yield "NUL", b"\x00" * 100
    yield "huge number", b'{"apiVersion": ' + b"9" * 100_000 + b"}"
