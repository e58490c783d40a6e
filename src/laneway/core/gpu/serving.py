"""Which vendors' device plugins are to run on a node, and what keeps a GPU from its containers.

A vendor's device plugin advertises every GPU of the node that is bound to the vendor's driver: none
of the three can be told to leave out single ones. So it runs only where each GPU that it would see
serves containers. A GPU for virtual machines is out of its sight on vfio-pci, or without a driver;
where one is not, the plugin is kept off the node and words say what to do, because a GPU that two
device plugins advertise is given away twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from laneway.core.gpu.vendors import DRIVERS, Gpu, Vendor, cards_of, gpus_of
from laneway.core.inventory import Inventory
from laneway.core.passthrough.usability import VFIO_DRIVER
from laneway.core.pci import PciAddress
from laneway.core.refusals import ContainerGpusMixed, ContainerGpuUnserved, Refusal


class Serving(NamedTuple):
    """How the GPUs of a node that are for containers get to them."""

    vendors: frozenset[Vendor]
    """Whose device plugins are to run."""
    served: tuple[Gpu, ...]
    """The GPUs that these advertise."""
    problems: tuple[Refusal, ...]


NOTHING_SERVED = Serving(frozenset(), (), ())


def serving(inventory: Inventory, for_containers: Callable[[PciAddress], bool]) -> Serving:
    """What follows from a node's GPUs. `for_containers`: whether a card, by address, is."""
    vendors: set[Vendor] = set()
    served: list[Gpu] = []
    problems: list[Refusal] = []
    # A card is asked for once: it can have dozens of functions.
    containers = {card for card in cards_of(inventory.functions) if for_containers(card)}
    if not containers:
        return NOTHING_SERVED  # As on most servers, of which this is asked after each event.
    gpus = gpus_of(inventory)
    for vendor in Vendor:
        functions = [one for one in gpus if one.vendor is vendor]
        asked = [one for one in functions if not one.is_vf and one.card in containers]
        ready = [one for one in asked if one.for_containers and not one.has_vfs]
        problems += [_unserved(one) for one in asked if one not in ready]
        seen = [one for one in functions if one.for_containers and one.card not in containers]
        if ready and seen:
            problems.append(ContainerGpusMixed(vendor.written, _addresses(ready), _addresses(seen)))
        elif ready:
            vendors.add(vendor)
            served += ready
    return Serving(frozenset(vendors), tuple(served), tuple(problems))


def _unserved(gpu: Gpu) -> ContainerGpuUnserved:
    if gpu.has_vfs:
        why = "it has virtual functions, which are for VMs"
    elif gpu.driver == VFIO_DRIVER:
        why = f"it is on {VFIO_DRIVER}, for VMs"
    else:
        why = f"it is on driver {gpu.driver}" if gpu.driver else "no driver is bound to it"
    return ContainerGpuUnserved(str(gpu.address), why, " or ".join(DRIVERS[gpu.vendor]))


def _addresses(gpus: list[Gpu]) -> tuple[str, ...]:
    return tuple(str(one.address) for one in gpus)
