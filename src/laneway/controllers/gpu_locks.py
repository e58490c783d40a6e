"""Whose turn it is on a card: plans about one card are carried out one after the other.

A GPU's virtual functions and the vGPUs on them are desired states of different objects about one
piece of hardware, and each plan changes what the others may do. So the card, by the address of its
physical function, is what one plan at a time has; a plan about an IOMMU group has all its cards or
none. Those that must wait hold up no worker: they are called once the card is free, in the order in
which they came, and decide again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager

from laneway.core.pci import PciAddress

Caller = tuple[str, str]
"""Kind and name of the object that asks."""


class GpuLocks:
    """The cards of one node on which plans are being carried out."""

    def __init__(self) -> None:
        self._busy: set[PciAddress] = set()
        self._waiting: defaultdict[PciAddress, dict[Caller, Callable[[], None]]] = defaultdict(dict)

    def busy(self, card: PciAddress) -> bool:
        """Whether a plan about the card is being carried out now."""
        return card in self._busy

    def on(
        self, card: PciAddress, caller: Caller, wake: Callable[[], None]
    ) -> AbstractContextManager[bool]:
        """Whether the card is the caller's in the block; where not, `wake` is called once."""
        return self.acquire_all((card,), caller, wake)

    @contextmanager
    def acquire_all(
        self, cards: Collection[PciAddress], caller: Caller, wake: Callable[[], None]
    ) -> Iterator[bool]:
        """`on` for several cards, of which the caller has all or none."""
        if busy := next((card for card in sorted(cards) if card in self._busy), None):
            self._waiting[busy][caller] = wake
            yield False
            return
        self._busy.update(cards)
        try:
            yield True
        finally:
            self._busy.difference_update(cards)
            for card in sorted(cards):
                for call in self._waiting.pop(card, {}).values():
                    call()
