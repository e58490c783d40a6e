"""Keeps the latest inventory of one host, and says when it changed.

A kernel event triggers a look at the functions that it concerns, which finds what a scan of the
whole host would; see `look`. The whole host is scanned where an event does not tell what changed,
where events were lost, and now and then as the safety net for what emits no event (attributes that
a driver changes). Where events cannot be received the rescan is shortened, and the reason is
logged.

What is known to concern no more than the vGPUs of one GPU, who stand for themselves, costs a look
at that GPU alone. A storm of events is limited: those that arrive during a look cause exactly one
more, and between two looks the host rests for a multiple of what a look and its consequences take.
The last state always wins.

Every inventory also carries the modes of the node's GPUs, which no file tells; see `modes`.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable

from laneway.controllers.gpu_locks import GpuLocks
from laneway.controllers.metrics import AgentMetrics
from laneway.controllers.observing.modes import ModeReader, Pauses
from laneway.core.inventory import Inventory
from laneway.core.kernel.uevent import Uevent
from laneway.core.pci import PciAddress
from laneway.host.hardware import Hardware
from laneway.host.look import look
from laneway.host.plans.files import StateError
from laneway.host.port import UeventsUnavailableError
from laneway.host.scan import identify, scan
from laneway.host.scope import concerned, matters
from laneway.host.situation import named
from laneway.host.vgpu import look_at_card

log = logging.getLogger(__name__)

RESCAN_SECONDS = 300.0
RESCAN_SECONDS_WITHOUT_EVENTS = 30.0
BACKOFF_FACTOR = 4.0
"""Pause after a look, in durations of that look: events can keep a fifth of one core busy."""
BUSY_SECONDS = 0.1
"""How soon to see whether a plan about a GPU has ended, if it does not end with a look at it."""

Listener = Callable[[Inventory], None]


class Observer:
    """Owns the inventory of one host. Run `run` in a task; read `inventory` at any time."""

    def __init__(
        self,
        hardware: Hardware,
        locks: GpuLocks,
        metrics: AgentMetrics,
        *,
        rescan_seconds: float = RESCAN_SECONDS,
        pauses: Pauses = Pauses(),  # noqa: B008 - frozen
    ) -> None:
        self._host = hardware.host
        self._state = hardware.state
        self._locks = locks
        self._modes = ModeReader(hardware.executor, locks, pauses)
        self._metrics = metrics
        self._rescan_seconds = rescan_seconds
        self._listeners: list[Listener] = []
        self.wanted = asyncio.Event()
        """Set while a scan is."""
        self._everything = False
        self._functions: set[PciAddress] = set()
        self._gpus: set[PciAddress] = set()
        """What is wanted to be scanned: functions with all that depends on them, and GPUs whose
        vGPUs alone can have changed."""
        self._scanning = asyncio.Lock()
        self.inventory: Inventory | None = None
        """None until the first scan is complete."""
        self.scanned = asyncio.Event()
        """Set once the first scan is complete."""
        self.uevents_unavailable = ""
        """Why kernel events cannot be received here; empty when they can."""

    def subscribe(self, listener: Listener) -> None:
        """Call `listener` with every new inventory, and with the present one at once."""
        self._listeners.append(listener)
        if self.inventory is not None:
            listener(self.inventory)

    def want(self, gpu: PciAddress | None = None) -> None:
        """Request a scan soon; of a GPU alone when only its vGPUs can have changed."""
        if gpu is None:
            self._everything = True
        else:
            self._gpus.add(gpu)
        self.wanted.set()

    async def rescan(self, card: PciAddress | None = None) -> Inventory:
        """Scan now and return what was found; listeners have been called when this returns.

        `card` is a GPU whose modes may have changed: it is asked first.
        """
        if card is not None:
            # What files show is kept along with the answer, so that it is not asked once more.
            await self._modes.ask(await asyncio.to_thread(scan, self._host), card)
        async with self._scanning:
            return await self._scan()

    async def look_at(self, gpu: PciAddress) -> Inventory:
        """Like `rescan`, when nothing but the vGPUs of a GPU can have changed.

        Listeners are called at once, which is little work then, so that the caller comes before
        all that follows from it: a user waits for the answer to a desired state.
        """
        async with self._scanning:
            if self.inventory is None:
                return await self._scan()
            self._gpus.discard(gpu)
            found = await asyncio.to_thread(look_at_card, self._host, self.inventory, gpu)
            if found is None:
                return await self._scan()
            return await self._found(found, at_once=True)

    async def _look_at_functions(self, changed: set[PciAddress]) -> None:
        """See what events about some functions have changed."""
        async with self._scanning:
            if self.inventory is None:
                await self._scan()
                return
            await self._found(await asyncio.to_thread(look, self._host, self.inventory, changed))

    async def _scan(self) -> Inventory:
        self._gpus.clear()
        self._functions.clear()
        started = time.perf_counter()
        found = await asyncio.to_thread(scan, self._host)
        self._metrics.scanned(time.perf_counter() - started)
        if self.inventory is None:
            await self._modes.ask(found)
            found = await asyncio.to_thread(identify, self._host, found)
        return await self._found(found)

    async def _found(self, found: Inventory, *, at_once: bool = False) -> Inventory:
        try:
            found = named(found, self._state)
        except StateError as error:
            log.warning("cannot read the former names of vGPUs: %s", error)
        known = self.inventory
        if known is not None:
            found = found.sharing(known)
        inventory = self._modes.complete(found)
        if known is not None:
            inventory = inventory.sharing(known)
        if inventory != known:
            await self._tell(inventory, at_once=at_once)
        self.scanned.set()
        return inventory

    async def _answered(self) -> None:
        """A GPU has answered: tell what was found last with what it says."""
        async with self._scanning:
            if self.inventory is not None:
                known = self.inventory
                await self._found(await asyncio.to_thread(identify, self._host, known))

    async def _tell(self, inventory: Inventory, *, at_once: bool) -> None:
        known = set(self.inventory.errors) if self.inventory is not None else set()
        for error in inventory.errors:
            if error not in known:
                log.warning("%s: %s", error.device, error.message)
        self.inventory = inventory
        self._metrics.observed(inventory)
        for listener in list(self._listeners):
            # On a large server each takes milliseconds, between which others have their turn.
            if not at_once:
                await asyncio.sleep(0)
            try:
                listener(inventory)
            except Exception:
                # One family of devices that cannot be shown must not hide the others.
                log.exception("an inventory could not be processed")

    async def run(self) -> None:
        """Scan at the start, after every relevant event, and now and then."""
        async with asyncio.TaskGroup() as tasks:
            listening = asyncio.Event()
            tasks.create_task(self._listen(listening))
            # Subscribed before the first scan: what changes during it is seen afterwards.
            await listening.wait()
            await self.rescan()
            tasks.create_task(self._modes.run(self._answered))
            took = 0.0
            while True:
                await asyncio.sleep(BACKOFF_FACTOR * took)
                try:
                    async with asyncio.timeout(self._pause()):
                        await self.wanted.wait()
                except TimeoutError:
                    log.debug("periodic rescan")
                    self._modes.ask_again()
                    self.want()
                started = time.perf_counter()
                await self._look()
                took = time.perf_counter() - started

    async def _look(self) -> None:
        """Scan what is wanted."""
        self.wanted.clear()
        # A plan ends with a look; what it does meanwhile is nothing to tell anybody.
        gpus = {gpu for gpu in self._gpus if not self._locks.busy(gpu)}
        everything, self._everything = self._everything, False
        functions, self._functions = self._functions, set()
        if everything:
            await self.rescan()
        else:
            if functions:
                await self._look_at_functions(functions)
            for gpu in sorted(gpus):
                await self.look_at(gpu)
        if self._gpus:
            asyncio.get_running_loop().call_later(BUSY_SECONDS, self.wanted.set)

    def _pause(self) -> float:
        seconds = self._rescan_seconds
        if self.uevents_unavailable:
            seconds = min(seconds, RESCAN_SECONDS_WITHOUT_EVENTS)
        return seconds * random.uniform(0.9, 1.1)  # noqa: S311 - spreads nodes, is no secret

    async def _listen(self, listening: asyncio.Event) -> None:
        try:
            async with self._host.uevents() as events:
                listening.set()
                async for event in events:
                    self._metrics.uevent(event.subsystem or event.action)
                    if matters(event):
                        self._want_for(event)
        except UeventsUnavailableError as error:
            self.uevents_unavailable = str(error)
            log.warning(
                "kernel events cannot be received: %s; rescanning every %.0f s instead",
                error,
                min(self._rescan_seconds, RESCAN_SECONDS_WITHOUT_EVENTS),
            )
            listening.set()

    def _want_for(self, event: Uevent) -> None:
        function = concerned(event)
        gpu = self._gpu_of(function) if event.subsystem == "mdev" else None
        if function is None or gpu is not None:
            self.want(gpu)
        else:
            self._functions.add(function)
            self.wanted.set()

    def _gpu_of(self, function: PciAddress | None) -> PciAddress | None:
        """The GPU of a function that can carry a vGPU."""
        vgpus = self.inventory.vgpus if self.inventory is not None else ()
        return next((vgpu.parent for vgpu in vgpus if vgpu.address == function), None)
