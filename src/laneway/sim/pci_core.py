"""The kernel's PCI core on a simulated host: which driver has which function.

What a write to sysfs does here is what Linux does, down to the errno and the order of events: a
driver gets what it matches unless `driver_override` names another, a failed probe is no failure of
`drivers_probe`, and a driver that is taken away while a VM has the device open is waited for.
"""

from __future__ import annotations

import errno
import threading
from typing import Protocol

from laneway.sim.devices import Devices
from laneway.sim.dump import Block
from laneway.sim.faults import Faults
from laneway.sim.load import iommu_group
from laneway.sim.locks import Locks
from laneway.sim.sriov import change_vfs, vfs_of
from laneway.sim.tree import Attribute, os_error
from laneway.sim.vfio import SHARING, Vfio

WRITE_ONLY = Attribute()
"""Every file that can only be written to; what writing does follows from its path."""

_DRIVERS = "/sys/bus/pci/drivers"

LATE_DRIVER = "simulated driver that finds a device late"
"""Name of the threads in which asynchronous probing goes on."""


class Driver(Protocol):
    """A driver of PCI functions. It is called with the host's lock held."""

    name: str

    def matches(self, block: Block) -> bool:
        """Whether it wants a function, by its ids."""

    def adopt(self, blocks: list[Block]) -> None:
        """Take over functions that had it when the host was made or they were plugged in."""

    def probe(self, block: Block) -> None:
        """Take a function; its `driver` link is there already, `bind` is announced afterwards.

        Raises OSError to refuse it.
        """

    def remove(self, path: str) -> None:
        """Release a function, with all that it made for it; the `driver` link is gone already.

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
        self.former_vfs: dict[str, Block] = {}
        """What VFs that are gone looked like, by path: they come back the same."""
        self._drivers: dict[str, Driver] = {}

    def register(self, driver: Driver) -> None:
        """Load a driver: its directory appears below /sys/bus/pci/drivers."""
        self._drivers[driver.name] = driver
        for name in ("bind", "unbind"):
            self.devices.tree.put(f"{_DRIVERS}/{driver.name}/{name}", WRITE_ONLY)

    def driver(self, name: str) -> Driver | None:
        """A loaded driver."""
        return self._drivers.get(name)

    def adopt(self, blocks: list[Block]) -> None:
        """Let drivers take over devices that came with them, and mark what can be written."""
        for block in blocks:
            if block.properties.get("SUBSYSTEM") == "pci":
                self.mark(block)
        for driver in self._drivers.values():
            its = [
                b
                for b in blocks
                if b.properties.get("DRIVER") == driver.name and self.is_function(b.path)
            ]
            if its:
                driver.adopt(its)

    def mark(self, block: Block) -> None:
        """Place the files of a function that can only be written to."""
        home = self.devices.tree.mkdir(f"/sys{block.path}")
        home["remove"] = WRITE_ONLY
        if block.attributes.get("reset_method", b"").strip():
            home["reset"] = WRITE_ONLY

    def is_function(self, path: str) -> bool:
        block = self.devices.get(path)
        return block is not None and block.properties.get("SUBSYSTEM") == "pci"

    def driver_of(self, path: str) -> str:
        """The driver that has a function; empty for none. Paths are below /sys."""
        return self.devices[path].properties.get("DRIVER", "")

    # --------------------------------------------------------------------- finding a driver

    def override_of(self, path: str) -> str:
        value = self.devices[path].attributes.get("driver_override", b"").decode().strip()
        return "" if value == "(null)" else value

    def matches(self, driver: Driver, path: str) -> bool:
        """Whether the kernel would offer a function to a driver."""
        override = self.override_of(path)
        if override:
            return override == driver.name
        return driver.matches(self.devices[path])

    def bind(self, path: str, driver: str) -> None:
        """What a write to the driver's `bind` does."""
        with self.locks.device(path):
            wanted = self._drivers.get(driver)
            if wanted is None or path not in self.devices or not self.matches(wanted, path):
                raise os_error(errno.ENODEV)
            if self.driver_of(path):
                raise os_error(errno.EBUSY)
            self._probe(path, wanted)

    def probe(self, path: str) -> None:
        """What a write to `drivers_probe` does: give it to the first driver that takes it."""
        if self.faults.asynchronous_probing:
            # It waits for the host's lock, which the writer still has.
            threading.Thread(
                target=self._probe_later, args=(path,), name=LATE_DRIVER, daemon=True
            ).start()
        else:
            self._attach(path)

    def _probe_later(self, path: str) -> None:
        with self.locks.lock:
            self._attach(path)

    def _attach(self, path: str) -> None:
        with self.locks.device(path):
            if path not in self.devices or self.driver_of(path):
                return
            for driver in list(self._drivers.values()):
                if self.matches(driver, path):
                    try:
                        self._probe(path, driver)
                    except OSError:
                        continue  # the next driver may try
                    return

    def _probe(self, path: str, driver: Driver) -> None:
        if not self._may_probe(path):
            raise os_error(errno.ENODEV)
        if driver.name not in SHARING and self.vfio.used(iommu_group(self.devices[path])):
            raise os_error(errno.EBUSY)
        self.devices.set_driver(path, driver.name)
        try:
            self.locks.pause(self.faults.probe_seconds)
            self.faults.check_probe()
            driver.probe(self.devices[path])
        except OSError:
            self.devices.set_driver(path, "")
            raise
        if driver.name not in SHARING:
            self.set_enabled(path, enabled=True)
        self.devices.announce("bind", path)

    def _may_probe(self, path: str) -> bool:
        """A VF of a PF that does not probe its VFs finds a driver only by override."""
        physfn = self.devices[path].links.get("physfn")
        if physfn is None or self.override_of(path):
            return True
        pf = self.devices.get(path.rpartition("/")[0] + "/" + physfn.rpartition("/")[2])
        return pf is None or pf.attributes.get("sriov_drivers_autoprobe") != b"0\n"

    def unbind(self, path: str, driver: str = "") -> None:
        """What a write to the driver's `unbind` does; of whichever driver has it by default."""
        with self.locks.device(path):
            found = self.driver_of(path) if path in self.devices else ""
            if not found or driver not in ("", found):
                raise os_error(errno.ENODEV)
            self.devices.set_driver(path, "")
            if found in self._drivers:
                self._drivers[found].remove(path)
            self.set_enabled(path, enabled=False)
            self.devices.announce("unbind", path)

    def set_enabled(self, path: str, *, enabled: bool) -> None:
        if "enable" in self.devices[path].attributes:
            self.devices.set_attribute(path, "enable", "1" if enabled else "0")

    # ------------------------------------------------------------------- coming and going

    def vfs(self, path: str) -> list[str]:
        """The VFs of a PF in the order of their numbers."""
        return vfs_of(self, path)

    def set_vfs(self, path: str, count: int) -> None:
        """Make VFs, or remove them all (0), holding the PF's lock; its driver is not asked.

        Range and what is there already are checked as `sriov_numvfs` does.
        """
        change_vfs(self, path, count, ask_driver=False)

    def remove(self, path: str) -> None:
        """Take a device away with all below it; its drivers release it first."""
        for inner in self.devices.below(path):
            if self.is_function(inner) and self.driver_of(inner):
                self.unbind(inner)
        for inner in self.devices.below(path):
            with self.locks.device(inner):
                self.devices.remove(inner)

    def unplug(self, home: str) -> list[Block]:
        """Take a device away with all below it and, of a PF, its VFs, which go first.

        Returns what was there, parents first, but for vGPUs: the hardware forgets them.
        """
        roots = [*(self.vfs(home) if home in self.devices else ()), home]
        gone = [self.devices[path] for root in roots for path in self.devices.below(root)]
        for root in roots:
            self.remove(root)
        return [block for block in reversed(gone) if block.properties.get("SUBSYSTEM") != "mdev"]
