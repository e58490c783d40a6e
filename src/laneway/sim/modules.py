"""The kernel modules of a simulated host that matter to it: vfio-pci, loaded, loadable or neither.

What the host's files say is what is so: a driver that works has a directory on its bus, and one
that can be loaded is in the index of `modprobe`.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Sequence
from typing import Literal

from laneway.sim.programs import Program
from laneway.sim.tree import Tree

Availability = Literal["ready", "loadable", "missing"]

RELEASE = "6.8.0-51-generic"
_INDEX = f"/lib/modules/{RELEASE}"
_DIRECTORY = "/sys/bus/pci/drivers/vfio-pci"
_FILE = "kernel/drivers/vfio/pci/vfio-pci.ko.zst"
_NOUVEAU = "kernel/drivers/gpu/drm/nouveau/nouveau.ko.zst"
_NEEDS = ("vfio-pci-core", "vfio")
_BUILT_IN = ("kernel/drivers/pci/pcie/pcieportdrv.ko", "kernel/fs/ext4/ext4.ko")


def kernel_files(vfio: Availability) -> dict[str, bytes]:
    """The files of a kernel that has vfio-pci loaded, as a module, or not at all."""
    needs = " ".join(f"{posixpath.dirname(_FILE)}/{name}.ko.zst" for name in _NEEDS)
    files = {
        "/proc/sys/kernel/osrelease": f"{RELEASE}\n".encode(),
        f"{_INDEX}/modules.builtin": "".join(f"{name}\n" for name in _BUILT_IN).encode(),
        f"{_INDEX}/modules.dep": (
            f"{_NOUVEAU}:\n" + ("" if vfio == "missing" else f"{_FILE}: {needs}\n")
        ).encode(),
    }
    return files | _loaded_files() if vfio == "ready" else files


def _loaded_files() -> dict[str, bytes]:
    return {
        f"{_DIRECTORY}/uevent": b"",
        "/sys/module/vfio_pci/refcnt": b"0\n",
        "/dev/vfio/vfio": b"",
    }


class Modules:
    """Loads vfio-pci when asked to, or at once where it is there."""

    def __init__(self, tree: Tree, load: Callable[[], None]) -> None:
        self._tree = tree
        self._load = load
        self._loaded = tree.exists(_DIRECTORY)
        self.program = Program(self._modprobe, lambda _: True)
        if self._loaded:
            self._start()

    def _modprobe(self, argv: Sequence[str]) -> tuple[int, str]:
        names = [word for word in argv[1:] if not word.startswith("-")]
        for name in names:
            if not self._modprobe_one(name.replace("_", "-")):
                return 1, f"modprobe: FATAL: Module {name} not found in directory {_INDEX}\n"
        return 0, ""

    def _modprobe_one(self, name: str) -> bool:
        if name != "vfio-pci":
            module = name.replace("-", "_")
            return any(
                self._tree.exists(path)
                for path in (f"/sys/module/{module}", f"/sys/bus/pci/drivers/{name}")
            )
        if self._loaded:
            return True
        if not self._tree.exists(f"{_INDEX}/modules.dep") or _FILE.encode() not in self._tree.read(
            f"{_INDEX}/modules.dep"
        ):
            return False
        for path, content in _loaded_files().items():
            self._tree.put(path, content)
        self._loaded = True
        self._start()
        return True

    def _start(self) -> None:
        for path in ("/sys/class/vfio", "/sys/devices/virtual/vfio"):
            self._tree.mkdir(path)
        self._load()
