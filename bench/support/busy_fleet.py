"""A fleet that is in use, written into the database of an API server before it starts.

Every node has so many GPUs of sixteen vGPUs each, all of them configured: every second node has
GPUs with mediated devices, the others have GPUs of the vendor's VFIO framework, whose vGPUs have
claims. VMs request one to three vGPUs; of ten, seven run, on nodes and with devices that are
recorded as agents and KubeVirt do it, and the others are stopped and keep theirs. Nodes have ten
pods each that request nothing. The objects are as long as those of a cluster, `managedFields`
included, for that is what a cache has to read and to leave out.
"""

from __future__ import annotations

import random
import uuid
from collections import defaultdict
from collections.abc import Iterator

from kapilite.storage.events import Key
from kapilite.storage.store import Store
from support import fleet_machines, fleet_objects, gpu_fleet
from support.fleet_objects import LABELLED, MDEV, POLICY, VFIO, Vgpu, Vm
from support.gpu_fleet import API, FUNCTIONS, TIME, Object

PROFILES = {
    MDEV: ("NVIDIA A2-1Q", "NVIDIA A2-2Q", "NVIDIA A2-4Q"),
    VFIO: ("NVIDIA L40S-1Q", "NVIDIA L40S-2Q", "NVIDIA L40S-4Q"),
}
PODS_OF_A_NODE = 10


class BusyFleet:
    """Who has what at the beginning."""

    def __init__(self, nodes: int, gpus: int, machines: int, luck: random.Random) -> None:
        self.nodes = [f"node{number:04d}" for number in range(nodes)]
        self._gpus = gpus
        self.vgpus: list[Vgpu] = []
        self.vms: list[Vm] = []
        self.free: dict[str, list[Vgpu]] = defaultdict(list)
        """By the node and the resource."""
        for number, node in enumerate(self.nodes):
            framework = VFIO if number % 2 else MDEV
            for gpu in range(gpus):
                profile = PROFILES[framework][gpu % 3]
                for function in range(FUNCTIONS):
                    one = Vgpu(
                        gpu_fleet.vgpu_name(number, gpu, function),
                        node,
                        f"0000:{gpu + 1:02x}:00.0",
                        f"0000:{gpu + 1:02x}:01.{function:x}",
                        framework,
                        profile,
                    )
                    self.vgpus.append(one)
                    self.free[f"{node} {one.resource}"].append(one)
        places = list(self.free)
        for number in range(machines):
            while len(free := self.free[luck.choice(places)]) < 3:
                pass
            taken = tuple(free.pop() for _ in range(luck.randint(1, 3)))
            self.vms.append(Vm(f"vm-{number:05d}", number % 10 < 7, taken))

    def fill(self, store: Store) -> int:
        """Store all objects, and nothing of how they came; gives how many they are."""
        count = 0
        with store.transaction():
            for resource, obj in self._objects():
                meta = obj["metadata"]
                meta.setdefault("uid", str(uuid.uuid4()))
                meta |= {"creationTimestamp": TIME, "generation": 1}
                meta["managedFields"] = fleet_objects.managed(obj)
                key = Key(resource, meta.get("namespace", ""), meta["name"])
                store.commit("ADDED", key, obj, None)
                count += 1
        while store.tidy():
            pass
        return count

    def _objects(self) -> Iterator[tuple[str, Object]]:
        owners = {one.name: vm for vm in self.vms if vm.runs for one in vm.vgpus}
        ours = {"nodes", f"vgpudevices.{API}"}
        for resource, obj in gpu_fleet.objects(len(self.nodes), self._gpus):
            if resource not in ours:
                yield resource, obj
        for node in self.nodes:
            yield "nodes", fleet_machines.node(node)
            yield f"hostpreparations.{API}", fleet_objects.preparation(node)
            for number in range(PODS_OF_A_NODE):
                yield "pods", fleet_machines.pod(f"service-{node}-{number}", node)
        for one in self.vgpus:
            yield f"vgpudevices.{API}", fleet_objects.vgpu(one, owners.get(one.name))
            yield f"pcidevices.{API}", fleet_objects.function(one)
            if one.framework == VFIO:
                yield f"pcideviceclaims.{API}", fleet_objects.claim(one, owners.get(one.name))
        for policy, label in ((POLICY, ""), (LABELLED, LABELLED)):
            yield f"hostpolicies.{API}", fleet_objects.policy(policy, label)
        for vm in self.vms:
            yield "virtualmachines.kubevirt.io", fleet_machines.virtual_machine(vm)
            if vm.runs:
                made = fleet_machines.instance(vm)
                yield "virtualmachineinstances.kubevirt.io", made
                yield "pods", fleet_machines.launcher(vm, made["metadata"]["uid"])
