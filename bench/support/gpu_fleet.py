"""The objects of a fleet of GPUs, written into the database of an API server before it starts.

1,000 nodes with eight GPUs of sixteen vGPUs each are 137,000 objects, which would take minutes to
create by requests. They are as agents write them, with conditions and lists of profiles.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

from kapilite.storage.events import Key
from kapilite.storage.store import Store

API = "devices.harvesterhci.io"
TIME = "2026-01-01T00:00:00Z"
PROFILES = {
    f"NVIDIA A2-{size}{series}": str(700 + size) for size in (1, 2, 4, 8, 16) for series in "QCB"
}
FUNCTIONS = 16

Object = dict[str, Any]


def fill(store: Store, nodes: int, gpus: int) -> int:
    """Store the fleet; gives how many objects that are."""
    return _store(store, objects(nodes, gpus))


def claim(store: Store, nodes: int, gpus: int) -> int:
    """Store a claim for every function of the fleet, as for vGPUs that VMs can have."""
    return _store(store, _claims(nodes, gpus))


def _store(store: Store, found: Iterable[tuple[str, Object]]) -> int:
    count = 0
    with store.transaction():
        for resource, obj in found:
            obj["metadata"] |= {
                "uid": str(uuid.uuid4()),
                "creationTimestamp": TIME,
                "generation": 1,
            }
            store.commit("ADDED", Key(resource, "", obj["metadata"]["name"]), obj, None)
            count += 1
    return count


def vgpu_name(node: int, gpu: int, function: int) -> str:
    return f"node{node:04d}-0000{gpu + 1:02x}00{function:x}"


def objects(nodes: int, gpus: int) -> Iterator[tuple[str, Object]]:
    """Each with the resource that it is stored under."""
    for node in range(nodes):
        name = f"node{node:04d}"
        yield "nodes", _node(name)
        yield f"nodes.{API}", device("Node", name, name, {}, {})
        for gpu in range(gpus):
            address = f"0000:{gpu + 1:02x}:00.0"
            names = [vgpu_name(node, gpu, function) for function in range(FUNCTIONS)]
            addresses = [f"0000:{gpu + 1:02x}:01.{n:x}" for n in range(FUNCTIONS)]
            own = f"{name}-0000{gpu + 1:02x}000"
            yield (
                f"sriovgpudevices.{API}",
                device(
                    "SRIOVGPUDevice",
                    own,
                    name,
                    {"address": address, "nodeName": name, "enabled": True},
                    {
                        "vfAddresses": addresses,
                        "vGPUDevices": names,
                        "mode": "SameSize",
                        "fits": dict.fromkeys(PROFILES, 3),
                    },
                ),
            )
            yield f"pcidevices.{API}", device("PCIDevice", own, name, {}, card(name, address))
            for vgpu, at in zip(names, addresses, strict=True):
                yield (
                    f"vgpudevices.{API}",
                    device(
                        "VGPUDevice",
                        vgpu,
                        name,
                        {
                            "address": at,
                            "nodeName": name,
                            "parentGPUDeviceAddress": address,
                            "enabled": False,
                        },
                        {"availableTypes": PROFILES, "framework": "vendor-vfio"},
                    ),
                )


def _claims(nodes: int, gpus: int) -> Iterator[tuple[str, Object]]:
    for node, gpu, function in itertools.product(range(nodes), range(gpus), range(FUNCTIONS)):
        name, on = vgpu_name(node, gpu, function), f"node{node:04d}"
        spec = {
            "address": f"0000:{gpu + 1:02x}:01.{function:x}",
            "nodeName": on,
            "userName": "admin",
        }
        status = {"passthroughEnabled": True, "resourceName": "nvidia.com/NVIDIA_A2-2Q"}
        found = device("PCIDeviceClaim", name, on, spec, status)
        del found["metadata"]["labels"]  # claims have none of their node
        yield f"pcideviceclaims.{API}", found


def _node(name: str) -> Object:
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "lastTransitionTime": TIME,
    }
    info = {"kernelVersion": "6.12.9", "osImage": "Debian 12", "kubeletVersion": "v1.34.1"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "spec": {},
        "status": {"conditions": [ready], "nodeInfo": info},
    }


def device(kind: str, name: str, node: str, spec: Object, status: Object) -> Object:
    """An object as its agent writes it."""
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "Disabled" if kind == "VGPUDevice" else "Enabled",
        "observedGeneration": 1,
        "lastTransitionTime": TIME,
        "message": "",
    }
    found: Object = {
        "apiVersion": f"{API}/v1beta1",
        "kind": kind,
        "metadata": {"name": name, "labels": {"nodename": node}},
        "status": {"conditions": [ready], "observedGeneration": 1, **status},
    }
    return {**found, "spec": spec} if spec else found


def card(node: str, address: str) -> Object:
    """What is seen of a GPU."""
    return {
        "address": address,
        "nodeName": node,
        "vendorId": "10de",
        "deviceId": "25b6",
        "classId": "0302",
        "description": "3D controller: NVIDIA Corporation GA107GL [A2 / A16]",
        "resourceName": "nvidia.com/GA107GL_A2",
        "iommuGroup": "42",
        "kernelDriverInUse": "nvidia",
    }
