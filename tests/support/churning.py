"""Desks that come and go: each is a vGPU that is configured for a VM, and the VM that has it.

Which come, how large they are and when they go, the planner's own simulation decides
(`core/packing`). What it would only count is done here through the objects, on simulated nodes with
agent, kubelet and KubeVirt, while agents and the manager die: between two requests, or with a write
to the hardware before, during or after which their process ends. What has died is started again, as
the kubelet would.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from laneway.api import PCIDeviceClaim, SRIOVGPUDevice, VGPUDevice
from laneway.controllers.ledger.snapshot import look
from laneway.core.ledger.build import build
from laneway.core.names import vgpu_resource_name
from laneway.core.packing.policy import Choice, aware, choose
from laneway.core.packing.room import Board, Room
from laneway.host.scan import scan
from laneway.kube.errors import ForbiddenError, InvalidError
from laneway.kube.kubevirt import KUBEVIRTS
from laneway.kube.resource import served
from laneway.sim.changes import Change
from laneway.sim.faults import Killed
from laneway.simcluster.kubevirt.objects import INSTANCES
from support.worlds import NAMESPACE, SECONDS, SimNode, World

AGAIN_SECONDS = 0.05


@dataclass(frozen=True)
class Desk:
    """A VM and its vGPU."""

    vm: str
    node: str
    vgpu: str
    """The VGPUDevice."""
    function: str
    profile: str


class Churn:
    """GPUs in mixed-size mode on which desks come and go."""

    def __init__(
        self, world: World, board: Board, gpus: Sequence[tuple[str, str]], luck: random.Random
    ) -> None:
        """`gpus`: node and SRIOVGPUDevice of each."""
        self.desks: dict[tuple[int, int], Desk] = {}
        """By GPU, and the slot where the planner has it begin."""
        self.killed: Counter[str] = Counter()
        self.told: list[str] = []
        self._world = world
        self._board = board
        self._gpus = gpus
        self._luck = luck
        self._touched: list[Change] = []
        self._number = 0
        self._managing = asyncio.Lock()
        self._at_once = asyncio.Semaphore(_AT_ONCE)
        self._keepers: list[asyncio.Task[None]] = []

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Have agents started again that die, and note what is written to vGPUs that VMs have."""
        nodes = self._world.nodes.values()
        for node in nodes:
            node.host.record_changes(lambda change, node=node: self._note(node, change))
        self._keepers = [asyncio.create_task(self._keep(node)) for node in nodes]
        try:
            yield
        finally:
            for keeper in self._keepers:
                keeper.cancel()
            await asyncio.gather(*self._keepers, return_exceptions=True)

    # ------------------------------------------------------------------- what the planner decides

    async def take(self, rooms: Sequence[Room], size: int) -> Choice | None:
        """A request of a size, after those have gone whose room is free; None: no GPU has room."""
        await self.leave([at for at in self.desks if not rooms[at[0]].first >> at[1] & 1])
        profile = self._board.kinds[size].name
        open_ = [number for number in range(len(rooms)) if await self._fits(number, profile)]
        choice = choose(self._board, [rooms[n] for n in open_], size, aware, lowest=True)
        if choice is None or choice.start is None:
            assert not open_, f"{open_} are said to have room for {profile}, and have {rooms}"
            self.told.append(f"no room for {profile}")
            return None
        gpu = open_[choice.gpu]
        await self._come(gpu, choice.start, profile)
        await self.check()
        return Choice(gpu, choice.start, choice.after)

    async def _come(self, gpu: int, start: int, profile: str) -> None:
        """Configure a vGPU on a GPU, and start a VM that has it."""
        self._number += 1
        node, name = self._gpus[gpu]
        card = await self._world.client.get(served(SRIOVGPUDevice), name)
        used = {desk.vgpu for desk in self.desks.values()}
        vgpu = next(one for one in card.status.vgpu_devices if one not in used)
        found = await self._world.client.get(served(VGPUDevice), vgpu)
        desk = Desk(f"desk{self._number}", node, vgpu, found.spec.address, profile)
        self.told.append(f"{desk.vm} comes: {profile} on {name}, {vgpu}")
        async with self._trouble(node):
            await self._world.vgpu(vgpu, profile)
            resource = vgpu_resource_name(profile)
            await insist(lambda: self._world.make_vm(desk.vm, gpus=[resource]))
            await self._world.running(desk.vm)
        self.desks[gpu, start] = desk
        await self._reported(desk.vgpu, desk.vm)

    async def leave(self, places: Collection[tuple[int, int]]) -> None:
        """Delete VMs, and remove their vGPUs."""
        await asyncio.gather(*(self._leave(at) for at in places))
        await self.check()

    async def _leave(self, at: tuple[int, int]) -> None:
        desk = self.desks[at]
        async with self._at_once, self._trouble(desk.node):
            self.told.append(f"{desk.vm} leaves {desk.vgpu}")
            await self._world.delete_vm(desk.vm)
            await self._world.until(INSTANCES, desk.vm, lambda one: one is None, NAMESPACE)
            del self.desks[at]
            off = {"spec": {"enabled": False}}
            patch = self._world.client.patch
            await insist(lambda: patch(served(VGPUDevice), desk.vgpu, off))
            await self._world.until(served(VGPUDevice), desk.vgpu, _is_free)

    async def _fits(self, gpu: int, profile: str) -> bool:
        """Whether a GPU's object says that it has room, once it says what is there."""
        name = self._gpus[gpu][1]
        there = Counter(desk.profile for at, desk in self.desks.items() if at[0] == gpu)
        card = await self._world.until(
            served(SRIOVGPUDevice), name, lambda one: dict(one.status.configured) == dict(there)
        )
        return card.status.fits.get(profile, 0) > 0

    async def _reported(self, vgpu: str, vm: str) -> None:
        def holds(one: Any) -> bool:
            return one.status.allocation and one.status.allocation.virtual_machine == vm

        await self._world.until(served(VGPUDevice), vgpu, holds)

    # ---------------------------------------------------------------------- what befalls processes

    @contextlib.asynccontextmanager
    async def _trouble(self, node: str) -> AsyncIterator[None]:
        """Perhaps something dies while the block runs."""
        fate = self._luck.choices([self._nothing, self._write, self._agent, self._manager], _ODDS)
        delay = self._luck.random() * _WITHIN_SECONDS
        number, when = self._luck.randint(1, 3), self._luck.choice(["before", "during", "after"])
        task = asyncio.create_task(fate[0](node, delay, number, when))
        try:
            yield
        finally:
            await task

    async def _nothing(self, node: str, delay: float, number: int, when: Any) -> None:
        pass

    async def _write(self, node: str, _delay: float, number: int, when: Any) -> None:
        self.told.append(f"the agent of {node} will be killed {when} write {number}")
        self._world.nodes[node].host.faults.kill_at(number, when)

    async def _agent(self, node: str, delay: float, _number: int, _when: Any) -> None:
        await asyncio.sleep(delay)
        self.told.append(f"the agent of {node} is killed")
        self._world.nodes[node].tasks["agent"].cancel()

    async def _manager(self, _node: str, delay: float, _number: int, _when: Any) -> None:
        await asyncio.sleep(delay)
        async with self._managing:
            self.told.append("the manager is killed")
            self.killed["manager"] += 1
            await self._world.restart_manager()

    async def _keep(self, node: SimNode) -> None:
        """Start a node's agent again whenever it has died, until cancelled."""
        while True:
            task = node.tasks["agent"]
            await asyncio.wait({task})
            if not task.cancelled() and not _was_killed(task.exception()):
                task.result()
            self.killed["agent" if task.cancelled() else "write"] += 1
            self.told.append(f"the agent of {node.name} is started again")
            node.host.faults.clear()
            node.host.restart()
            start = asyncio.create_task(self._world.start_agent(node))
            await asyncio.wait({start})
            # One that died while it started is looked at in the next turn.
            if start.cancelled() or (start.exception() and node.tasks["agent"].done()):
                continue
            start.result()

    # ------------------------------------------------------------------------- what must hold

    def _note(self, node: SimNode, change: Change) -> None:
        mine = [desk.function for desk in self.desks.values() if desk.node == node.name]
        if any(f"/{function}/" in change.path for function in mine):
            self._touched.append(change)

    async def check(self) -> None:
        """No device is open in two VMs, and hardware and ledger have what the desks have."""
        for keeper in self._keepers:
            if keeper.done():
                keeper.result()
        for node in self._world.nodes.values():
            mine = {d.function: d.profile for d in self.desks.values() if d.node == node.name}
            await agreed(lambda node=node: _carried(node), mine)
            opened = [path for paths in node.holders().values() for path in paths]
            assert len(set(opened)) == len(opened) == len(mine), f"{node.name}: {opened}, {mine}"
        held = Counter((d.node, vgpu_resource_name(d.profile)) for d in self.desks.values())
        await agreed(self._held, dict(held))
        assert not self._touched, f"written to vGPUs that VMs have: {self._touched}"

    async def _held(self) -> dict[tuple[str, str], int]:
        """What the ledger says is allocated; it is to say nothing else of any device."""
        ledger = build((await look(self._world.client)).facts)
        found = {}
        for key, stock in ledger.stocks.items():
            counts = stock.counts
            found[key] = counts.held if counts.held == counts.total else -1
        return found

    async def check_nothing_left(self) -> None:
        """All is as it was before the first came."""
        assert not self.desks
        for node in self._world.nodes.values():
            node.host.faults.clear()
        await self.check()
        client = self._world.client
        vgpus, claims = served(VGPUDevice), served(PCIDeviceClaim)
        for resource, gone in ((vgpus, _is_free), (claims, lambda one: one is None)):
            pages = [page async for page in client.list(resource)]
            for name in [resource.decode(x).metadata.name for page in pages for x in page.items]:
                await self._world.until(resource, name, gone)
        await self._world.until(KUBEVIRTS, "kubevirt", _permits_nothing, "harvester-system")
        for node in self._world.nodes.values():
            await agreed(lambda node=node: node.agent.hardware.state.interrupted(), [])


