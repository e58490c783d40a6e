"""vGPUs of the mediated-device framework (`mdev_supported_types` in the VF's directory).

The vGPU itself is a directory named by its UUID inside the VF's; its `mdev_type` link says which
profile. A recorded dump keeps only that link, not the type directories, so the two signs count
each on its own.
"""

from __future__ import annotations

import errno
import re
from functools import lru_cache

import msgspec

from laneway.core.inventory import ConfiguredVgpu, VgpuFunction, VgpuType
from laneway.host.attributes import Attributes, clean, decimal_id, shorten
from laneway.host.port import Host

_TYPES = "mdev_supported_types"
_TYPE_ID = re.compile(r"nvidia-([0-9]{1,9})")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def serves(vf: Attributes) -> bool:
    """Whether this function is on the framework."""
    return _TYPES in vf.names or bool(_uuids(vf))


def read_types(
    vf: Attributes, names: dict[str, str]
) -> tuple[tuple[VgpuType, ...], tuple[VgpuType, ...]]:
    """Supported and creatable types. `names` holds what siblings said, and grows."""
    supported, creatable = [], []
    for type_id in _by_number(tuple(vf.inside(_TYPES))):
        if not names.get(type_id):
            names[type_id] = read_name(vf, type_id)
        vgpu_type = VgpuType(type_id, names[type_id])
        supported.append(vgpu_type)
        if vf.count(f"{_TYPES}/{type_id}/available_instances"):
            creatable.append(vgpu_type)
    return tuple(supported), tuple(creatable)


def read_name(vf: Attributes, type_id: str) -> str:
    """What the driver calls a type, empty where it offers none with this id."""
    return vf.text(f"{_TYPES}/{type_id}/name")


def find_type(vf: Attributes, name: str) -> str:
    """The id of the type with this name, empty where the driver offers none."""
    types = _by_number(tuple(vf.inside(_TYPES)))
    return next((type_id for type_id in types if read_name(vf, type_id) == name), "")


@lru_cache(maxsize=64)
def _by_number(names: tuple[str, ...]) -> tuple[str, ...]:
    """The type ids among names. Siblings show the same ones by the dozen."""
    matches = filter(None, map(_TYPE_ID.fullmatch, names))
    return tuple(match[0] for match in sorted(matches, key=lambda match: int(match[1])))


def read_configured(vf: Attributes, names: dict[str, str]) -> ConfiguredVgpu | None:
    """The vGPU on this function; its name is empty where `names` has none."""
    uuids = sorted(_uuids(vf))
    if len(uuids) > 1:
        vf.fail(f"carries {len(uuids)} vGPUs where one is possible: {', '.join(uuids[:4])}")
    for uuid in uuids:
        vgpu = vf.below(uuid)
        if vgpu is None:
            continue
        type_id = vgpu.link("mdev_type")
        if _TYPE_ID.fullmatch(type_id):
            return ConfiguredVgpu(
                type_id=type_id,
                type_name=names.get(type_id, ""),
                uuid=uuid,
                iommu_group=decimal_id(vgpu.link("iommu_group")),
                placement=decimal_id(vgpu.text("nvidia/placement_id")),
                gpu_instance=decimal_id(vgpu.text("nvidia/gpu_instance_id")),
            )
        if not vgpu.vanished():
            vf.fail(f"{uuid}: mdev_type is no NVIDIA type: {shorten(type_id)}")
    return None


def read_again(host: Host, home: str, vf: VgpuFunction, *, lists: bool) -> VgpuFunction:
    """The function, in a directory, as it is now: its vGPU comes and goes with events."""
    if not lists:
        return vf
    names = {kind.id: kind.name for kind in vf.supported}
    ids = _by_number(tuple(sorted(host.names(f"{home}/{_TYPES}"))))
    supported = tuple(VgpuType(type_id, names.get(type_id, "")) for type_id in ids)
    creatable = tuple(kind for kind in supported if _room(host, f"{home}/{_TYPES}/{kind.id}"))
    if (supported, creatable) == (vf.supported, vf.creatable):
        return vf
    return msgspec.structs.replace(vf, supported=supported, creatable=creatable)


def _room(host: Host, kind: str) -> int:
    """How many vGPUs of a type there is room for. Raises OSError where that cannot be read."""
    text = clean(host.read(f"{kind}/available_instances"))
    room = decimal_id(text)
    if room is None:
        raise OSError(errno.EBADMSG, f"available_instances: not a number: {shorten(text)}")
    return room


def _uuids(vf: Attributes) -> list[str]:
    # Asked of every name in every VF; the length alone answers it for nearly all.
    return [name for name in vf.names if len(name) == 36 and _UUID.fullmatch(name)]
