"""What a plan must know of a node beyond its inventory: users, modes, what Laneway did before.

It is read right before a plan is made, for the devices that the plan is about: looking through all
processes for who has a device open, or asking a GPU for its modes, costs too much for every scan.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from laneway.core.gpu.modes import GpuModes
from laneway.core.inventory import Inventory
from laneway.core.pci import PciAddress


class Holder(msgspec.Struct, frozen=True):
    """A user of a device, whom its removal would affect or for whom it would hang."""

    kind: Literal["process", "mount", "swap", "volume", "network"]
    text: str
    """As the rest of a sentence: `process 4711 (qemu-system-x86) has /dev/vfio/12 open`."""
    pid: int = 0
    """Of a process; 0 for anything else."""
    end: str = ""
    """What ends this use, with the command; empty where no command does."""


def pids(holders: Iterable[Holder]) -> tuple[int, ...]:
    """Of those that are processes."""
    return tuple(sorted({one.pid for one in holders if one.pid}))


def ends(holders: Iterable[Holder]) -> tuple[str, ...]:
    """What ends their uses, each once."""
    return tuple(dict.fromkeys(one.end for one in holders if one.end))


class Console(msgspec.Struct, frozen=True):
    """A console driver (`/sys/class/vtconsole/vtconN`) that puts characters on a display."""

    number: int
    name: str
    attached: bool


class Framebuffer(msgspec.Struct, frozen=True):
    """The platform device of firmware's framebuffer, with the driver that it is bound to."""

    device: str
    driver: str


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """One look at a node for one plan."""

    node: str
    """Its name, which the UUIDs of mediated devices are derived from."""
    inventory: Inventory
    at_a_glance: bool = False
    """Whether this is the last scan alone. A decision then says whether anything is to be done, and
    of a plan no more than that."""
    holders: dict[PciAddress, tuple[Holder, ...]] = {}
    """Functions that are in use now."""
    usb_holders: dict[str, tuple[Holder, ...]] = {}
    """USB devices, by port, that are in use now."""
    visibility_error: str = ""
    """Why users may have been missed; empty when all processes could be seen."""
    vfio_pci: Literal["ready", "loadable", "missing"] = "ready"
    kernel: str = ""
    """Release of the running kernel."""
    consoles: tuple[Console, ...] = ()
    framebuffers: tuple[Framebuffer, ...] = ()
    overrides: dict[PciAddress, str] = {}
    """Functions whose `driver_override` names a driver."""
    autoprobe: dict[PciAddress, bool] = {}
    """`sriov_drivers_autoprobe` of every PF."""
    originals: dict[PciAddress, str] = {}
    """Drivers that functions had before Laneway gave them to vfio-pci; empty text: none."""
    loadable: tuple[str, ...] = ()
    """Those of these drivers that are not loaded but could be."""
    usb_owners: dict[str, tuple[int, int]] = {}
    """User and group of each USB device's node, by port."""
    usb_originals: dict[str, tuple[int, int]] = {}
    """The same before Laneway gave the node away."""
    quarantined: dict[PciAddress, str] = {}
    """Functions whose reset failed, with what the kernel said."""
    silent: frozenset[PciAddress] = frozenset()
    """Functions that answer no more: their configuration space reads as all ones."""
    locked: frozenset[PciAddress] = frozenset()
    """Functions in the middle of a removal that waits for a user, as `holders` tells: another write
    to one would wait too."""
    gpus: dict[PciAddress, GpuModes] = {}
    """NVIDIA GPUs that could be asked."""
    unasked: dict[PciAddress, str] = {}
    """NVIDIA GPUs that could not be asked, and why."""
    parameters: dict[PciAddress, str] = {}
    """Parameters of the vGPUs that exist, by function."""
    sriov_manage: bool = False
    """Whether NVIDIA's program that switches VFs is there."""


def with_holder(situation: Situation, address: PciAddress, holder: Holder) -> Situation:
    """The same with one more user of a function."""
    there = (*situation.holders.get(address, ()), holder)
    return msgspec.structs.replace(situation, holders={**situation.holders, address: there})


def glance(inventory: Inventory, node: str = "") -> Situation:
    """What the last scan alone tells."""
    return Situation(
        node=node,
        inventory=inventory,
        at_a_glance=True,
        gpus=inventory.modes,
        unasked=inventory.unasked,
    )
