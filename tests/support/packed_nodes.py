"""Nodes whose vGPUs come and go in mixed-size mode: the parts of the roles that decide where.

vGPUs stay when they are returned, until their room is needed for others. So a VM gets one that is
free: the webhook says which nodes it is to prefer, the scheduler chooses one, and the device plugin
chooses the vGPU. Only where none is free is one made, on the GPU that the policy chooses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from kapilite.patches import patch
from kubebasics import quantity
from laneway.admission import pods, review
from laneway.admission.indexes import INDEXERS
from laneway.admission.node_costs import NodeCosts
from laneway.admission.world import World
from laneway.api import (
    VGPU_CONFIGURED,
    Allocation,
    Condition,
    ObjectMeta,
    PCIDevice,
    PCIDeviceStatus,
    SRIOVGPUDevice,
    SRIOVGPUDeviceSpec,
    SRIOVGPUDeviceStatus,
    VGPUDevice,
    VGPUDeviceSpec,
    VGPUDeviceStatus,
)
from laneway.controllers.ledger import devices
from laneway.core.device_plugin.device_list import DesiredDevices, offers
from laneway.core.device_plugin.preference import prefer
from laneway.core.gpu.modes import GpuModes, Mode
from laneway.core.inventory import ConfiguredVgpu, Inventory, VgpuFunction, VgpuType
from laneway.core.ledger.facts import NodeFact
from laneway.core.ledger.upkeep import Changes, Upkeep
from laneway.core.names import pci_object_name, vgpu_resource_name
from laneway.core.packing.policy import Choice, aware, choose
from laneway.core.packing.room import Room, bits_of, board_of, spots
from laneway.core.pci import NVIDIA, PciAddress, PciFunction
from laneway.core.vgpu.card import card_of
from laneway.core.vgpu.making_order import Wanted, making_order
from laneway.kube.store import Store
from laneway.simcluster.objects import NODES, PLACED_PODS, requested
from laneway.simcluster.scheduler import choose as schedule
from support.reviewing import review as question

L40S = "26b9"
BOARD = board_of(card_of(L40S), mixed=True)
MODES = GpuModes(mixed_size=True)
OFFERED = tuple(VgpuType(str(at), kind.name) for at, kind in enumerate(BOARD.kinds))
RESOURCES = tuple(vgpu_resource_name(kind.name) for kind in BOARD.kinds)


def gpu(number: int) -> PciFunction:
    address = PciAddress(0, 8 + number, 0, 0)
    return PciFunction(address=address, vendor=NVIDIA, device=L40S, class_code="030200")


def with_vgpu(room: Room, size: int, start: int) -> Room:
    """The room of a GPU once a vGPU is there."""
    return next(spot.after for spot in spots(BOARD, room, size) if spot.start == start)


class Node:
    """The GPUs of one node, and its device plugin."""

    def __init__(self, count: int, name: str = "node1") -> None:
        self.name = name
        self.gpus = [gpu(number) for number in range(count)]
        self.vgpus: list[dict[int, int]] = [{} for _ in self.gpus]
        """Of each GPU, by first slot: the size."""

    def function(self, number: int, start: int) -> VgpuFunction:
        size = self.vgpus[number].get(start)
        kind = None if size is None else OFFERED[size]
        return VgpuFunction(
            address=self.address(number, start),
            parent=self.gpus[number].address,
            framework="mdev",
            supported=OFFERED,
            creatable=() if kind else OFFERED,
            configured=kind
            and ConfiguredVgpu(kind.id, kind.name, f"{number}/{start}", placement=start),
        )

    def address(self, number: int, start: int) -> PciAddress:
        return PciAddress(0, self.gpus[number].address.bus, 1 + start // 8, start % 8)

    def free(self, rooms: Sequence[Room], size: int) -> list[str]:
        """Those that exist and are not in use, as the device plugin calls them."""
        kind = BOARD.kinds[size]
        return [
            f"{number}/{start}"
            for number, vgpus in enumerate(self.vgpus)
            for start, there in vgpus.items()
            if there == size and not bits_of(kind, start) & rooms[number].used
        ]

    def preferred(self, rooms: Sequence[Room], size: int) -> Choice | None:
        """The free vGPU that the kubelet prefers."""
        free = self.free(rooms, size)
        if not free:
            return None
        carrying = [
            self.function(number, start)
            for number, vgpus in enumerate(self.vgpus)
            for start in vgpus
        ]
        found = offers(
            Inventory(
                functions=tuple(self.gpus),
                vgpus=tuple(carrying),
                modes={one.address: MODES for one in self.gpus},
            ),
            self.name,
            DesiredDevices(
                profiles={
                    one.address: one.configured.type_name for one in carrying if one.configured
                }
            ),
        )
        offered = {one.id: one for one in found.offered if one.resource == RESOURCES[size]}
        number, start = map(int, prefer(offered, free, [], 1)[0].split("/"))
        return Choice(number, start, with_vgpu(rooms[number], size, start))

    def take(self, rooms: Sequence[Room], size: int) -> Choice | None:
        """A vGPU that the kubelet prefers, or else one that is made where the free ones leave."""
        if (found := self.preferred(rooms, size)) is not None:
            return found
        choice = choose(BOARD, rooms, size, aware, lowest=True)
        if choice is not None:
            self.make(choice, rooms[choice.gpu], size)
        return choice

    def make(self, choice: Choice, room: Room, size: int) -> None:
        vgpus = self.vgpus[choice.gpu]
        for start in [*vgpus]:
            if not bits_of(BOARD.kinds[vgpus[start]], start) & room.used:
                del vgpus[start]
        functions = [self.function(choice.gpu, start) for start in range(BOARD.region)]
        free = next(one for one in functions if one.configured is None)
        wanted = Wanted(free.address, BOARD.kinds[size].name)
        assert making_order(self.gpus[choice.gpu], functions, MODES, [wanted]) == (wanted,)
        start = next(spots(BOARD, room, size)).start
        assert start is not None
        vgpus[start] = size


class PackedCluster:
    """Several such nodes, with a webhook and a scheduler."""

    def __init__(self, nodes: int, gpus: int, *, hints: bool = True) -> None:
        self.each = gpus
        self.nodes = [Node(gpus, f"n{number}") for number in range(nodes)]
        self.upkeep, self.costs = Upkeep(), NodeCosts()
        stores: dict[str, Any] = {name: Store(indexers) for name, indexers in INDEXERS.items()}
        self.world = World(
            **stores,
            ledger=lambda: self.upkeep.ledger,
            node_costs=self.costs.of if hints else None,
        )
        facts = {node.name: NodeFact(node.name) for node in self.nodes}
        self.upkeep.apply(Changes(nodes={**facts}))
        self._known: dict[str, tuple[int, bool]] = {}
        """By name of the VGPUDevice: its size, and whether it is in use."""
        for node in self.nodes:
            for one in node.gpus:
                name = pci_object_name(node.name, one.address)
                self.world.pci_devices.put(
                    PCIDevice(
                        metadata=ObjectMeta(name=name),
                        status=PCIDeviceStatus(node_name=node.name, device_id=L40S),
                    )
                )
                self.world.gpus.put(
                    SRIOVGPUDevice(
                        metadata=ObjectMeta(name=name),
                        spec=SRIOVGPUDeviceSpec(node_name=node.name, address=str(one.address)),
                        status=SRIOVGPUDeviceStatus(mode=Mode.MIXED_SIZE),
                    )
                )

    def _rooms(self, number: int, rooms: Sequence[Room]) -> Sequence[Room]:
        return rooms[number * self.each : (number + 1) * self.each]

    def tell(self, rooms: Sequence[Room]) -> None:
        """Have objects and ledger say what is there, and what of it is in use."""
        now: dict[str, tuple[int, bool]] = {}
        changed: dict[Any, Any] = {}
        for number, node in enumerate(self.nodes):
            of_node = self._rooms(number, rooms)
            for at, vgpus in enumerate(node.vgpus):
                for start, size in vgpus.items():
                    used = bool(bits_of(BOARD.kinds[size], start) & of_node[at].used)
                    name = pci_object_name(node.name, node.address(at, start))
                    now[name] = size, used
                    if self._known.get(name) != (size, used):
                        vgpu = self._object(node, at, start, size, used=used)
                        self.costs.changed(self.world.vgpus.put(vgpu), vgpu)
                        changed[name] = devices.of_vgpu(vgpu)
        for name in self._known.keys() - now.keys():
            found = self.world.vgpus.get(name)
            assert found is not None
            gone = msgspec.structs.replace(found, status=VGPUDeviceStatus())
            self.costs.changed(self.world.vgpus.put(gone), gone)
            changed[name] = None
        self._known = now
        self.upkeep.apply(Changes(devices=changed))

    def _object(self, node: Node, at: int, start: int, size: int, *, used: bool) -> VGPUDevice:
        address = node.address(at, start)
        name = pci_object_name(node.name, address)
        return VGPUDevice(
            metadata=ObjectMeta(name=name),
            spec=VGPUDeviceSpec(
                address=str(address),
                node_name=node.name,
                parent_gpu_device_address=str(node.gpus[at].address),
                enabled=True,
                vgpu_type_name=BOARD.kinds[size].name,
            ),
            status=VGPUDeviceStatus(
                vgpu_status=VGPU_CONFIGURED,
                configure_vgpu_type_name=BOARD.kinds[size].name,
                framework="mdev",
                placement=start,
                allocation=Allocation(namespace="team", pod=f"of-{name}") if used else None,
                conditions=[Condition(type="Advertised", status="True")],
            ),
        )

    def admitted(self, pod: dict[str, Any], user: str = "anna") -> dict[str, Any]:
        """A new pod as it is stored."""
        asked = question("pods", new=pod, group="")
        asked["request"] |= {"namespace": "team", "userInfo": {"username": user}}
        change = pods.mutate(review.read(msgspec.json.encode(asked)), self.world)
        return patch.apply(patch.JSON, pod, [dict(one) for one in change.operations])

    def scheduled(self, pod: dict[str, Any], rooms: Sequence[Room]) -> str:
        """The node that the scheduler chooses for it; empty: none. VMs have processors, too."""
        nodes, taken = [], {}
        for number, node in enumerate(self.nodes):
            of_node = self._rooms(number, rooms)
            there = Counter(RESOURCES[size] for vgpus in node.vgpus for size in vgpus.values())
            free = {name: len(node.free(of_node, at)) for at, name in enumerate(RESOURCES)}
            used = {name: (there[name] - free[name]) * quantity.NANO for name in there}
            share = sum(room.used.bit_count() for room in of_node) / BOARD.region / self.each
            busy = {"cpu": int(share * 60 * quantity.NANO), "pods": 0}
            taken[node.name] = {**used, **busy}
            allocatable = {**there, "cpu": "64", "pods": "110"}
            status = {
                "allocatable": {key: str(value) for key, value in allocatable.items()},
                "conditions": [{"type": "Ready", "status": "True"}],
            }
            body = {"metadata": {"name": node.name}, "status": status}
            nodes.append(NODES.decode(msgspec.json.encode(body)))
        placed = PLACED_PODS.decode(msgspec.json.encode(pod))
        assert requested(placed)
        return schedule(placed, nodes, taken)[0]

    def take(self, rooms: Sequence[Room], size: int) -> Choice | None:
        """Where a VM gets its vGPU."""
        self.tell(rooms)
        name = self.scheduled(self.admitted(launcher(size)), rooms)
        if name:
            number = next(at for at, node in enumerate(self.nodes) if node.name == name)
            found = self.nodes[number].preferred(self._rooms(number, rooms), size)
            assert found is not None
            return found._replace(gpu=number * self.each + found.gpu)
        choice = choose(BOARD, rooms, size, aware, lowest=True)
        if choice is not None:
            number, at = divmod(choice.gpu, self.each)
            self.nodes[number].make(choice._replace(gpu=at), rooms[choice.gpu], size)
        return choice


def launcher(size: int, **spec: Any) -> dict[str, Any]:
    """A pod that requests one vGPU."""
    container = {"name": "c", "resources": {"limits": {RESOURCES[size]: "1", "cpu": "1"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "team"},
        "spec": {"containers": [container], **spec},
    }
