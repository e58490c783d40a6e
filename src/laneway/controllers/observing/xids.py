"""Keeps which GPUs of one host reported an error after which they must not be allocated.

The kernel's log of this boot is read from its beginning, so an agent that starts again knows what
its predecessor knew. What was reported is over when the card has been reset, when its driver says
so, or with the boot. A card that is passed through reports to the guest's driver and not to this
one.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping

from laneway.core.kernel.log import CAUGHT_UP
from laneway.core.kernel.xids import Fault, after, words
from laneway.core.pci import PciAddress
from laneway.host.port import Host, KernelLogUnavailableError
from laneway.host.xids import parse_reset, parse_xid

log = logging.getLogger(__name__)


class Xids:
    """The faulty GPUs of one host. Run `run` in a task; ask at any time."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._faults: dict[PciAddress, Fault] = {}
        self._reported: dict[PciAddress, Fault] = {}
        self._listeners: list[Callable[[], None]] = []
        self.reports: Counter[tuple[PciAddress, int]] = Counter()
        """How often the log has each error of a card, also those after which it is sound."""
        self.caught_up = asyncio.Event()
        """Set once all that was in the log has been read, or when it cannot be read."""
        self.unavailable = ""
        """Why the log cannot be read here; empty when it can."""

    @property
    def faults(self) -> Mapping[PciAddress, str]:
        """What is wrong, in words, by function 0 of the card."""
        return {card: words(card, fault) for card, fault in self._faults.items()}

    @property
    def codes(self) -> Mapping[PciAddress, int]:
        """The number of what is wrong, by function 0 of the card."""
        return {card: fault.code for card, fault in self._faults.items()}

    def of(self, address: PciAddress) -> str:
        """What is wrong with the card that has a function in this slot, in words; or empty."""
        return self.faults.get(address._replace(function=0), "")

    def subscribe(self, call: Callable[[], None]) -> None:
        """Have something called whenever faults came or went."""
        self._listeners.append(call)

    async def run(self) -> None:
        """Read the log; ends only where it cannot be read."""
        try:
            async with self._host.kernel_messages() as messages:
                async for message in messages:
                    if message == CAUGHT_UP:
                        self._tell()
                        self.caught_up.set()
                    else:
                        self._take(message)
        except KernelLogUnavailableError as error:
            self.unavailable = str(error)
            log.warning("cannot read the errors that GPUs report: %s", error)
            self.caught_up.set()

    def _take(self, message: str) -> None:
        if xid := parse_xid(message):
            self.reports[xid.card, xid.code] += 1
            fault = after(self._faults.pop(xid.card, None), xid)
            if fault is not None:
                self._faults[xid.card] = fault
        elif function := parse_reset(message):
            self._faults.pop(function, None)

    def _tell(self) -> None:
        if self._faults == self._reported:
            return
        for card, fault in self._faults.items():
            if self._reported.get(card) != fault:
                log.warning("%s; it is not allocated until then", words(card, fault))
        for card in self._reported.keys() - self._faults:
            log.info("%s has recovered", card)
        self._reported = dict(self._faults)
        for call in self._listeners:
            call()
