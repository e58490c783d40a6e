"""NVIDIA's vGPU driver on a simulated host: its files on every VF, on both frameworks.

Reading computes from the accounting of the GPU, so what one VF offers follows what its siblings
carry. Refusals have the errno that the kernel, or the kernel rig's driver, gives, and a write that
NVIDIA's driver answers by clearing the function (an unknown type) clears it here.
"""

from __future__ import annotations

import errno
import os
import posixpath
import re

from laneway.sim.board import board_types
from laneway.sim.devices import Devices
from laneway.sim.dump import Block
from laneway.sim.gpu import Card, CardType
from laneway.sim.load import GROUPS, free_group, iommu_group
from laneway.sim.tree import Attribute, Directory, Node

_MDEV_DRIVER = "nvidia-vgpu-vfio"
_VFIO_MAJOR = 238
_TYPES = "mdev_supported_types"
_CURRENT = "nvidia/current_vgpu_type"
_HEADER = "ID    : vGPU Name\n"

_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_UUID_LENGTH = 36
_INTEGER = re.compile(r"\+?(0[xX][0-9a-fA-F]{1,64}|[0-9]{1,64})\n?")
_TYPE_ID = re.compile(r"[0-9]{1,9}")
_UNKNOWN_SIZE = 0


class VgpuDriver:
    """Every GPU that has functions for vGPUs, by the path of its PF."""

    def __init__(self, devices: Devices) -> None:
        self._devices = devices
        self._tree = devices.tree
        self._cards: dict[str, Card] = {}
        self._card_of: dict[str, Card] = {}

    def probe(self, blocks: list[Block]) -> None:
        """Take over the VFs among these devices, with the vGPUs that already exist on them."""
        by_card: dict[str, list[Block]] = {}
        for block in blocks:
            if block.properties.get("DRIVER") == "nvidia" and "physfn" in block.links:
                pf = posixpath.normpath(f"{block.path}/{block.links['physfn']}")
                by_card.setdefault(pf, []).append(block)
        for pf, functions in by_card.items():
            card = self._cards.get(pf)
            if card is None:
                card = self._cards[pf] = Card(board_types(self._devices.get(pf), functions))
            for function in functions:
                self._card_of[function.path] = card
                if _CURRENT in function.attributes:
                    self._offer_vendor(card, function)
                else:
                    self._offer_mdev(card, function.path)
        for block in blocks:
            if block.properties.get("SUBSYSTEM") == "mdev":
                self._adopt_mdev(block)

    def remove(self, path: str) -> None:
        """Take a device away, and with it what this driver knows of it."""
        parent, _, name = path.rpartition("/")
        if parent in self._card_of and _UUID.fullmatch(name):
            self._remove_mdev(parent, name)
            return
        self._devices.remove(path)
        self._cards.pop(path, None)
        if path in self._card_of:
            self._card_of.pop(path).clear(path)
            self._tree.discard(f"/sys/class/mdev_bus/{name}")

    # ----------------------------------------------------------------------------- vendor VFIO

    def _offer_vendor(self, card: Card, function: Block) -> None:
        home = function.path
        given = function.attributes[_CURRENT].decode("ascii", "replace").strip()
        if _TYPE_ID.fullmatch(given) and int(given):
            card.configure(home, _kind(card, int(given)))

        def creatable() -> bytes:
            rows = (f"{kind.id:<6}: {kind.name}\n" for kind in card.creatable(home))
            return (_HEADER + "".join(rows)).encode()

        def current() -> bytes:
            kind = card.configured(home)
            return b"%d\n" % (kind.id if kind else 0)

        def store(data: str) -> None:
            wanted = _parse_u32(data)
            kind = card.types.get(wanted)
            if kind is None:
                card.clear(home)
                if wanted:
                    raise _error(errno.EIO)
            elif kind not in card.creatable(home):
                raise _error(errno.EIO)
            else:
                card.configure(home, kind)

        self._tree.put(f"/sys{home}/nvidia/creatable_vgpu_types", Attribute(creatable))
        self._tree.put(f"/sys{home}/{_CURRENT}", Attribute(current, store))

    # ------------------------------------------------------------------------------------ mdev

    def _offer_mdev(self, card: Card, home: str) -> None:
        self._tree.discard(f"/sys{home}/{_TYPES}")
        for kind in card.types.values():
            self._offer_mdev_type(card, home, kind)
        name = home.rpartition("/")[2]
        self._tree.link(f"/sys/class/mdev_bus/{name}", f"/sys{home}")
        self._devices.announce("change", home, MDEV_STATE="registered")

    def _offer_mdev_type(self, card: Card, home: str, kind: CardType) -> None:
        def available() -> bytes:
            return b"1\n" if kind in card.creatable(home) else b"0\n"

        def create(data: str) -> None:
            uuid = _parse_uuid(data)
            if self._tree.exists(f"/sys/bus/mdev/devices/{uuid}"):
                raise _error(errno.EEXIST)
            self._create_mdev(card, home, kind, uuid)

        description = (
            f"num_heads={1 if kind.name[-1:] in 'AC' else 4}, frl_config=60, "
            f"framebuffer={kind.framebuffer_mib}M, max_resolution=7680x4320, "
            f"max_instance={kind.maximum}\n"
        )
        files: dict[str, Node] = {
            "name": f"{kind.name}\n".encode(),
            "description": description.encode(),
            "device_api": b"vfio-pci\n",
            "available_instances": Attribute(available),
            "create": Attribute(store=create),
            "devices": Directory(),
        }
        for name, node in files.items():
            self._tree.put(f"/sys{home}/{_TYPES}/nvidia-{kind.id}/{name}", node)

    def _create_mdev(self, card: Card, home: str, kind: CardType, uuid: str) -> None:
        path = f"{home}/{uuid}"
        bare = Block(path=path, properties={"SUBSYSTEM": "mdev"})
        self._devices.add(bare)
        if kind not in card.creatable(home):
            self._devices.remove(path)
            raise _error(errno.ENOSPC)
        card.configure(home, kind)
        group = free_group(self._tree)
        up = posixpath.relpath("/sys", f"/sys{path}")
        whole = Block(
            path=path,
            properties={"DRIVER": _MDEV_DRIVER, "SUBSYSTEM": "mdev"},
            attributes={"nvidia/vgpu_params": b"\n", "nvidia/vm_name": b"\n"},
            links={
                "iommu_group": f"{up}{GROUPS[4:]}/{group}",
                "mdev_type": f"../{_TYPES}/nvidia-{kind.id}",
            },
        )
        self._devices.load([whole])
        self._devices.add(self._group_node(group))
        self._finish_mdev(home, uuid, kind.id)
        self._devices.announce("bind", path)

    def _adopt_mdev(self, block: Block) -> None:
        home, _, uuid = block.path.rpartition("/")
        card = self._card_of.get(home)
        number = block.links.get("mdev_type", "").rpartition("/nvidia-")[2]
        if card is None or not _UUID.fullmatch(uuid) or not _TYPE_ID.fullmatch(number):
            return
        card.configure(home, _kind(card, int(number)))
        self._finish_mdev(home, uuid, int(number))

    def _finish_mdev(self, home: str, uuid: str, number: int) -> None:
        def remove(data: str) -> None:
            if _parse_u32(data):
                self._remove_mdev(home, uuid)

        path = f"/sys{home}/{uuid}"
        self._tree.put(f"{path}/remove", Attribute(store=remove))
        if number in self._card_of[home].types:
            self._tree.link(f"/sys{home}/{_TYPES}/nvidia-{number}/devices/{uuid}", path)

    def _remove_mdev(self, home: str, uuid: str) -> None:
        path = f"{home}/{uuid}"
        group = iommu_group(self._devices[path])
        group_node = f"/devices/virtual/vfio/{group}"
        if group_node in self._devices:
            self._devices.remove(group_node)
        self._devices.remove(path)
        kind = self._card_of[home].configured(home)
        if kind is not None:
            self._tree.discard(f"/sys{home}/{_TYPES}/nvidia-{kind.id}/devices/{uuid}")
        self._card_of[home].clear(home)

    def _group_node(self, group: int) -> Block:
        """The device node through which a VM opens an IOMMU group."""
        numbers = self._tree.get("/sys/dev/char")
        taken = numbers if isinstance(numbers, Directory) else ()
        minor = next(m for m in range(len(taken) + 1) if f"{_VFIO_MAJOR}:{m}" not in taken)
        return Block(
            path=f"/devices/virtual/vfio/{group}",
            properties={
                "DEVNAME": f"/dev/vfio/{group}",
                "MAJOR": str(_VFIO_MAJOR),
                "MINOR": str(minor),
                "SUBSYSTEM": "vfio",
            },
            attributes={"dev": f"{_VFIO_MAJOR}:{minor}\n".encode()},
            node=f"vfio/{group}",
        )


def _kind(card: Card, number: int) -> CardType:
    """The type that a dump shows as configured; one that nobody knows has a size of its own."""
    return card.types.get(number) or CardType(number, "", _UNKNOWN_SIZE, 1)


def _parse_uuid(data: str) -> str:
    """A UUID as the kernel reads it: one more byte may follow, a newline as a rule."""
    uuid = data[:_UUID_LENGTH]
    extra = len(data.encode()) - _UUID_LENGTH
    if extra not in (0, 1) or not _UUID.fullmatch(uuid):
        raise _error(errno.EINVAL)
    return uuid.lower()


def _parse_u32(data: str) -> int:
    """An unsigned number as the kernel reads it: decimal, octal or hexadecimal by its prefix."""
    match = _INTEGER.fullmatch(data)
    if match is None:
        raise _error(errno.EINVAL)
    digits = match[1]
    octal = digits[0] == "0" and digits.isdecimal()
    if octal and not set(digits) <= set("01234567"):
        raise _error(errno.EINVAL)
    number = int(digits, 8 if octal else 0)
    if number >= 1 << 32:
        raise _error(errno.ERANGE)
    return number


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))
