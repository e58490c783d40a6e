"""The one observer: everything that a plan must know of a node, read right before it is made."""

from __future__ import annotations

from collections.abc import Iterable

from laneway.core.pci import PciAddress
from laneway.core.situation import Situation
from laneway.host.hardware import Hardware


async def observe(
    hardware: Hardware, node: str, addresses: Iterable[PciAddress], ports: Iterable[str] = ()
) -> Situation:
    """Look at a node for a plan about these functions and USB ports.

    Users, overrides and modes are read for the functions, their IOMMU group mates, their PFs and
    VFs; what cannot be read is left out or told (`blind`, `unasked`), never guessed.
    """
    raise NotImplementedError
