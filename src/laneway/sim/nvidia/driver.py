"""NVIDIA's vGPU driver on a simulated host: a GPU with its VFs is one card.

A VF offers vGPUs from the moment that the driver has it, through the framework that its GPU was
captured with or, when that shows nothing, that the driver's release uses; to release a VF
destroys its vGPU, and of a GPU its instances. What a card is, which types it has and whether it is
in MIG mode outlasts all of this: it is the hardware's.
"""

from __future__ import annotations

import errno
import posixpath
import re
import uuid
from collections.abc import Mapping

from laneway.sim.dump import Block
from laneway.sim.nvidia import vendor
from laneway.sim.nvidia.card import Card
from laneway.sim.nvidia.geometry import GEOMETRIES
from laneway.sim.nvidia.mdev import TYPES, Mdevs
from laneway.sim.nvidia.names import product_name
from laneway.sim.nvidia.types import CURRENT, CardType, card_types, hex_id
from laneway.sim.pci_core import PciCore
from laneway.sim.sriov import disable_vfs
from laneway.sim.tree import Attribute, os_error

_NVIDIA = "10de"
_DISPLAY_CLASSES = ("0x0300", "0x0302")
_PROC = "/proc/driver/nvidia"
_RELEASE = re.compile(r"Module\s+([0-9]{1,4})\.([0-9.]{1,20})")
_TYPE_ID = re.compile(r"[0-9]{1,9}")
_FIRST_VENDOR_RELEASE = 550


