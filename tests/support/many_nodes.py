"""Objects of 1,000 nodes with a GPU and eight vGPUs each.

Some have markup in all that takes a text.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from laneway.api import (
    CoreNode,
    DeviceNode,
    MigConfiguration,
    PCIDevice,
    PCIDeviceClaim,
    SRIOVGPUDevice,
    SRIOVNetworkDevice,
    USBDevice,
    USBDeviceClaim,
    VGPUDevice,
    VGPULayout,
)
from laneway.core import hardware_change, keys
from laneway.kube.client import Client
from laneway.kube.config import load
from laneway.kube.kubevirt import VIRTUAL_MACHINES
from laneway.kube.resource import Resource, served
from laneway.roles.install import install_crds, install_namespace
from laneway.simcluster import kubevirt
from laneway.simcluster.definitions import install_missing
from laneway.views.activity import EVENTS
from support.control_plane import until_served

NODES, EACH = 1000, 8
MARKUP = "<img src=x onerror=document.title='taken'>\"'><script>document.title='taken'</script>"
ODD = "odd"
_NODES = Resource("", "v1", "nodes", False, CoreNode, "Node")
_AT_ONCE = 16
_NAMESPACE = "default"

Object = dict[str, Any]


def node(number: int) -> str:
    return f"node{number:04d}"


def make(kubeconfig: Path) -> None:
    """Create all of them, in a thread, since the browser has the loop of this one."""
    with ThreadPoolExecutor(1) as threads:
        threads.submit(asyncio.run, _make(kubeconfig)).result()


async def _make(kubeconfig: Path) -> None:
    async with Client(load(str(kubeconfig))) as client:
        await install_crds(client)
        await install_missing(client, kubevirt.__name__)
        await install_namespace(client, _NAMESPACE)
        await until_served(client, VIRTUAL_MACHINES.path())
        waiting = iter([*_fleet(), *_odd_devices(), *_odd_others()])

        async def work() -> None:
            for resource, body, status in waiting:
                namespace = _NAMESPACE if resource.namespaced else ""
                await client.create(resource, body, namespace)
                if status:
                    name, change = body["metadata"]["name"], {"status": status}
                    await client.patch(resource, name, change, namespace, subresource="status")

        async with asyncio.TaskGroup() as tasks:
            for _ in range(_AT_ONCE):
                tasks.create_task(work())


def _fleet() -> Iterator[tuple[Resource[Any], Object, Object]]:
    vgpus, gpus = served(VGPUDevice), served(SRIOVGPUDevice)
    for number in range(NODES):
        name, gpu = node(number), "0000:02:00.0"
        yield _NODES, _object(_NODES, name, {}), {}
        spec = {"address": gpu, "nodeName": name, "enabled": number % 2 == 0}
        yield gpus, _object(gpus, f"{name}-000002000", spec, of=name), {}
        for at in range(EACH):
            address = f"0000:01:00.{at}"
            spec = {"address": address, "nodeName": name, "enabled": False}
            spec["parentGPUDeviceAddress"] = gpu
            yield vgpus, _object(vgpus, f"{name}-00000100{at}", spec, of=name), {}


def _odd_devices() -> Iterator[tuple[Resource[Any], Object, Object]]:
    place = {"address": "0000:0a:00.0", "nodeName": node(0)}
    named = {"description": MARKUP, "nodeName": node(0), "resourceName": MARKUP}
    profile = {"id": 9, "name": MARKUP}
    mig = {"gpuAddress": place["address"], "nodeName": node(0), "enabled": True}
    vgpu = {**place, "enabled": True, "vGPUTypeName": MARKUP}
    vgpu["parentGPUDeviceAddress"] = place["address"]
    types = {"availableTypes": {MARKUP: "1"}, "configureVGPUTypeName": MARKUP}
    for kind, spec, status in (
        (
            SRIOVGPUDevice,
            {**place, "enabled": True},
            {"mode": MARKUP, "fits": {MARKUP: 1}, "owner": MARKUP},
        ),
        (VGPUDevice, vgpu, {**types, "vGPUStatus": MARKUP, "owner": MARKUP}),
        (MigConfiguration, mig, {"message": MARKUP, "profileStatus": [profile]}),
        (PCIDevice, {}, {**named, "kernelDriverInUse": MARKUP, "critical": [MARKUP]}),
        (PCIDeviceClaim, {**place, "userName": MARKUP}, {"kernelDriverToUnbind": MARKUP}),
        (USBDevice, {}, {**named, "message": MARKUP, "status": MARKUP, "serial": MARKUP}),
        (USBDeviceClaim, {"userName": MARKUP}, {"serial": MARKUP, "nodeName": node(0)}),
        (SRIOVNetworkDevice, place, {"status": MARKUP}),
        (DeviceNode, {}, {}),
    ):
        resource = served(kind)
        name = node(0) if kind is DeviceNode else ODD
        yield resource, _object(resource, name, spec, of=node(0)), {**_NOT_READY, **status}


def _odd_others() -> Iterator[tuple[Resource[Any], Object, Object]]:
    layouts = served(VGPULayout)
    layout = {"gpuSelector": {"names": [ODD]}, "vgpus": [{"profile": MARKUP, "count": 1}]}
    yield layouts, _object(layouts, ODD, layout), _NOT_READY
    gpus = [{"name": MARKUP, "deviceName": MARKUP}]
    template = {"spec": {"domain": {"devices": {"gpus": gpus}, "cpu": {"model": MARKUP}}}}
    vm = {"runStrategy": "Halted", "template": template}
    state = {"printableStatus": MARKUP, **_NOT_READY}
    yield VIRTUAL_MACHINES, _object(VIRTUAL_MACHINES, ODD, vm), state
    step = dict.fromkeys(("words", "outcome", "before", "after", "error"), MARKUP)
    change = {"plan": MARKUP, "outcome": MARKUP, "user": MARKUP, "why": MARKUP, "steps": [step]}
    involved = {"kind": "VGPUDevice", "name": ODD, "apiVersion": MARKUP}
    annotations = {keys.ANNOTATION_HARDWARE_CHANGE: json.dumps(change)}
    for name, reason in (("odd", MARKUP), ("odd-write", hardware_change.REASON)):
        yield (
            EVENTS,
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"name": name, "annotations": annotations},
                "type": "Warning",
                "reason": reason,
                "message": MARKUP,
                "involvedObject": involved,
                "lastTimestamp": "2026-01-01T00:00:00Z",
            },
            {},
        )


_NOT_READY = {
    "conditions": [
        {
            "type": "Ready",
            "status": "False",
            "reason": "Failed",
            "message": MARKUP,
            "observedGeneration": 1,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
    ]
}


def _object(resource: Resource[Any], name: str, spec: Object, of: str = "") -> Object:
    metadata: Object = {"name": name, "annotations": {"note": MARKUP}}
    if of:
        metadata["labels"] = {"nodename": of}
    head = {"apiVersion": resource.api_version, "kind": resource.kind}
    return {**head, "metadata": metadata, **({"spec": spec} if spec else {})}
