"""The files through which the PCI core of a simulated host is controlled.

They hold plain bytes like any attribute; that writing to one does something follows from its path,
so a rack of hosts with thousands of functions costs no object for each of their files.
"""

from __future__ import annotations

import errno
import posixpath
from collections.abc import Callable

import msgspec

from laneway.sim.dump import Block
from laneway.sim.load import GROUPS, iommu_group
from laneway.sim.pci_core import WRITE_ONLY, PciCore
from laneway.sim.sriov import RESCAN, change_vfs, disable_vfs
from laneway.sim.tree import os_error
from laneway.sim.values import parse_bool, parse_name, parse_unsigned

BUS = "/sys/bus/pci"
_MAX_OVERRIDE = 4094

Store = Callable[[str], None]


class PciFiles:
    """What writing to the PCI core's files does."""

    def __init__(self, core: PciCore, plug: Callable[[list[Block]], None]) -> None:
        self._core = core
        self._plug = plug
        self._removed: list[Block] = []
        """What was removed by hand: the next rescan finds it again."""
        self._former_groups: set[int] = set()
        for name in ("drivers_probe", "rescan"):
            core.devices.tree.put(f"{BUS}/{name}", WRITE_ONLY)

    def store(self, path: str) -> Store | None:
        """What writing to a path does; None for what is no file of this kind. Links resolved."""
        if path.startswith(BUS + "/"):
            return self._bus_file(path.removeprefix(BUS + "/").split("/"))
        home, _, name = path.removeprefix("/sys").rpartition("/")
        if not self._core.is_function(home):
            return None
        stores: dict[str, Callable[[str, str], None]] = {
            "driver_override": self._override,
            "enable": self._enable,
            "remove": self._remove,
            "reset": self._reset,
            "sriov_drivers_autoprobe": self._autoprobe,
            "sriov_numvfs": self._numvfs,
        }
        store = stores.get(name)
        return store and (lambda data: store(home, data))

    def _bus_file(self, names: list[str]) -> Store | None:
        match names:
            case ["drivers_probe"]:
                return self._drivers_probe
            case ["rescan"]:
                return self._rescan
            case ["drivers", driver, "bind"]:
                return lambda data: self._core.bind(self._named(data, errno.ENODEV), driver)
            case ["drivers", driver, "unbind"]:
                return lambda data: self._core.unbind(self._named(data, errno.ENODEV), driver)
        return None

    def _named(self, data: str, error: int) -> str:
        """The function of an address as it was written."""
        name = parse_name(data)
        tree = self._core.devices.tree
        if (
            not name
            or "/" in name
            or name in (".", "..")
            or not tree.exists(f"{BUS}/devices/{name}")
        ):
            raise os_error(error)
        return tree.resolve(f"{BUS}/devices/{name}").removeprefix("/sys")

    def _drivers_probe(self, data: str) -> None:
        self._core.probe(self._named(data, errno.EINVAL))

    def _rescan(self, data: str) -> None:
        if not parse_unsigned(data, 64):
            return
        with self._core.locks.device(RESCAN):
            blocks, self._removed = self._removed, []
            self._plug(self._regrouped(blocks))

    def _regrouped(self, blocks: list[Block]) -> list[Block]:
        """Functions whose IOMMU group went with them get the lowest numbers that are free now."""
        tree = self._core.devices.tree
        taken = {int(name) for name in tree.names(GROUPS)} if tree.exists(GROUPS) else set()
        numbers: dict[int | None, int] = {}
        for group in sorted(self._former_groups):
            numbers[group] = next(n for n in range(len(taken) + 1) if n not in taken)
            taken.add(numbers[group])
        self._former_groups.clear()
        return [_in_group(block, numbers.get(iommu_group(block))) for block in blocks]

    # -------------------------------------------------------------------- files of a function

    def _override(self, home: str, data: str) -> None:
        if len(data.encode()) > _MAX_OVERRIDE:
            raise os_error(errno.EINVAL)
        name = data.partition("\n")[0]
        with self._core.locks.device(home):
            self._core.devices.set_attribute(home, "driver_override", name or "(null)")

    def _enable(self, home: str, data: str) -> None:
        wanted = parse_unsigned(data, 64)
        with self._core.locks.device(home):
            if self._core.driver_of(home):
                raise os_error(errno.EBUSY)
            if not wanted and self._core.devices[home].attributes["enable"] == b"0\n":
                raise os_error(errno.EIO)
            self._core.set_enabled(home, enabled=bool(wanted))

    def _reset(self, home: str, data: str) -> None:
        if parse_unsigned(data, 64) != 1:
            raise os_error(errno.EINVAL)
        with self._core.locks.device(home):
            if not self._core.devices[home].attributes.get("reset_method", b"").strip():
                raise os_error(errno.ENOTTY)

    def _autoprobe(self, home: str, data: str) -> None:
        value = "1" if parse_bool(data) else "0"
        self._core.devices.set_attribute(home, "sriov_drivers_autoprobe", value)

    def _numvfs(self, home: str, data: str) -> None:
        try:
            count = parse_unsigned(data, 16)
        except OSError:
            raise os_error(errno.EINVAL) from None
        change_vfs(self._core, home, count, ask_driver=True)

    def _remove(self, home: str, data: str) -> None:
        if not parse_unsigned(data, 64):
            return
        with self._core.locks.device(RESCAN):
            disable_vfs(self._core, home)
            gone = self._core.unplug(home)
            self._removed += gone
            tree = self._core.devices.tree
            groups = {group for group in map(iommu_group, gone) if group is not None}
            self._former_groups |= {g for g in groups if not tree.exists(f"{GROUPS}/{g}")}


def _in_group(block: Block, group: int | None) -> Block:
    """A function in another IOMMU group, or as it is."""
    if group is None:
        return block
    target = f"{posixpath.dirname(block.links['iommu_group'])}/{group}"
    return msgspec.structs.replace(block, links={**block.links, "iommu_group": target})
