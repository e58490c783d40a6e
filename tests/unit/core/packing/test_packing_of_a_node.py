"""A node's device plugin and its making of vGPUs serve as much as the policy that they follow."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from laneway.core.device_plugin.device_list import DesiredDevices, offers
from laneway.core.device_plugin.preference import prefer
from laneway.core.gpu.modes import GpuModes
from laneway.core.inventory import ConfiguredVgpu, Inventory, VgpuFunction, VgpuType
from laneway.core.names import vgpu_resource_name
from laneway.core.packing.churn import Mix, by_policy, churn
from laneway.core.packing.policy import Choice, aware, choose
from laneway.core.packing.room import Room, bits_of, board_of, spots
from laneway.core.pci import NVIDIA, PciAddress, PciFunction
from laneway.core.vgpu.card import card_of
from laneway.core.vgpu.making_order import Wanted, making_order

L40S = "26b9"
BOARD = board_of(card_of(L40S), mixed=True)
MODES = GpuModes(mixed_size=True)
OFFERED = tuple(VgpuType(str(at), kind.name) for at, kind in enumerate(BOARD.kinds))


def gpu(number: int) -> PciFunction:
    address = PciAddress(0, 8 + number, 0, 0)
    return PciFunction(address=address, vendor=NVIDIA, device=L40S, class_code="030200")


class Node:
    """GPUs whose vGPUs stay when they are returned, until their room is needed for others."""

    def __init__(self, count: int) -> None:
        self.gpus = [gpu(number) for number in range(count)]
        self.vgpus: list[dict[int, int]] = [{} for _ in self.gpus]
        """Of each GPU, by first slot: the size."""

    def function(self, number: int, start: int) -> VgpuFunction:
        size = self.vgpus[number].get(start)
        kind = None if size is None else OFFERED[size]
        bus = self.gpus[number].address.bus
        return VgpuFunction(
            address=PciAddress(0, bus, 1 + start // 8, start % 8),
            parent=self.gpus[number].address,
            framework="mdev",
            supported=OFFERED,
            creatable=() if kind else OFFERED,
            configured=kind
            and ConfiguredVgpu(kind.id, kind.name, f"{number}/{start}", placement=start),
        )

    def take(self, rooms: Sequence[Room], size: int) -> Choice | None:
        """A vGPU that the kubelet prefers, or else one that is made where the free ones leave."""
        kind = BOARD.kinds[size]
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
            "node1",
            DesiredDevices(
                profiles={
                    one.address: one.configured.type_name for one in carrying if one.configured
                }
            ),
        )
        name = vgpu_resource_name(kind.name)
        offered = {one.id: one for one in found.offered if one.resource == name}
        free = []
        for one in offered:
            number, start = map(int, one.split("/"))
            if not bits_of(kind, start) & rooms[number].used:
                free.append(one)
        if free:
            number, start = map(int, prefer(offered, free, [], 1)[0].split("/"))
            room = rooms[number]
            after = Room(room.used | bits_of(kind, start), room.number + 1)
            return Choice(number, start, after)
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


def test_a_node_serves_as_much_as_the_policy_within_a_hundredth() -> None:
    mix = Mix(tuple(float(kind.slots in (4, 8, 12, 24)) for kind in BOARD.kinds), gpus=4)
    policy = by_policy(BOARD, aware, lowest=True)
    planned, served = (
        [
            churn(BOARD, mix, take, seed=seed, arrivals=1500).memory
            for seed, take in enumerate(takers)
        ]
        for takers in ([policy] * 4, [Node(mix.gpus).take for _ in range(4)])
    )
    assert sum(served) / 4 == pytest.approx(sum(planned) / 4, abs=0.007)
    # A device plugin that does not look at places serves 0.008 less than planned.
