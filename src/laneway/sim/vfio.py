"""VFIO on a simulated host: group nodes, who has them open, and who waits for that to end.

As in Linux without iommufd, a device is opened through /dev/vfio/<IOMMU group>. The group may be
used when none of its functions has an ordinary driver. A driver that takes an opened device away
waits until it has been closed; until then the group's node stays.
"""

from __future__ import annotations

from laneway.sim.devices import Devices
from laneway.sim.locks import Locks
from laneway.sim.processes import Holder, Processes


class Vfio:
    """Devices that can be opened by a VM. Not locked: its host serialises access."""

    def __init__(self, devices: Devices, processes: Processes, locks: Locks) -> None:
        self._devices = devices
        self._processes = processes
        self._locks = locks

    def register(self, path: str) -> None:
        """Offer a device (path below /sys; a function or an mdev with `iommu_group`) to VMs.

        Adds and announces its group's node unless another device of the group has done so.
        """
        raise NotImplementedError

    def unregister(self, path: str) -> None:
        """Take the offer back: waits until nobody has the device open, then removes the node."""
        raise NotImplementedError

    def held(self, path: str) -> bool:
        """Whether a process has a device open."""
        raise NotImplementedError

    def viable(self, group: int | str) -> bool:
        """Whether a group may be used: no member has an ordinary driver."""
        raise NotImplementedError

    def hold(self, path: str, name: str) -> Holder:
        """A process that opens a device, by group node, sysfs path or any other device node."""
        raise NotImplementedError
