"""When GPUs are asked what no file says, and what is reported meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence

import pytest

from laneway.controllers.gpu_locks import GpuLocks
from laneway.controllers.metrics import AgentMetrics, MetricFamilies
from laneway.controllers.observing.modes import Pauses
from laneway.controllers.observing.observer import Observer
from laneway.core.inventory import Inventory
from laneway.core.pci import PciAddress
from laneway.core.programs import NVIDIA_SMI, SRIOV_MANAGE, Completed
from laneway.host.hardware import Hardware
from laneway.sim.host import SimulatedHost
from laneway.sim.spec import build, parse_spec

FIRST, SECOND = PciAddress.parse("0000:17:00.0"), PciAddress.parse("0000:98:00.0")
"""The GPUs of the simulated RTX PRO 6000 server."""


class Node:
    """A simulated host with an observer, whose `nvidia-smi` a test can hold up or let fail."""

    def __init__(self, rescan_seconds: float = 300.0, **pauses: float) -> None:
        self.host: SimulatedHost = build(parse_spec("rtx-pro-6000"), "node1")
        self.locks = GpuLocks()
        metrics = AgentMetrics(MetricFamilies(), "node1")
        hardware = Hardware(self.host, self, None)  # type: ignore[arg-type]
        self.observer = Observer(
            hardware,
            self.locks,
            metrics,
            rescan_seconds=rescan_seconds,
            pauses=Pauses(quiet=0.01)._replace(**pauses),
        )
        self.reported: list[Inventory] = []
        self.observer.subscribe(self._hear)
        self.asked: list[PciAddress] = []
        self.failing: set[PciAddress] = set()
        self.open = asyncio.Event()
        self.open.set()
        self._heard = asyncio.Event()

    def _hear(self, inventory: Inventory) -> None:
        self.reported.append(inventory)
        self._heard.set()

    async def run(self, argv: Sequence[str], seconds: float) -> Completed:
        gpu = PciAddress.parse(argv[argv.index("-i") + 1])
        if "-q" in argv:
            self.asked.append(gpu)
            self._heard.set()
        if gpu in self.failing:
            return Completed(15, "The GPU has fallen off the bus.")
        await self.open.wait()
        return await self.host.run(argv, seconds)

    async def has(self, program: str) -> bool:
        return await self.host.has(program)

    def enable_mig(self, gpu: PciAddress) -> None:
        """Behind our back, as a person at the node does; it changes the lists of profiles."""
        self.call(SRIOV_MANAGE, "-d", str(gpu))
        self.call(NVIDIA_SMI, "-i", str(gpu), "-mig", "1")
        self.call(SRIOV_MANAGE, "-e", str(gpu))

    def call(self, *argv: str) -> None:
        completed = self.host.call(argv)
        assert completed.status == 0, completed.output

    async def until(self, holds: Callable[[Inventory], bool]) -> Inventory:
        """Wait until an inventory is reported that is as a test expects."""
        await self._until(lambda: bool(self.reported) and holds(self.reported[-1]))
        return self.reported[-1]

    async def until_asked(self, count: int) -> None:
        await self._until(lambda: len(self.asked) >= count)

    async def _until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not holds():
                self._heard.clear()
                await self._heard.wait()


@contextlib.asynccontextmanager
async def observing(node: Node) -> AsyncIterator[Node]:
    task = asyncio.create_task(node.observer.run())
    try:
        yield node
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@pytest.fixture
def node() -> Node:
    return Node()


async def test_the_first_inventory_waits_for_all_gpus_which_are_asked_side_by_side(node):
    node.open.clear()
    async with observing(node):
        await node.until_asked(2)
        told_before_the_answers = list(node.reported)
        node.open.set()
        inventory = await node.until(lambda _: True)

    assert told_before_the_answers == []
    assert set(inventory.modes) == {FIRST, SECOND}
    assert inventory.modes[FIRST].mig is False
    assert inventory.modes[FIRST].profiles
    assert inventory.unasked == {}


async def test_a_gpu_that_does_not_answer_is_reported_with_the_reason_and_hides_no_other(node):
    node.failing.add(SECOND)
    async with observing(node):
        inventory = await node.until(lambda _: True)

    assert set(inventory.modes) == {FIRST}
    assert "fallen off the bus" in inventory.unasked[SECOND]


async def test_a_gpu_that_did_not_answer_is_asked_again_though_nothing_changes():
    node = Node(unanswered=0.01)
    node.failing.add(SECOND)
    async with observing(node):
        await node.until(lambda one: SECOND in one.unasked)
        node.failing.clear()
        inventory = await node.until(lambda one: SECOND in one.modes)

    assert inventory.unasked == {}


async def test_a_gpu_that_stays_silent_is_asked_more_and_more_seldom():
    node = Node(unanswered=0.001, longest=3600.0)
    node.failing.add(SECOND)
    async with observing(node):
        await node.until(lambda one: SECOND in one.unasked)
        await asyncio.sleep(0.3)  # Long enough for 300 questions that do not become fewer.

    assert 2 < node.asked.count(SECOND) < 15


async def test_a_program_that_hangs_delays_nothing_else(node):
    async with observing(node):
        before = await node.until(lambda _: True)
        node.open.clear()
        node.asked.clear()
        node.call(SRIOV_MANAGE, "-d", str(FIRST))
        await node.until(lambda one: len(one.vgpus) < len(before.vgpus))
        await node.until_asked(1)
        disk = next(one for one in before.functions if one.class_code.startswith("0108"))
        node.host.unplug(f"/sys/bus/pci/devices/{disk.address}")
        inventory = await node.until(lambda one: disk not in one.functions)

    assert inventory.modes == before.modes  # the last answer


async def test_a_gpu_that_changed_is_asked_again_and_no_other(node):
    async with observing(node):
        await node.until(lambda _: True)
        node.asked.clear()
        node.enable_mig(FIRST)
        inventory = await node.until(lambda one: one.modes[FIRST].mig is True)

    assert inventory.modes[SECOND].mig is False
    assert set(node.asked) == {FIRST}


async def test_an_old_answer_goes_when_there_is_no_new_one(node):
    async with observing(node):
        await node.until(lambda _: True)
        node.failing.add(FIRST)
        node.call(SRIOV_MANAGE, "-d", str(FIRST))
        inventory = await node.until(lambda one: FIRST in one.unasked)

    assert set(inventory.modes) == {SECOND}


async def test_after_a_plan_its_card_is_asked_before_anything_is_reported(node):
    await node.observer.rescan()
    node.host.call((NVIDIA_SMI, "vgpu", "-i", str(FIRST), "-shm", "1"))

    without = await node.observer.rescan()
    inventory = await node.observer.rescan(FIRST)

    assert without.modes[FIRST].mixed_size is False  # no file tells
    assert inventory.modes[FIRST].mixed_size is True
    assert node.reported[-1] == inventory
    assert node.asked.count(SECOND) == 1


async def test_what_a_plan_has_asked_is_not_asked_once_more(node):
    async with observing(node):
        await node.until(lambda _: True)
        with node.locks.on(FIRST, ("SRIOVGPUDevice", "gpu"), lambda: None):
            node.enable_mig(FIRST)
            await node.observer.rescan(FIRST)
        node.asked.clear()
        # By the time another GPU has been asked, a change that came later, so had this one.
        node.enable_mig(SECOND)
        await node.until(lambda one: one.modes[SECOND].mig is True)

    assert FIRST not in node.asked


async def test_a_gpu_is_not_asked_while_a_plan_is_carried_out_on_it(node):
    async with observing(node):
        await node.until(lambda _: True)
        node.asked.clear()
        with node.locks.on(FIRST, ("SRIOVGPUDevice", "gpu"), lambda: None):
            node.enable_mig(FIRST)
            node.enable_mig(SECOND)
            await node.until(lambda one: one.modes[SECOND].mig is True)
            asked_meanwhile = list(node.asked)
        await node.until(lambda one: one.modes[FIRST].mig is True)

    assert FIRST not in asked_meanwhile


async def test_a_gpu_without_its_driver_has_no_modes(node):
    async with observing(node):
        await node.until(lambda _: True)
        node.call(SRIOV_MANAGE, "-d", str(FIRST))
        node.host.write("/sys/bus/pci/drivers/nvidia/unbind", str(FIRST))
        inventory = await node.until(lambda one: FIRST not in one.modes)
        node.host.write("/sys/bus/pci/drivers/nvidia/bind", str(FIRST))
        back = await node.until(lambda one: FIRST in one.modes)

    assert FIRST not in inventory.unasked
    assert back.modes[FIRST].mig is False


async def test_now_and_then_every_gpu_is_asked_whatever_files_show():
    node = Node(rescan_seconds=0.01)
    async with observing(node):
        await node.until(lambda _: True)
        node.host.call((NVIDIA_SMI, "vgpu", "-i", str(FIRST), "-shm", "1"))

        inventory = await node.until(lambda one: one.modes[FIRST].mixed_size is True)

    assert inventory.modes[SECOND].mixed_size is False
