"""The drivers of a simulated host that need no simulation of their own, and vfio-pci.

A driver is known by the devices that had it when the host was made; a device that had none, or
vfio-pci, gets what its class or ids suggest. What hangs below a function, such as the disk of an
NVMe controller, comes and goes with the function's driver.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable

from laneway.sim.dump import Block
from laneway.sim.pci_core import PciCore
from laneway.sim.sriov import disable_vfs, vfs_of
from laneway.sim.tree import os_error

VFIO_PCI = "vfio-pci"
_BY_OVERRIDE_ONLY = frozenset({VFIO_PCI, "pci-stub"})

_BY_CLASS = {
    "010802": "nvme",
    "0403": "snd_hda_intel",
    "0604": "pcieport",
    "0c0330": "xhci_hcd",
}
_BY_ID = {
    "8086:1520": "igbvf",
    "8086:1521": "igb",
    "8086:154c": "iavf",
    "8086:1572": "i40e",
    "8086:159b": "ice",
    "8086:1889": "iavf",
    "15b3:101e": "mlx5_core",
    "15b3:1021": "mlx5_core",
    "1002:740f": "amdgpu",
    "1002:7410": "amdgpu",
    "8086:56c0": "i915",
}
_NETWORK, _BRIDGE = "02", "0604"


class PlainDrivers:
    """The ordinary drivers of one host, loaded with the first device that they want."""

    def __init__(self, core: PciCore) -> None:
        self._core = core
        self._known: dict[str, str] = {}

    def learn(self, blocks: Iterable[Block]) -> None:
        """Load the drivers of devices that have arrived, and of the VFs that they may have."""
        for block in blocks:
            if block.properties.get("SUBSYSTEM") != "pci":
                continue
            driver = block.properties.get("DRIVER", "")
            if driver and driver not in _BY_OVERRIDE_ONLY:
                self._known[identity(block)] = driver
            vf = attribute(block, "sriov_vf_device")
            ids = f"{attribute(block, 'vendor')}:{vf}"
            for name in (driver, self.natural(block), _BY_ID.get(ids, "")):
                if name and name not in _BY_OVERRIDE_ONLY and self._core.driver(name) is None:
                    self._core.register(PlainDriver(name, self._core, self.natural))

    def natural(self, block: Block) -> str:
        """The driver that a function gets by default; empty for none."""
        ids = identity(block)
        code = attribute(block, "class")
        return (
            self._known.get(ids)
            or _BY_ID.get(ids)
            or next((name for begin, name in _BY_CLASS.items() if code.startswith(begin)), "")
        )


class PlainDriver:
    """A driver whose devices do nothing that matters here."""

    def __init__(self, name: str, core: PciCore, natural: Callable[[Block], str]) -> None:
        self.name = name
        self._core = core
        self._natural = natural
        self._below: dict[str, list[Block]] = {}

    def matches(self, block: Block) -> bool:
        return self._natural(block) == self.name

    def adopt(self, blocks: list[Block]) -> None:
        """What hangs below its devices is among the blocks."""

    def probe(self, block: Block) -> None:
        for child in self._below.pop(block.path, ()):
            self._core.devices.add(child)

    def remove(self, path: str) -> None:
        devices = self._core.devices
        if attribute(devices[path], "class").startswith(_NETWORK):
            disable_vfs(self._core, path)
        gone = [
            devices.remove(inner)
            for inner in devices.below(path)
            if inner != path and self._owner(inner) == path
        ]
        self._below[path] = gone[::-1]

    def _owner(self, path: str) -> str:
        """The nearest function above a device, or itself."""
        while path and not self._core.is_function(path):
            path = path.rpartition("/")[0]
        return path

    def configure_vfs(self, path: str, count: int) -> None:
        """Every driver of a card with VFs lets them come and go."""


class VfioPci:
    """The driver that hands functions to VMs; it wants none by itself."""

    name = VFIO_PCI

    def __init__(
        self,
        core: PciCore,
        evict: Callable[[Block], None],
        only_by_its_own: Callable[[Block], bool],
    ) -> None:
        """`only_by_its_own`: whether no VFIO driver but a function's own can drive it."""
        self._core = core
        self._evict = evict
        """Takes firmware's framebuffer out of a function's memory."""
        self._only_by_its_own = only_by_its_own

    def matches(self, block: Block) -> bool:  # noqa: ARG002 - it wants none
        return False

    def adopt(self, blocks: list[Block]) -> None:
        for block in blocks:
            self._core.vfio.register(block.path)

    def probe(self, block: Block) -> None:
        bridge = attribute(block, "class").startswith(_BRIDGE)
        if "iommu_group" not in block.links or bridge or self._only_by_its_own(block):
            raise os_error(errno.EINVAL)
        if vfs_of(self._core, block.path):
            raise os_error(errno.EBUSY)
        if not self._core.faults.framebuffer_stays:
            self._evict(block)
        self._core.vfio.register(block.path)

    def remove(self, path: str) -> None:
        self._core.vfio.unregister(path)

    def configure_vfs(self, path: str, count: int) -> None:  # noqa: ARG002 - it never can
        raise os_error(errno.ENOENT)


def attribute(block: Block, name: str) -> str:
    """An attribute as text; hexadecimal ids without prefix."""
    text = block.attributes.get(name, b"").decode("utf-8", "replace").strip()
    return text.removeprefix("0x")


def identity(block: Block) -> str:
    return f"{attribute(block, 'vendor')}:{attribute(block, 'device')}"
