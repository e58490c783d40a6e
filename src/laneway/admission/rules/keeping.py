"""For which VMs a device is kept that none names: VMs request a resource, not a device.

As long as another device of the resource is free, any of them does. The last one is not refused to
go, as no VM has it yet; but the user who takes it away gets a warning with the VMs that wait for
it.
"""

from __future__ import annotations

from typing import Protocol

from laneway.admission.rules.common import Findings
from laneway.admission.world import World
from laneway.core.ledger.ledger import State


class Offered(Protocol):
    """The status of something that VMs can request."""

    @property
    def resource_name(self) -> str: ...


def kept_for(world: World, name: str, node: str, status: Offered) -> Findings:
    """That a VM would lack this device."""
    resource, ledger = status.resource_name, world.ledger()
    if ledger is None or not resource:
        return
    stock = ledger.stocks.get((node, resource))
    taking = stock.taken.get(name) if stock is not None else None
    if taking is None or taking.state not in (State.RESERVED, State.WANTED):
        return
    if any(ledger.free.get(resource, {}).values()):
        return
    yield (
        f"{taking.consumer} requests {resource}, and no other such device is free: without {name} "
        "it cannot start."
    )