class NvidiaDriver:
    """Every NVIDIA GPU of a host. Called with the host's lock held."""

    name = "nvidia"

    def __init__(self, core: PciCore, serials: Mapping[str, str]) -> None:
        """`serials` of the cards that are not where their server has them from the start."""
        self.core = core
        self.devices = core.devices
        self.tree = core.devices.tree
        self._serials = serials
        self._mdevs = Mdevs(core.devices, core.vfio)
        self._cards: dict[str, Card] = {}
        self._vendor_cards: set[str] = set()
        self._minors: dict[str, int] = {}
        self._physical: dict[str, str] = {}
        """The PF of each VF that the driver has: its `physfn` link goes before it does."""

    # ------------------------------------------------------------------ what the PCI core calls

    def matches(self, block: Block) -> bool:
        kind = block.attributes.get("class", b"").decode("ascii", "replace")
        return hex_id(block, "vendor") == _NVIDIA and kind.startswith(_DISPLAY_CLASSES)

    def adopt(self, blocks: list[Block]) -> None:
        """GPUs and VFs that have the driver already, with their vGPUs."""
        functions: dict[str, list[Block]] = {}
        mine = [block for block in blocks if block.properties.get("DRIVER") == self.name]
        for block in mine:
            if "physfn" in block.links:
                functions.setdefault(_physical(block), []).append(block)
            else:
                functions.setdefault(block.path, [])
        for path, virtual in functions.items():
            self._learn(path, virtual)
        for block in mine:
            self.probe(block)
            if "physfn" in block.links:
                self._adopt_vgpu(block)

    def probe(self, block: Block) -> None:
        """Take a function, whose files are there."""
        if "physfn" not in block.links:
            self._learn(block.path, [])
            self._show_gpu(block)
            return
        physical = self._physical[block.path] = _physical(block)
        card = self._learn(physical, [block])
        if physical in self._vendor_cards:
            vendor.offer(self.tree, self.core.vfio, card, block.path)
            self.core.vfio.register(block.path)
        else:
            self._mdevs.offer(card, block.path)

    def remove(self, path: str) -> None:
        """Release a function; waits for a VM that has its vGPU open."""
        physical = self._physical.pop(path, None)
        if physical is None:
            # As the rig's driver: VFs do not outlive it, and neither does what they carry.
            disable_vfs(self.core, path)
            self._hide_gpu(path)
            self._cards[path].rebound()
            return
        card = self._cards[physical]
        if physical in self._vendor_cards:
            self.core.vfio.unregister(path)
            vendor.withdraw(self.tree, path)
        else:
            self._mdevs.withdraw(card, path)
        card.remove(path)

    def configure_vfs(self, path: str, count: int) -> None:  # noqa: ARG002 - as a driver has it
        """A plain write may make VFs; only sriov-manage may remove them."""
        if count == 0:
            raise os_error(errno.EPERM)

    def has_vendor_vf(self, block: Block) -> bool:
        """Whether a function is a VF of the vendor framework, which vfio-pci cannot drive."""
        return "physfn" in block.links and _physical(block) in self._vendor_cards

    # -------------------------------------------------------------------- what the programs call

    def gpus(self) -> list[str]:
        """The GPUs that the driver has (paths of their PFs), in the order of their addresses."""
        return sorted(self._minors, key=posixpath.basename)

    def known(self) -> list[str]:
        """The GPUs that are there, whichever driver has them."""
        there = (path for path in self._cards if path in self.devices)
        return sorted(there, key=posixpath.basename)

    def card(self, path: str) -> Card:
        return self._cards[path]

    def release(self) -> str:
        """The driver's release."""
        try:
            found = _RELEASE.search(self.tree.read(f"{_PROC}/version").decode("ascii", "replace"))
        except OSError:
            found = None
        return f"{found[1]}.{found[2]}" if found else "0.0"

    def identity(self, path: str, *more: object) -> str:
        """A UUID of a GPU, or of something on it: always the same on the same host, in any slot."""
        host = self.tree.read("/proc/sys/kernel/hostname").decode()
        card = self._serials.get(path, path)
        return str(uuid.uuid5(uuid.NAMESPACE_OID, " ".join(map(str, (host, card, *more)))))

    def watched(self, path: str) -> bool:
        """Whether a process, a management client, has the GPU itself open."""
        node = f"/dev/nvidia{self._minors[path]}"
        for process in self.tree.names("/proc"):
            files = f"/proc/{process}/fd"
            if process.isdecimal() and self.tree.exists(files):
                links = (self.tree.get(f"{files}/{name}") for name in self.tree.names(files))
                if node in links:
                    return True
        return False

    # ---------------------------------------------------------------------------------- its own

    def _learn(self, path: str, functions: list[Block]) -> Card:
        """The card of a PF, made when it is first seen, with what its VFs tell."""
        card = self._cards.get(path)
        if card is None:
            physical = self.devices.get(path)
            device = hex_id(physical, "device") or hex_id(next(iter(functions), None), "device")
            types = card_types(physical, functions)
            card = self._cards[path] = Card(types, GEOMETRIES.get(device))
            captured = [name for one in functions for name in one.attributes]
            by_release = int(self.release().partition(".")[0]) >= _FIRST_VENDOR_RELEASE
            as_mdevs = any(name.startswith(TYPES) for name in captured)
            if CURRENT in captured or (by_release and not as_mdevs):
                self._vendor_cards.add(path)
        return card

    def _adopt_vgpu(self, block: Block) -> None:
        physical = _physical(block)
        card = self._cards[physical]
        if physical not in self._vendor_cards:
            self._mdevs.adopt(card, block.path)
            return
        given = block.attributes.get(CURRENT, b"").decode("ascii", "replace").strip()
        if _TYPE_ID.fullmatch(given) and int(given):
            number = int(given)
            card.adopt(block.path, card.types.get(number) or CardType(number, "", 0, 1))

    def _show_gpu(self, block: Block) -> None:
        taken = set(self._minors.values())
        minor = next(n for n in range(len(taken) + 1) if n not in taken)
        address = posixpath.basename(block.path)
        self._minors[block.path] = minor

        def information() -> bytes:
            rows = (
                ("Model", product_name(block)),
                ("IRQ", str(64 + minor)),
                ("GPU UUID", f"GPU-{self.identity(block.path)}"),
                ("Video BIOS", "96.00.74.00.01"),
                ("Bus Type", "PCIe"),
                ("DMA Size", "47 bits"),
                ("DMA Mask", "0x7fffffffffff"),
                ("Bus Location", address),
                ("Device Minor", str(minor)),
                ("GPU Firmware", self.release()),
                ("GPU Excluded", "No"),
            )
            return "".join(f"{name + ':':<17}{value}\n" for name, value in rows).encode()

        self.tree.put(f"{_PROC}/gpus/{address}/information", Attribute(information))
        self.tree.put(f"/dev/nvidia{minor}", b"")

    def _hide_gpu(self, path: str) -> None:
        self.tree.discard(f"/dev/nvidia{self._minors.pop(path)}")
        self.tree.discard(f"{_PROC}/gpus/{posixpath.basename(path)}")


def _physical(block: Block) -> str:
    """The path of a VF's PF."""
    return posixpath.normpath(f"{block.path}/{block.links['physfn']}")
