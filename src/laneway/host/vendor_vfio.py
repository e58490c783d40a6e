"""vGPUs of the vendor-specific VFIO framework (`nvidia/` in the VF's directory).

`creatable_vgpu_types` is both the catalogue and the room that is left: it shrinks to its header
when the card is full, so a configured type's name usually comes from a sibling.
"""

from __future__ import annotations

import errno
from functools import lru_cache
from typing import NamedTuple

import msgspec

from laneway.core.inventory import ConfiguredVgpu, VgpuFunction, VgpuType
from laneway.host.attributes import Attributes, clean, decimal_id, shorten
from laneway.host.port import Host

_CURRENT = "nvidia/current_vgpu_type"
_CREATABLE = "nvidia/creatable_vgpu_types"
_NONE = "0"


def serves(vf: Attributes) -> bool:
    """Whether this function is on the framework."""
    return vf.has(_CURRENT)


def read_types(
    vf: Attributes, names: dict[str, str]
) -> tuple[tuple[VgpuType, ...], tuple[VgpuType, ...]]:
    """Supported and creatable types, here the same. `names` takes up what they are called."""
    table = _parse(vf.text(_CREATABLE))
    for row in table.odd:
        vf.fail(f"{_CREATABLE}: not a row `id : name`: {shorten(row)}")
    names.update(table.names)
    return table.types, table.types


class _Table(NamedTuple):
    """What a function can carry, as the driver lists it."""

    types: tuple[VgpuType, ...]
    names: dict[str, str]
    """By id."""
    odd: tuple[str, ...]
    """Rows that name no type."""


@lru_cache(maxsize=64)
def _parse(table: str) -> _Table:
    """Siblings show the same text by the dozen."""
    types, odd = [], []
    for row in table.splitlines()[1:]:  # below `ID    : vGPU Name`
        type_id, _, name = (part.strip() for part in row.partition(":"))
        if decimal_id(type_id) is None or not name:
            odd.append(row)
        else:
            types.append(VgpuType(type_id, name))
    return _Table(tuple(types), {kind.id: kind.name for kind in types}, tuple(odd))


def read_configured(vf: Attributes, names: dict[str, str]) -> ConfiguredVgpu | None:
    """The vGPU on this function; its name is empty where `names` has none."""
    type_id = vf.content(_CURRENT)
    if type_id in (None, _NONE):
        return None
    if decimal_id(type_id) is None:
        vf.fail(f"{_CURRENT}: not a type id: {shorten(type_id)}")
        return None
    return ConfiguredVgpu(
        type_id=type_id,
        type_name=names.get(type_id, ""),
        placement=decimal_id(vf.text("nvidia/placement_id")),
        gpu_instance=decimal_id(vf.text("nvidia/gpu_instance_id")),
    )


def read_again(host: Host, home: str, vf: VgpuFunction, *, lists: bool) -> VgpuFunction:
    """The function, in a directory, as it is now: no event tells of anything here.

    Raises OSError where that cannot be read.
    """
    type_id = clean(host.read(f"{home}/{_CURRENT}"))
    configured, types = vf.configured, vf.creatable
    if type_id != (configured.type_id if configured else _NONE):
        if decimal_id(type_id) is None:
            raise OSError(errno.EBADMSG, f"{_CURRENT}: not a type id: {shorten(type_id)}")
        another = ConfiguredVgpu(type_id=type_id, type_name="")
        configured = None if type_id == _NONE else another
    if lists:
        types, _, odd = _parse(clean(host.read(f"{home}/{_CREATABLE}")))
        if odd:
            raise OSError(errno.EBADMSG, f"{_CREATABLE}: not a row `id : name`: {shorten(odd[0])}")
    if configured is vf.configured and types == vf.creatable:
        return vf
    return msgspec.structs.replace(vf, configured=configured, supported=types, creatable=types)
