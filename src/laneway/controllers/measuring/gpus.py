"""Asks a node's driver now and then what it measures of GPUs and vGPUs.

One program runs at a time. Who asks is a client of the GPU, and a change of its mode fails while
there is one: so nothing is asked while a plan of any GPU runs, and a plan that comes
meanwhile waits for the answer. A driver that gives none is asked again after a pause that grows, is
logged once, and leaves no old value behind.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar

from laneway.controllers.device_plugin.status import DeviceStatus
from laneway.controllers.gpu_locks import GpuLocks
from laneway.controllers.measuring.metrics import MeasuredVgpu, Measurements, Question, Reports
from laneway.controllers.observing.xids import Xids
from laneway.core import names
from laneway.core.gpu.readings import VgpuReading, function_of, vm_of_domain
from laneway.core.inventory import Inventory
from laneway.core.pci import NVIDIA, PciAddress
from laneway.core.sriov.vfs import NVIDIA_DRIVER
from laneway.host.attributes import describe
from laneway.host.nvidia.readings import read_gpus, read_vgpus
from laneway.host.port import Executor

log = logging.getLogger(__name__)

T = TypeVar("T")

LONGEST_SECONDS = 300.0
"""The longest pause after a question that was not answered."""
_CALLER = ("Node", "readings")


class Sources(NamedTuple):
    """What is known of the node without asking."""

    inventory: Callable[[], Inventory | None]
    status: Callable[[str, str], DeviceStatus]
    """Of the device with this kind and name of its object."""


class Measuring:
    """The measurements of one node. Run `run` in a task."""

    def __init__(
        self,
        node: str,
        executor: Executor,
        locks: GpuLocks,
        sources: Sources,
        tell: Callable[[Measurements], None],
        *,
        seconds: float,
    ) -> None:
        self._node = node
        self._executor = executor
        self._locks = locks
        self._sources = sources
        self._tell = tell
        self._seconds = seconds
        self._lacking: dict[str, frozenset[str]] = {}
        """What the driver does not tell, by its release."""
        self._failures: dict[str, int] = {}
        """Of each question, since the start."""
        self._problems: dict[str, str] = {}
        """Why there is no answer, by question."""

    async def run(self) -> None:
        """Ask until cancelled."""
        silent = 0
        while True:
            pause = self._seconds * 2.0 ** min(silent, 16)
            await asyncio.sleep(pause if pause <= self._seconds else min(pause, LONGEST_SECONDS))
            await self.measure()
            silent = silent + 1 if self._problems else 0

    async def measure(self) -> None:
        """Ask once and tell the answers; not while a plan runs."""
        inventory = self._sources.inventory()
        if inventory is None:
            return
        gpus = _driven(inventory)
        if not gpus:
            # Without the driver, or without its GPUs, there is nothing to ask.
            self._problems.clear()
            self._tell(Measurements(failures=dict(self._failures)))
            return
        with self._locks.acquire_all(gpus, _CALLER, lambda: None) as free:
            if free:
                self._tell(await self._ask(inventory))

    async def _ask(self, inventory: Inventory) -> Measurements:
        release = inventory.nvidia_driver
        lacking = self._lacking.get(release, frozenset())
        asked: dict[str, Question] = {}
        gpus = await self._answer("gpus", read_gpus(self._executor, lacking), asked)
        if gpus is not None:
            self._lacking = {release: gpus[1]}
        vgpus = await self._answer("vgpus", read_vgpus(self._executor), asked)
        return Measurements(
            gpus=gpus[0] if gpus is not None else (),
            vgpus=tuple(self._held(one, inventory) for one in vgpus or ()),
            asked=asked,
            failures=dict(self._failures),
        )

    async def _answer(
        self, name: str, question: Awaitable[T], asked: dict[str, Question]
    ) -> T | None:
        began = time.monotonic()
        answer: T | None = None
        self._failures.setdefault(name, 0)
        try:
            answer = await question
        except OSError as error:
            self._failures[name] += 1
            problem = describe(error)
            if name not in self._problems:
                log.warning(
                    "cannot read what the driver of node %s measures of its %s: %s",
                    self._node,
                    _WORDS[name],
                    problem,
                )
            self._problems[name] = problem
        else:
            if self._problems.pop(name, None):
                log.info(
                    "the driver of node %s tells again what it measures of its %s",
                    self._node,
                    _WORDS[name],
                )
        asked[name] = Question(answer is not None, time.monotonic() - began)
        return answer

    def _held(self, reading: VgpuReading, inventory: Inventory) -> MeasuredVgpu:
        """With its function and its VM: as the kubelet allocated it, or else as QEMU calls it."""
        namespace, vm = vm_of_domain(reading.domain)
        function = function_of(reading, inventory.vgpus)
        if function is None:
            return MeasuredVgpu(reading, reading.id, namespace, vm)
        name = names.pci_object_name(self._node, function.address)
        owner = self._sources.status("VGPUDevice", name).owner
        if owner is not None and owner.virtual_machine:
            namespace, vm = owner.namespace, owner.virtual_machine
        return MeasuredVgpu(reading, str(function.address), namespace, vm)


def reports(inventory: Inventory | None, xids: Xids) -> Reports:
    """What the kernel's log says of the GPUs that are there."""
    known = {one.address for one in inventory.functions if one.is_gpu} if inventory else set()
    return Reports(
        xids={key: count for key, count in xids.reports.items() if key[0] in known},
        faults={card: code for card, code in xids.codes.items() if card in known},
    )


_WORDS = {"gpus": "GPUs", "vgpus": "vGPUs"}


def _driven(inventory: Inventory) -> frozenset[PciAddress]:
    """The GPUs that NVIDIA's driver has."""
    return frozenset(
        one.address
        for one in inventory.functions
        if one.is_gpu and one.physfn is None and (one.vendor, one.driver) == (NVIDIA, NVIDIA_DRIVER)
    )
