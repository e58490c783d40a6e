"""vGPUs as mediated devices: type directories on every VF, and the devices made through them."""

from __future__ import annotations

import errno
import posixpath
import re
from collections.abc import Mapping
from functools import lru_cache

from laneway.sim.devices import Devices
from laneway.sim.dump import Block
from laneway.sim.load import GROUPS, free_group
from laneway.sim.nvidia.card import Card
from laneway.sim.nvidia.contents import UUID, parse_parameters, parse_uuid
from laneway.sim.nvidia.types import CardType
from laneway.sim.nvidia.vendor import or_none
from laneway.sim.tree import Attribute, Directory, Node, os_error
from laneway.sim.values import parse_unsigned
from laneway.sim.vfio import Vfio

TYPES = "mdev_supported_types"
_DRIVER = "nvidia-vgpu-vfio"
_PREFIX = "nvidia-"
_TYPE_ID = re.compile(r"[0-9]{1,9}")


class Mdevs:
    """The mediated devices of a host's GPUs. Not locked: its host serialises access."""

    def __init__(self, devices: Devices, vfio: Vfio) -> None:
        self._devices = devices
        self._vfio = vfio
        self._tree = devices.tree
        self._known: set[str] = set()
        """The UUIDs that are taken, also by what is off the bus already and waits to be closed."""

    def offer(self, card: Card, home: str) -> None:
        """Let a function (path below /sys) be a parent."""
        self._tree.discard(f"/sys{home}/{TYPES}")
        for kind in card.types.values():
            self._offer_type(card, home, kind)
        self._tree.link(f"/sys/class/mdev_bus/{posixpath.basename(home)}", f"/sys{home}")
        self._devices.announce("change", home, MDEV_STATE="registered")

    def withdraw(self, card: Card, home: str) -> None:
        """Remove the function's vGPUs, waiting for who has one open, and its type directories."""
        for path in self._devices.below(home):
            if self._devices[path].properties.get("SUBSYSTEM") == "mdev":
                self.remove(card, path)
        self._tree.discard(f"/sys/class/mdev_bus/{posixpath.basename(home)}")
        self._tree.discard(f"/sys{home}/{TYPES}")
        self._devices.announce("change", home, MDEV_STATE="unregistered")

    def adopt(self, card: Card, home: str) -> None:
        """Take over the vGPUs of a function that exist already."""
        for path in self._devices.below(home):
            block = self._devices[path]
            parent, _, uuid = path.rpartition("/")
            target = block.links.get("mdev_type", "")
            number = target.rpartition(f"/{_PREFIX}")[2]
            known = parent == home and UUID.fullmatch(uuid) and _TYPE_ID.fullmatch(number)
            if block.properties.get("SUBSYSTEM") != "mdev" or not known:
                continue
            card.adopt(home, card.types.get(int(number)) or CardType(int(number), "", 0, 1))
            self._finish(card, path, int(number))

    def remove(self, card: Card, path: str) -> None:
        """Remove a mediated device; it leaves the bus at once, all else when no process has it."""
        home, _, uuid = path.rpartition("/")
        self._tree.discard(f"/sys/bus/mdev/devices/{uuid}")
        self._tree.discard(f"/sys{path}/remove")
        self._vfio.unregister(path)
        self._known.discard(uuid)
        self._devices.remove(path)
        vgpu = card.vgpu(home)
        if vgpu is not None:
            self._tree.discard(f"/sys{home}/{TYPES}/{_PREFIX}{vgpu.kind.id}/devices/{uuid}")
        card.remove(home)

    def _offer_type(self, card: Card, home: str, kind: CardType) -> None:
        def available() -> bytes:
            return b"%d\n" % card.announced(home, kind)

        def create(data: str) -> None:
            uuid = parse_uuid(data)
            if uuid in self._known or self._tree.exists(f"/sys/bus/mdev/devices/{uuid}"):
                raise os_error(errno.EEXIST)
            self._create(card, f"{home}/{uuid}", kind)

        directory = self._tree.mkdir(f"/sys{home}/{TYPES}/{_PREFIX}{kind.id}")
        directory.update(_description(kind))
        directory["available_instances"] = Attribute(available)
        directory["create"] = Attribute(store=create)
        directory["devices"] = Directory()

    def _create(self, card: Card, path: str, kind: CardType) -> None:
        # The kernel announces the device before it asks the driver, and takes it back if refused.
        self._devices.add(Block(path=path, properties={"SUBSYSTEM": "mdev"}))
        if not card.create(posixpath.dirname(path), kind):
            self._devices.remove(path)
            raise os_error(errno.ENOSPC)
        up = posixpath.relpath("/sys", f"/sys{path}")
        whole = Block(
            path=path,
            properties={"DRIVER": _DRIVER, "SUBSYSTEM": "mdev"},
            attributes={"nvidia/vm_name": b"\n"},
            links={
                "iommu_group": f"{up}{GROUPS[4:]}/{free_group(self._tree)}",
                "mdev_type": f"../{TYPES}/{_PREFIX}{kind.id}",
            },
        )
        self._devices.load([whole])
        self._finish(card, path, kind.id)
        self._devices.announce("bind", path)

    def _finish(self, card: Card, path: str, number: int) -> None:
        home, _, uuid = path.rpartition("/")
        text = ""

        def remove(data: str) -> None:
            if parse_unsigned(data):
                self.remove(card, path)

        def parameters() -> bytes:
            return f"{text}\n".encode()

        def store_parameters(data: str) -> None:
            nonlocal text
            text = parse_parameters(data)

        def placement() -> bytes:
            vgpu = card.vgpu(home) if self._vfio.held(path) else None
            return f"{or_none(vgpu.placement if vgpu else None)}\n".encode()

        def instance() -> bytes:
            vgpu = card.vgpu(home)
            return f"{or_none(vgpu.instance if vgpu else None)}\n".encode()

        files = {
            "remove": Attribute(store=remove),
            "nvidia/vgpu_params": Attribute(parameters, store_parameters),
            "nvidia/placement_id": Attribute(placement),
            "nvidia/gpu_instance_id": Attribute(instance),
        }
        for name, node in files.items():
            self._tree.put(f"/sys{path}/{name}", node)
        if number in card.types:
            types = f"/sys{home}/{TYPES}/{_PREFIX}{number}"
            self._tree.link(f"{types}/devices/{uuid}", f"/sys{path}")
        self._known.add(uuid)
        self._vfio.register(path)


@lru_cache(maxsize=512)
def _description(kind: CardType) -> Mapping[str, Node]:
    """The files of a type that never change, shared by all functions that offer it."""
    heads = 1 if kind.name[-1:] in "AC" else 4
    text = (
        f"num_heads={heads}, frl_config=60, framebuffer={kind.framebuffer_mib}M, "
        f"max_resolution=7680x4320, max_instance={kind.maximum}\n"
    )
    return {
        "name": f"{kind.name}\n".encode(),
        "description": text.encode(),
        "device_api": b"vfio-pci\n",
    }