_ODDS = (60, 20, 10, 10)
"""Nothing, the agent with a write, the agent, the manager."""
_WITHIN_SECONDS = 0.4
_AT_ONCE = 3
"""Desks that leave: each watches, and a client has few connections."""


async def insist(desired: Callable[[], Awaitable[Any]]) -> None:
    """Ask again while admission still knows an earlier state."""
    async with asyncio.timeout(SECONDS):
        while True:
            try:
                await desired()
            except (ForbiddenError, InvalidError):
                await asyncio.sleep(AGAIN_SECONDS)
            else:
                return


async def agreed(look: Callable[[], Any], expected: Any) -> None:
    """Wait until what is looked at is as expected. A host whose process is dead cannot be read."""
    found: Any = None
    try:
        async with asyncio.timeout(SECONDS):
            while True:
                with contextlib.suppress(Killed):
                    found = look()
                    if isinstance(found, Awaitable):
                        found = await found
                    if found == expected:
                        return
                await asyncio.sleep(AGAIN_SECONDS)
    except TimeoutError:
        raise AssertionError(f"{found} stays, and not {expected}") from None


def _carried(node: SimNode) -> dict[str, str]:
    return {
        str(one.address): one.configured.type_name
        for one in scan(node.host).vgpus
        if one.configured is not None
    }


def _was_killed(error: BaseException | None) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return error.split(Killed)[1] is None
    return isinstance(error, Killed)


def _is_free(vgpu: Any) -> bool:
    return not vgpu.status.vgpu_status and vgpu.status.allocation is None


def _permits_nothing(kubevirt: Any) -> bool:
    devices = kubevirt.spec.configuration.permitted_host_devices
    return not (devices.pci_host_devices or devices.mediated_devices)
