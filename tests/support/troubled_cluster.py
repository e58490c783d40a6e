"""A small cluster of made objects in which much is not as it should be, and nothing acts on it.

Three nodes: `n1` has a GPU with four vGPUs and an agent; `n2` is not ready; `n3` is cordoned.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from laneway.api import (
    CoreNode,
    DeviceNode,
    MigConfiguration,
    PCIDevice,
    SRIOVGPUDevice,
    VGPUDevice,
)
from laneway.controllers.doctor.objects import DAEMON_SETS
from laneway.controllers.ledger.objects import PODS
from laneway.kube.client import Client
from laneway.kube.config import load
from laneway.kube.kubevirt import VIRTUAL_MACHINES
from laneway.kube.resource import Resource, served
from laneway.roles.install import install_crds, install_namespace
from laneway.simcluster import kubevirt
from laneway.simcluster.definitions import install_missing
from support.control_plane import until_served

RESOURCE, PROFILE = "nvidia.com/NVIDIA_A2-4Q", "NVIDIA A2-4Q"
GPU, ADDRESS = "n1-000001000", "0000:01:00.0"
VGPUS = [f"n1-00000100{number}" for number in range(1, 5)]
AGENT = "laneway-agent-x7k2p"
NODES = Resource("", "v1", "nodes", False, CoreNode, "Node")
TEAMS = ("team", "other")

Object = dict[str, Any]
Made = tuple[Resource[Any], Object, Object, str]


def fill(kubeconfig: Path) -> None:
    """Make all of it."""
    asyncio.run(_fill(kubeconfig))


async def _fill(kubeconfig: Path) -> None:
    async with Client(load(str(kubeconfig))) as client:
        await make(client)


async def make(client: Client) -> None:
    """The same with a client."""
    await install_crds(client)
    await install_missing(client, kubevirt.__name__)
    for namespace in (*TEAMS, "harvester-system"):
        await install_namespace(client, namespace)
    await until_served(client, VIRTUAL_MACHINES.path())
    owner = await client.create(DAEMON_SETS, _daemon_set(), "harvester-system")
    agent = _agent(owner.metadata.uid)
    for resource, body, status, namespace in (agent, *_nodes(), *_devices(), *_users()):
        await client.create(resource, body, namespace)
        name, change = body["metadata"]["name"], {"status": status}
        await client.patch(resource, name, change, namespace, subresource="status")


def condition(kind: str, status: str, reason: str, message: str = "", minute: int = 0) -> Object:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": 1,
        "lastTransitionTime": f"2026-01-01T00:{minute:02}:00Z",
    }


def _nodes() -> Iterator[Made]:
    info = {"kernelVersion": "6.12.1-amd64", "osImage": "Debian 13", "kubeletVersion": "v1.36.0"}
    away = condition("Ready", "False", "KubeletStopped", "the kubelet stopped")
    for name, ready, spec in (
        ("n1", condition("Ready", "True", "KubeletReady"), {}),
        ("n2", away, {}),
        ("n3", condition("Ready", "True", "KubeletReady"), {"unschedulable": True}),
    ):
        del ready["observedGeneration"]  # Not a field of these.
        yield _made(NODES, name, spec, {"conditions": [ready], "nodeInfo": info})
    observed = {"conditions": [condition("Ready", "True", "Observed")]}
    yield _made(served(DeviceNode), "n1", {}, observed)


def _daemon_set() -> Object:
    selector = {"matchLabels": _LABELS}
    template = {"metadata": {"labels": _LABELS}, "spec": _POD}
    return _made(DAEMON_SETS, "laneway-agent", {"selector": selector, "template": template}, {})[1]


def _agent(owner: str) -> Made:
    resource, body, _, _ = _made(PODS, AGENT, _POD | {"nodeName": "n1"}, {})
    named = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "laneway-agent", "uid": owner}
    body["metadata"] |= {"labels": _LABELS, "ownerReferences": [named]}
    ready = {"type": "Ready", "status": "True"}
    return resource, body, {"phase": "Running", "conditions": [ready]}, "harvester-system"


_LABELS = {"app.kubernetes.io/name": "laneway", "app.kubernetes.io/component": "agent"}
_POD = {"containers": [{"name": "agent", "image": "laneway"}]}


def _devices() -> Iterator[Made]:
    place = {"nodeName": "n1", "address": ADDRESS}
    enabled = condition("Ready", "True", "Enabled", "The GPU has 4 virtual functions.", 1)
    fits = {PROFILE: 2, "NVIDIA A2-8Q": 1}
    status = {"conditions": [enabled], "mode": "SameSize", "fits": fits}
    yield _made(served(SRIOVGPUDevice), GPU, place | {"enabled": True}, status)
    claimable = [condition("Ready", "True", "Observed"), condition("Claimable", "True", "Free")]
    card = {"address": ADDRESS, "nodeName": "n1", "iommuGroup": "17", "claimable": True}
    card |= {"description": "3D controller: NVIDIA A2", "kernelDriverInUse": "nvidia"}
    yield _made(served(PCIDevice), GPU, {}, card | {"conditions": claimable})
    for number, name in enumerate(VGPUS):
        yield _made(served(VGPUDevice), name, *_vgpu(number))
    failed = condition("Ready", "False", "WriteFailed", "The kernel refused numvfs.", 5)
    spec = {"nodeName": "n3", "address": ADDRESS, "enabled": True}
    yield _made(served(SRIOVGPUDevice), "n3-000001000", spec, {"conditions": [failed]})
    apart = {"status": "out-of-sync", "message": "There is one 1g.5gb too many."}
    apart |= {"conditions": [condition("Ready", "True", "Synced", minute=2)]}
    mig = {"nodeName": "n1", "gpuAddress": ADDRESS, "enabled": True}
    yield _made(served(MigConfiguration), GPU, mig, apart)


def _vgpu(number: int) -> tuple[Object, Object]:
    address = f"0000:01:00.{number + 1}"
    spec = {"nodeName": "n1", "address": address, "parentGPUDeviceAddress": ADDRESS}
    healthy = number != 3
    advertised = condition("Advertised", str(healthy), "Advertised", "The card is gone.", 3)
    status: Object = {
        "vGPUStatus": "vGPUConfigured",
        "configureVGPUTypeName": PROFILE,
        "resourceName": RESOURCE,
        "framework": "mdev",
        "conditions": [condition("Ready", "True", "Configured", minute=4), advertised],
    }
    if number == 0:
        has = {"namespace": "other", "pod": "virt-launcher-secret", "virtualMachine": "secret"}
        status["allocation"] = has
    return spec | {"enabled": True, "vGPUTypeName": PROFILE}, status


def _users() -> Iterator[Made]:
    """Of four vGPUs one is held, one wanted, one reserved; what requests two more waits."""
    for namespace, name, strategy, count in (
        ("other", "secret", "Always", 1),
        ("team", "ann", "Always", 1),
        ("team", "big", "Always", 3),
        ("other", "kept", "Halted", 1),
    ):
        asked = [{"name": f"d{number}", "deviceName": RESOURCE} for number in range(count)]
        devices = {"hostDevices": asked}
        template = {"spec": {"domain": {"devices": devices}}}
        spec = {"runStrategy": strategy, "template": template}
        resource, body, status, _ = _made(VIRTUAL_MACHINES, name, spec, {})
        yield resource, body, status, namespace


def _made(
    resource: Resource[Any], name: str, spec: Mapping[str, Any], status: Mapping[str, Any]
) -> Made:
    head = {"apiVersion": resource.api_version, "kind": resource.kind or "Pod"}
    return resource, {**head, "metadata": {"name": name}, "spec": dict(spec)}, dict(status), ""
