"""Objects of 1,000 nodes with eight vGPUs each, and some with markup in all that takes a text."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from laneway.api import PCIDevice, SRIOVGPUDevice, SRIOVNetworkDevice, USBDevice, VGPUDevice
from laneway.kube.client import Client
from laneway.kube.config import load
from laneway.kube.resource import Resource, served
from laneway.roles.install import install_crds

NODES, EACH = 1000, 8
MARKUP = "<img src=x onerror=document.title='taken'>\"'><script>document.title='taken'</script>"
_NODES = Resource("", "v1", "nodes", False, PCIDevice)
_AT_ONCE = 16

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
        waiting = iter([*_fleet(), *_odd()])

        async def work() -> None:
            for resource, body, status in waiting:
                await client.create(resource, body)
                if status:
                    name = body["metadata"]["name"]
                    await client.patch(resource, name, {"status": status}, subresource="status")

        async with asyncio.TaskGroup() as tasks:
            for _ in range(_AT_ONCE):
                tasks.create_task(work())


def _fleet() -> Iterator[tuple[Resource[Any], Object, Object]]:
    vgpus = served(VGPUDevice)
    for number in range(NODES):
        name = node(number)
        yield _NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}, {}
        for at in range(EACH):
            address = f"0000:01:00.{at}"
            spec = {"address": address, "nodeName": name, "enabled": False}
            yield vgpus, _device(vgpus, f"{name}-00000100{at}", name, spec), {}


def _odd() -> Iterator[tuple[Resource[Any], Object, Object]]:
    condition = {
        "type": "Ready",
        "status": "False",
        "reason": "Failed",
        "message": MARKUP,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    ready = {"conditions": [condition]}
    spec = {"address": "0000:0a:00.0", "nodeName": node(0), "enabled": True}
    for kind, own, status in (
        (SRIOVGPUDevice, spec, {"mode": MARKUP}),
        (VGPUDevice, spec, {"configureVGPUTypeName": MARKUP, "vGPUStatus": MARKUP}),
        (PCIDevice, {}, {"description": MARKUP, "nodeName": node(0), "resourceName": MARKUP}),
        (USBDevice, {}, {"description": MARKUP, "nodeName": node(0), "resourceName": MARKUP}),
        (SRIOVNetworkDevice, {"address": spec["address"], "nodeName": node(0)}, {}),
    ):
        resource = served(kind)
        yield resource, _device(resource, "odd", node(0), own), {**ready, **status}


def _device(resource: Resource[Any], name: str, of: str, spec: Object) -> Object:
    metadata = {"name": name, "labels": {"nodename": of}, "annotations": {"note": MARKUP}}
    head = {"apiVersion": resource.api_version, "kind": resource.kind}
    return {**head, "metadata": metadata, **({"spec": spec} if spec else {})}
