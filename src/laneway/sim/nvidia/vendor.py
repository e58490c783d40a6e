"""vGPUs on vendor VFIO: the VF itself becomes the vGPU, by writing a type to it.

An unknown type is refused and clears the function all the same, as NVIDIA's driver does. The files
that describe a vGPU answer ENXIO while there is none.
"""

from __future__ import annotations

import errno

from laneway.sim.nvidia.card import Card, Vgpu
from laneway.sim.nvidia.contents import parse_parameters
from laneway.sim.nvidia.types import FOLDER
from laneway.sim.tree import Attribute, Tree, os_error
from laneway.sim.values import parse_unsigned
from laneway.sim.vfio import Vfio

NOT_APPLICABLE = "Not Applicable"
_HEADER = "ID    : vGPU Name\n"


def offer(tree: Tree, vfio: Vfio, card: Card, home: str) -> None:
    """Make the files of a function, given by its path below /sys."""
    function = _Function(vfio, card, home)
    tree.mkdir(f"/sys{home}/{FOLDER}").update(
        creatable_vgpu_types=Attribute(function.creatable),
        current_vgpu_type=Attribute(function.current, function.store),
        gpu_instance_id=Attribute(function.instance),
        placement_id=Attribute(function.placement),
        vgpu_params=Attribute(function.parameters, function.store_parameters),
        warm_update=Attribute(function.warm_update, function.store_warm_update),
    )


def withdraw(tree: Tree, home: str) -> None:
    tree.discard(f"/sys{home}/{FOLDER}")


def or_none(number: int | None) -> str:
    return NOT_APPLICABLE if number is None else str(number)


class _Function:
    """What the files of one VF read and do."""

    def __init__(self, vfio: Vfio, card: Card, home: str) -> None:
        self._vfio = vfio
        self._card = card
        self._home = home
        self._parameters = ""

    def creatable(self) -> bytes:
        rows = (f"{kind.id:<6}: {kind.name}\n" for kind in self._card.creatable(self._home))
        return (_HEADER + "".join(rows)).encode()

    def current(self) -> bytes:
        vgpu = self._card.vgpu(self._home)
        return b"%d\n" % (vgpu.kind.id if vgpu else 0)

    def store(self, data: str) -> None:
        wanted = parse_unsigned(data)
        if self._vfio.held(self._home):
            raise os_error(errno.EBUSY)
        kind = self._card.types.get(wanted)
        if kind is None:
            self._card.remove(self._home)
            self._parameters = ""
            if wanted:
                raise os_error(errno.EIO)
        elif not self._card.create(self._home, kind):
            raise os_error(errno.EIO)

    def instance(self) -> bytes:
        return f"{or_none(self._vgpu().instance)}\n".encode()

    def placement(self) -> bytes:
        return f"{or_none(self._vgpu().placement)}\n".encode()

    def parameters(self) -> bytes:
        self._vgpu()
        return f"{self._parameters}\n".encode()

    def store_parameters(self, data: str) -> None:
        self._vgpu()
        self._parameters = parse_parameters(data)

    def warm_update(self) -> bytes:
        self._vgpu()
        return b"0\n"

    def store_warm_update(self, data: str) -> None:
        self._vgpu()
        parse_unsigned(data)

    def _vgpu(self) -> Vgpu:
        vgpu = self._card.vgpu(self._home)
        if vgpu is None:
            raise os_error(errno.ENXIO)
        return vgpu
