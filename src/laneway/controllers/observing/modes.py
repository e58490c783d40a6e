"""Keeps what only the driver's own program reports of a host's GPUs: modes and GPU instances.

The program takes a second or two and may hang, so it is never waited for while something else is
to be reported: an inventory carries the last answer until there is a new one. Only before the very
first inventory, and after a plan that may have changed a card's modes, the answer is awaited.

A GPU is asked again when its driver, its virtual functions or their lists of profiles have changed
and then been quiet for a moment, and now and then. It is not asked while a plan is carried out on
it: who asks is a client of the GPU, and a change of mode fails while there is one. A GPU that gives
no answer keeps none, so that nothing is decided by what may no longer be; it is asked again after
a pause that grows, for whatever is desired of it waits for the answer.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import NamedTuple

import msgspec

from laneway.controllers.gpu_locks import GpuLocks
from laneway.core.gpu.modes import GpuModes
from laneway.core.inventory import Inventory, VgpuFunction
from laneway.core.pci import NVIDIA, PciAddress, PciFunction
from laneway.core.plan import MigStep, Plan, SwitchGpuVfs
from laneway.core.remembered import remembered
from laneway.core.sriov.vfs import NVIDIA_DRIVER
from laneway.host.attributes import describe
from laneway.host.nvidia.modes import read_modes
from laneway.host.port import Executor

NOT_ASKED = "it has not been read yet"


class Pauses(NamedTuple):
    """When a GPU is asked again, in seconds."""

    quiet: float = 1.0
    """How long a GPU must not have changed before it is asked again: changes come in bursts."""
    unanswered: float = 5.0
    """How soon a GPU is asked again that gave no answer, doubled each time that it gives none."""
    longest: float = 300.0
    """The longest of these pauses."""


Shown = tuple[object, ...]
"""What files show of a GPU that changes along with its modes."""


def may_change_modes(plan: Plan) -> bool:
    """Whether a plan can leave its GPU in another mode; to make a vGPU cannot."""
    return any(isinstance(step, MigStep | SwitchGpuVfs) for step in plan.steps)


class ModeReader:
    """Owns the answers of one host's GPUs. Run `run` in a task."""

    def __init__(self, executor: Executor, locks: GpuLocks, pauses: Pauses) -> None:
        self._executor = executor
        self._locks = locks
        self._pauses = pauses
        self._answers: dict[PciAddress, GpuModes | str] = {}
        """A text is why there is no answer."""
        self._shown: dict[PciAddress, Shown] = {}
        """What files showed of each GPU last, or when it was asked if that was later."""
        self._silent: dict[PciAddress, int] = {}
        """How often in a row a GPU has not answered."""
        self._due: dict[PciAddress, float] = {}
        """When to ask a GPU, by the loop's clock."""
        self._sooner = asyncio.Event()
        self._asking: defaultdict[PciAddress, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def ask(self, inventory: Inventory, only: PciAddress | None = None) -> None:
        """Ask all GPUs of a scan side by side, or one of them, and wait for the answers."""
        gpus = {gpu.address for gpu in _gpus(inventory)}
        shown = _shown(inventory)
        asked = gpus if only is None else gpus & {only}
        await asyncio.gather(*(self._ask(gpu, shown[gpu]) for gpu in asked))

    def complete(self, inventory: Inventory) -> Inventory:
        """A scan with the answers that there are; what it shows to have changed is asked later."""
        shown = _shown(inventory)
        for gpu in self._answers.keys() | self._shown.keys() | self._due.keys():
            if gpu not in shown:
                for known in (self._answers, self._silent, self._shown, self._due, self._asking):
                    known.pop(gpu, None)
        for gpu, seen in shown.items():
            if self._shown.get(gpu) != seen:
                self._shown[gpu] = seen
                self._ask_at(gpu, _now() + self._pauses.quiet)
        answers = {gpu: self._answers.get(gpu, NOT_ASKED) for gpu in sorted(shown)}
        answers |= inventory.unread_gpus()
        return msgspec.structs.replace(
            inventory,
            modes={
                gpu: reported for gpu, reported in answers.items() if isinstance(reported, GpuModes)
            },
            unasked={
                gpu: reported for gpu, reported in answers.items() if isinstance(reported, str)
            },
        )

    def ask_again(self) -> None:
        """Ask every GPU soon, whatever files show."""
        for gpu in self._shown:
            self._ask_at(gpu, _now())

    async def run(self, answered: Callable[[], Awaitable[None]]) -> None:
        """Ask what is due, and call `answered` after each new answer."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                self._sooner.clear()
                for gpu in [gpu for gpu, due in self._due.items() if due <= _now()]:
                    if self._locks.busy(gpu):
                        self._due[gpu] = _now() + self._pauses.quiet
                    else:
                        del self._due[gpu]
                        tasks.create_task(self._ask_later(gpu, answered))
                pause = min(self._due.values()) - _now() if self._due else None
                try:
                    async with asyncio.timeout(pause):
                        await self._sooner.wait()
                except TimeoutError:
                    continue

    def _ask_at(self, gpu: PciAddress, moment: float) -> None:
        self._due[gpu] = moment
        self._sooner.set()

    async def _ask_later(self, gpu: PciAddress, answered: Callable[[], Awaitable[None]]) -> None:
        before = self._answers.get(gpu)
        shown = self._shown.get(gpu)
        if shown is None:
            return  # It has gone meanwhile.
        await self._ask(gpu, shown)
        if gpu in self._shown and self._answers.get(gpu) != before:
            await answered()

    async def _ask(self, gpu: PciAddress, shown: Shown) -> None:
        """Ask now, not counting on a question that was under way before."""
        async with self._asking[gpu]:
            self._due.pop(gpu, None)
            self._shown[gpu] = shown
            try:
                self._answers[gpu] = await read_modes(self._executor, gpu)
            except OSError as error:
                self._answers[gpu] = describe(error)
                times = self._silent[gpu] = self._silent.get(gpu, 0) + 1
                pause = self._pauses.unanswered * 2.0 ** min(times - 1, 16)
                self._ask_at(gpu, _now() + min(pause, self._pauses.longest))
            else:
                self._silent.pop(gpu, None)


def _gpus(inventory: Inventory) -> Iterable[PciFunction]:
    """The GPUs that can be shared, as long as their own driver has them."""
    return (
        function
        for function in inventory.functions
        if function.sriov_gpu
        and function.physfn is None
        and (function.vendor, function.driver) == (NVIDIA, NVIDIA_DRIVER)
    )


def _shown(inventory: Inventory) -> dict[PciAddress, Shown]:
    lists = _lists(inventory.vgpus)
    return {gpu.address: (gpu.vfs, lists.get(gpu.address)) for gpu in _gpus(inventory)}


@remembered
def _lists(vgpus: tuple[VgpuFunction, ...]) -> Mapping[PciAddress, list[object]]:
    """What drivers list, by GPU."""
    lists: defaultdict[PciAddress, list[object]] = defaultdict(list)
    for vgpu in vgpus:
        lists[vgpu.parent].append((vgpu.address, vgpu.framework, vgpu.supported, vgpu.creatable))
    return lists


def _now() -> float:
    return asyncio.get_running_loop().time()
