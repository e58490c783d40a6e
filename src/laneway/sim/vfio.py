"""VFIO on a simulated host: group nodes, who has them open, and who waits for that to end.

As in Linux without iommufd, a device is opened through /dev/vfio/<IOMMU group>. The group may be
used when none of its functions has an ordinary driver. A driver that takes an opened device away
waits until it has been closed; until then the group's node stays.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable

from laneway.sim.devices import Devices
from laneway.sim.dump import Block
from laneway.sim.load import GROUPS, iommu_group
from laneway.sim.locks import Locks
from laneway.sim.processes import Holder, Processes
from laneway.sim.tree import Directory, os_error

SHARING = frozenset({"vfio-pci", "pcieport", "pci-stub"})
"""Drivers that leave DMA to the user of the group."""

_CONTAINER = "/dev/vfio/vfio"
_GROUP_NODE = "/dev/vfio/"
_MAJOR = 238


class Vfio:
    """Devices that can be opened by a VM. Not locked: its host serialises access."""

    def __init__(
        self,
        devices: Devices,
        processes: Processes,
        locks: Locks,
        in_use: Callable[[Block], bool],
    ) -> None:
        self._devices = devices
        self._processes = processes
        self._locks = locks
        self._in_use = in_use
        """Whether something else has a function's memory, such as the console of a boot GPU."""
        self._offered: dict[str, int] = {}
        self._open: dict[str, int] = {}
        self._members: dict[int, set[str]] = {}
        """The offered devices of each group."""
        self._lowest_minor = 0

    def register(self, path: str) -> None:
        """Offer a device (path below /sys; a function or an mdev with `iommu_group`) to VMs.

        Adds and announces its group's node unless another device of the group has done so. Without
        IOMMU there is no group, and nothing that a VM could open.
        """
        group = iommu_group(self._devices[path])
        if group is None:
            return
        node = _node_path(group)
        if node not in self._devices:
            self._devices.add(self._group_node(node, group))
        self._offered[path] = group
        self._members.setdefault(group, set()).add(path)

    def unregister(self, path: str) -> None:
        """Withdraw the offer: wait until no process has the device open, then remove the node."""
        self._locks.wait(lambda: not self.held(path))
        group = self._offered.pop(path, None)
        if group is None:
            return
        self._members[group].discard(path)
        if not self._members[group]:
            del self._members[group]
            gone = self._devices.remove(_node_path(group))
            self._lowest_minor = min(self._lowest_minor, int(gone.properties["MINOR"]))

    def held(self, path: str) -> bool:
        """Whether a process has a device open."""
        return path in self._open

    def used(self, group: int | None) -> bool:
        """Whether a process uses a group, so that no ordinary driver may join it."""
        return any(self._offered.get(path) == group for path in self._open)

    def viable(self, group: int | str) -> bool:
        """Whether a group may be used: no member has an ordinary driver."""
        directory = f"{GROUPS}/{group}/devices"
        return all(
            self._harmless(self._devices.tree.resolve(f"{directory}/{name}").removeprefix("/sys"))
            for name in self._devices.tree.names(directory)
        )

    def _harmless(self, path: str) -> bool:
        driver = self._devices[path].properties.get("DRIVER", "")
        return not driver or driver in SHARING or path in self._offered

    def hold(self, path: str, name: str, pod: str = "") -> Holder:
        """A process that opens a device, by group node, sysfs path or any other device node.

        Raises what opening gives: ENOENT without the node, EPERM when the group is not viable,
        ENODEV for a device that is not offered, EBUSY while its memory is in use elsewhere.
        """
        if path.startswith(_GROUP_NODE) and path != _CONTAINER:
            self._devices.tree.resolve(path)
            group = int(path.removeprefix(_GROUP_NODE))
            return self._open_devices(sorted(self._members.get(group, ())), group, name, pod)
        real = self._devices.tree.resolve(path)
        if not real.startswith("/sys/"):
            return self._start(name, [real], (), pod)
        device = real.removeprefix("/sys")
        if device not in self._offered:
            raise os_error(errno.ENODEV, path)
        return self._open_devices([device], self._offered[device], name, pod)

    def _open_devices(self, devices: list[str], group: int, name: str, pod: str) -> Holder:
        node = f"{_GROUP_NODE}{group}"
        if not self.viable(group):
            raise os_error(errno.EPERM, node)
        if any(self._in_use(self._devices[path]) for path in devices):
            raise os_error(errno.EBUSY, node)
        files = [_CONTAINER, node, *["anon_inode:[vfio-device]"] * len(devices)]
        return self._start(name, files, devices, pod)

    def _start(self, name: str, files: Iterable[str], devices: Iterable[str], pod: str) -> Holder:
        pid = self._processes.start(name, files, pod)
        held = list(devices)
        for path in held:
            self._open[path] = self._open.get(path, 0) + 1

        def release() -> None:
            with self._locks.lock:
                self._processes.end(pid)
                for path in held:
                    self._open[path] -= 1
                    if not self._open[path]:
                        del self._open[path]
                held.clear()
                self._locks.notify()

        return Holder(pid, name, release)

    def _group_node(self, path: str, group: int) -> Block:
        numbers = self._devices.tree.get("/sys/dev/char")
        taken = numbers if isinstance(numbers, Directory) else ()
        minor = self._lowest_minor
        while f"{_MAJOR}:{minor}" in taken:
            minor += 1
        self._lowest_minor = minor
        return Block(
            path=path,
            properties={
                "DEVNAME": f"{_GROUP_NODE}{group}",
                "MAJOR": str(_MAJOR),
                "MINOR": str(minor),
                "SUBSYSTEM": "vfio",
            },
            attributes={"dev": f"{_MAJOR}:{minor}\n".encode()},
            node=f"vfio/{group}",
        )


def _node_path(group: int) -> str:
    return f"/devices/virtual/vfio/{group}"
