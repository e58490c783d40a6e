"""Whether there is room for a VM: the ledger's answer, asked where the VM can be.

A device that it names puts a VM on that device's node, for the other devices as well. What the
VM itself has, or what is kept for it, counts as free.
"""

from __future__ import annotations

from collections.abc import Sequence

from laneway.admission.vms.devices import counted, named
from laneway.admission.world import World
from laneway.core.ledger.answer import can_start
from laneway.core.ledger.facts import Consumer
from laneway.core.ledger.question import Request
from laneway.core.refusals import Refusal
from laneway.kube.kubevirt import InstanceSpec


def short(
    spec: InstanceSpec, world: World, *, vms: int, replacing: Sequence[Consumer]
) -> tuple[Refusal, ...]:
    """Why so many VMs of this kind cannot all start; nothing while that is not known."""
    resources = counted(spec.domain.devices.all)
    ledger = world.ledger() if resources and vms > 0 else None
    if ledger is None:
        return ()
    nodes = {
        found.node
        for one in spec.domain.devices.all
        if (found := named(world, one)) is not None and found.node
    }
    request = Request(
        resources=resources,
        vms=vms,
        nodes=tuple(sorted(nodes)) if len(nodes) == 1 else (),
        selector=spec.node_selector,
        replacing=tuple(replacing),
    )
    return can_start(ledger, request).refusals
