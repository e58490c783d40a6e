"""The kernel's PCI core on a simulated host: which driver has which function, and virtual functions.

What a write to sysfs does here is what Linux does, down to the errno and the order of events: a
driver gets what it matches unless `driver_override` names another, a failed probe is no failure of
`drivers_probe`, VFs come one by one and go while their PF is locked.
"""

from __future__ import annotations

from typing import Protocol

from laneway.sim.devices import Devices
from laneway.sim.dump import Block
from laneway.sim.faults import Faults
from laneway.sim.locks import Locks
from laneway.sim.vfio import Vfio


class Driver(Protocol):
    """A driver of PCI functions. It is called with the host's lock held."""

    name: str

    def matches(self, block: Block) -> bool:
        """Whether it wants a function, by its ids."""

    def adopt(self, blocks: list[Block]) -> None:
        """Take over functions that had it when the host was made or they were plugged in."""

    def probe(self, block: Block) -> None:
        """Take a function; the core has neither linked it nor announced `bind` yet.

        Raises OSError to refuse it.
        """

    def remove(self, path: str) -> None:
        """Let go of a function, with all that it made for it; the `driver` link is gone already.

        May wait (Locks.wait, Vfio.unregister) for those who have it open.
        """

    def configure_vfs(self, path: str, count: int) -> None:
        """Asked before VFs of a PF come (count) or go (0) by a write to `sriov_numvfs`.

        Raises OSError to refuse; ENOENT when the driver cannot do SR-IOV.
        """


class PciCore:
    """All PCI functions of one host. Not locked: its host serialises access."""

    def __init__(self, devices: Devices, vfio: Vfio, locks: Locks, faults: Faults) -> None:
        self.devices = devices
        self.vfio = vfio
        self.locks = locks
        self.faults = faults

    def register(self, driver: Driver) -> None:
        """Load a driver: its directory appears below /sys/bus/pci/drivers."""
        raise NotImplementedError

    def driver_of(self, path: str) -> str:
        """The driver that has a function; empty for none. Paths are below /sys."""
        raise NotImplementedError

    def bind(self, path: str, driver: str) -> None:
        """What a write to the driver's `bind` does."""
        raise NotImplementedError

    def unbind(self, path: str, driver: str = "") -> None:
        """What a write to the driver's `unbind` does; of whichever driver has it by default."""
        raise NotImplementedError

    def probe(self, path: str) -> None:
        """What a write to `drivers_probe` does: give it to the first driver that takes it."""
        raise NotImplementedError

    def vfs(self, path: str) -> list[str]:
        """The VFs of a PF in the order of their numbers."""
        raise NotImplementedError

    def set_vfs(self, path: str, count: int) -> None:
        """Make VFs, or remove them all (0), holding the PF's lock; its driver is not asked.

        This is `pci_enable_sriov` and `pci_disable_sriov`. Range and what is there already are
        checked as `sriov_numvfs` does.
        """
        raise NotImplementedError
