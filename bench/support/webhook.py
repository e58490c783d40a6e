"""Process: a webhook that knows a cluster, composed as `laneway webhook` does it but for watches.

    python -m support.webhook DIRECTORY NODES GPUS MACHINES

Every node has so many GPUs of 16 vGPUs each; the machines have one to three of them, and some wait.
Says on which port it serves, with the certificate in DIRECTORY/pki, and which vGPUs are free. Then
tells at every line what it has used.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from collections import defaultdict
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry

from kapilite.credentials.pki import ensure
from laneway.admission.indexes import INDEXERS
from laneway.admission.light import PCI_DEVICES, VGPUS
from laneway.admission.node_costs import NodeCosts
from laneway.admission.world import World
from laneway.api import CoreNode, ObjectMeta
from laneway.controllers.ledger import demands, devices
from laneway.core import names
from laneway.core.ledger.build import LABEL_HOSTNAME, build
from laneway.core.ledger.facts import Facts, NodeFact
from laneway.core.ledger.ledger import Ledger
from laneway.core.pci import PciAddress
from laneway.kube.client import Client
from laneway.kube.cluster import Cluster, ClusterConfig
from laneway.kube.kubevirt import VIRTUAL_MACHINES
from laneway.kube.store import Store
from laneway.roles.webhook import Webhook
from support.children import orders, say
from support.memory import resident

PROFILES = ("NVIDIA A2-1Q", "NVIDIA A2-2Q", "NVIDIA A2-4Q")
VGPUS_OF_A_GPU = 16

Free = dict[str, list[str]]
"""Names of free vGPUs, by node and resource."""


def world(
    nodes: int, gpus: int, machines: int, costs: NodeCosts | None = None
) -> tuple[World, Free]:
    luck = random.Random(7)
    stores: dict[str, Any] = {name: Store(indexers) for name, indexers in INDEXERS.items()}
    free: Free = defaultdict(list)
    for number in range(nodes):
        node = f"node-{number:04d}"
        stores["nodes"].put(CoreNode(metadata=ObjectMeta(name=node, labels={LABEL_HOSTNAME: node})))
        for gpu in range(gpus):
            for vf in range(VGPUS_OF_A_GPU):
                address = PciAddress(0, gpu + 1, vf // 8, vf % 8)
                profile = PROFILES[gpu % len(PROFILES)]
                resource = names.vgpu_resource_name(profile)
                name = names.pci_object_name(node, address)
                stores["pci_devices"].put(PCI_DEVICES.decode(_function(node, name, address)))
                stores["vgpus"].put(VGPUS.decode(_vgpu(node, name, address, profile)))
                free[f"{node} {resource}"].append(name)
    places = sorted(free)
    for number in range(machines):
        place = luck.choice(places)
        taken, free[place] = free[place][:2], free[place][2:]
        vm = machine(f"vm-{number:05d}", place.partition(" ")[2], taken)
        stores["vms"].put(VIRTUAL_MACHINES.decode(msgspec.json.encode(vm)))
    return World(**stores, ledger=_once(stores), node_costs=(costs or NodeCosts()).of), free


def _once(stores: dict[str, Any]) -> Any:
    asking = tuple(demands.of_vms(stores["vms"], (), ()))
    reported = tuple(fact for vgpu in stores["vgpus"] if (fact := devices.of_vgpu(vgpu)))
    facts = tuple(NodeFact(one.metadata.name, one.metadata.labels) for one in stores["nodes"])
    ledger = build(Facts(reported, asking, facts))

    def known() -> Ledger:
        return ledger

    return known


def machine(name: str, resource: str, taken: list[str]) -> dict[str, Any]:
    """A machine that requests these vGPUs."""
    gpus = [{"name": one, "deviceName": resource} for one in taken]
    domain = {
        "cpu": {"cores": 8},
        "memory": {"guest": "16Gi"},
        "devices": {"gpus": gpus, "disks": [{"name": f"disk-{n}"} for n in range(4)]},
    }
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "bench"}},
        "spec": {"runStrategy": "Always", "template": {"spec": {"domain": domain}}},
    }


def pod(name: str, resource: str) -> dict[str, Any]:
    """A pod that requests a vGPU."""
    container = {"name": "compute", "resources": {"limits": {resource: "1"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [container]},
    }


def _function(node: str, name: str, address: PciAddress) -> bytes:
    status = {
        "address": str(address),
        "nodeName": node,
        "resourceName": "nvidia.com/GA107GL_A2__A16",
        "vendorId": "10de",
        "deviceId": "25b6",
        "classId": "0302",
        "iommuGroup": str(address.bus * 16 + address.function),
        "kernelDriverInUse": "nvidia",
        "description": "3D controller: NVIDIA Corporation GA107GL [A2 / A16]",
    }
    return msgspec.json.encode({"metadata": {"name": name, "uid": name}, "status": status})


def _vgpu(node: str, name: str, address: PciAddress, profile: str) -> bytes:
    parent = str(PciAddress(0, address.bus, 0, 0))
    spec = {
        "address": str(address),
        "nodeName": node,
        "parentGPUDeviceAddress": parent,
        "enabled": True,
        "vGPUTypeName": profile,
    }
    status = {
        "framework": "mdev",
        "configureVGPUTypeName": profile,
        "resourceName": names.vgpu_resource_name(profile),
        "vGPUStatus": "vGPUConfigured",
        "availableTypes": {one: str(700 + n) for n, one in enumerate(PROFILES)},
        "conditions": [
            {"type": kind, "status": "True", "reason": "Available"}
            for kind in ("Ready", "Advertised")
        ],
    }
    meta = {"name": name, "uid": name}
    return msgspec.json.encode({"metadata": meta, "spec": spec, "status": status})


class Known:
    """Caches that are complete."""

    def __init__(self, known: World) -> None:
        self.world = known

    def waiting_for(self) -> list[str]:
        return []

    async def run(self) -> None:
        await asyncio.Event().wait()


async def run(directory: str, nodes: str, gpus: str, machines: str) -> None:
    pki = ensure(os.path.join(directory, "pki"))
    bare = resident()
    known, free = world(int(nodes), int(gpus), int(machines))
    async with Client(ClusterConfig(Cluster("http://127.0.0.1:1"))) as client:
        webhook = Webhook(
            client,
            CollectorRegistry(),
            Known(known),
            cert_file=pki.server_cert,
            key_file=pki.server_key,
            host="127.0.0.1",
            port=0,
            alone=True,
        )
        task = asyncio.create_task(webhook.run())
        await webhook.ready.wait()
        places = [place for place, found in free.items() if len(found) >= 4]
        # A part of them is enough to request, and fits into a line.
        chosen = random.Random(7).sample(places, min(len(places), 100))
        lists = {place: free[place][:8] for place in chosen}
        say({"port": webhook.port, "free": lists, "bare": bare, "vgpus": len(known.vgpus)})
        async for _ in orders():
            say({"cpu": time.process_time(), "memory": resident()})
        task.cancel()


if __name__ == "__main__":
    asyncio.run(run(*sys.argv[1:]))
