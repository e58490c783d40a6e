"""Which vGPU types a simulated GPU knows, with what its driver's accounting needs of each.

What was captured from a driver wins: type directories of the mdev framework, or the lists of
vendor VFIO. But umockdev does not record the former, and the latter shrink with every vGPU and
show only what the card's mode allows; what is missing then comes from the catalogue by PCI id.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from laneway.core.vgpu.catalogue import VgpuProfile, profile_named, profiles_of
from laneway.sim.dump import Block
from laneway.sim.nvidia.geometry import GEOMETRIES

FOLDER = "nvidia"
CURRENT = f"{FOLDER}/current_vgpu_type"
_CREATABLE = f"{FOLDER}/creatable_vgpu_types"

_MDEV_NAME = re.compile(r"mdev_supported_types/nvidia-([0-9]{1,9})/name")
_FRAMEBUFFER = re.compile(rb"framebuffer=([0-9]{1,9})M")
_MAXIMUM = re.compile(rb"max_instance=([0-9]{1,9})")
_ROW = re.compile(r"\s*([0-9]{1,9})\s*:\s*(\S.*?)\s*")
_SIZE_IN_NAME = re.compile(r"-([0-9]{1,4})[ABCQ]")

_BLACKWELL = ("29", "2b", "2c", "2d", "2f", "31")
_BEFORE_ADA = ("1", "20", "21", "22", "24", "25")
"""How PCI device ids of these generations begin."""


class CardType(msgspec.Struct, frozen=True):
    """A vGPU type of one board. Slots are GiB of framebuffer."""

    id: int
    name: str
    framebuffer_mib: int
    maximum: int
    """How many a GPU, or for a MIG-backed type a GPU instance, takes when all have this size."""
    flags: str = ""
    """Of the GPU instance that it needs; empty for a time-sliced type."""
    slots: int = 0
    mixed_ids: tuple[int, ...] = ()
    """Where it can begin in mixed-size mode: on the card, or inside its GPU instance."""
    same_ids: tuple[int, ...] = ()
    """The same in same-size mode; a driver without placements there has none."""


def card_types(physical: Block | None, functions: Iterable[Block]) -> tuple[CardType, ...]:
    """The types of a GPU, given its PF and its VFs; sorted by id."""
    functions = list(functions)
    known = list(_catalogued(physical, functions[0] if functions else None))
    found: dict[int, CardType] = {}
    for function in functions:
        found |= _type_directories(function, known)
    if not found:
        for function in functions:
            found |= _creatable_list(function, known)
        names = {kind.name for kind in found.values()}
        complete = found and not any(map(_carries, functions))
        missing = (kind for kind in known if kind.name not in names)
        found = {kind.id: kind for kind in missing if kind.flags or not complete} | found
    return tuple(found[number] for number in sorted(found) if number)


def hex_id(block: Block | None, name: str) -> str:
    """An id of a PCI function: four hex digits; empty if unknown."""
    return _text(block.attributes.get(name, b"")).removeprefix("0x") if block else ""


def _catalogued(physical: Block | None, function: Block | None) -> Iterator[CardType]:
    """Every type of the board that the catalogue knows; id 0 where it knows no id."""
    device = hex_id(physical, "device") or hex_id(function, "device")
    profiles = profiles_of(device, hex_id(physical, "subsystem_device"))
    whole = (one.framebuffer_mib for one in profiles if one.max_per_gpu == 1 and not one.mig_backed)
    region = max(whole, default=0) // 1024
    for profile in profiles:
        number = profile.type_id or 0
        if profile.mig_backed:
            kind = _mig_backed(number, profile, device)
            if kind is not None:
                yield kind
        else:
            yield _time_sliced(number, profile, device, region)


def _time_sliced(number: int, profile: VgpuProfile, device: str, region: int) -> CardType:
    maximum = profile.max_per_gpu or 1
    slots = -(-profile.framebuffer_mib // 1024)
    if (slots, region) == (2, 96):
        slots = 3  # so that the 32 that a card takes at most share it evenly
    same = profile.placement_ids
    if device.startswith(_BEFORE_ADA):
        same = ()
    elif not device.startswith(_BLACKWELL):
        same = tuple(slots * n for n in range(min(region // slots, maximum)))
    return CardType(
        id=number,
        name=profile.name,
        framebuffer_mib=profile.framebuffer_mib,
        maximum=maximum,
        slots=slots,
        mixed_ids=profile.placement_ids,
        same_ids=same,
    )


def _mig_backed(number: int, profile: VgpuProfile, device: str) -> CardType | None:
    geometry = GEOMETRIES.get(device)
    homes = geometry.profiles if geometry else ()
    home = next((one for one in homes if one.flags == profile.mig_partition), None)
    if geometry is None or home is None:
        return None
    per_instance = 1
    ids: tuple[int, ...] = ()
    if geometry.time_slicing:
        per_instance = max((profile.max_per_gpu or 1) // home.total, 1)
        region = round(float(home.memory) / home.size) * home.size
        ids = tuple(region * n // per_instance for n in range(per_instance))
    return CardType(
        id=number,
        name=profile.name,
        framebuffer_mib=profile.framebuffer_mib,
        maximum=per_instance,
        flags=profile.mig_partition,
        slots=-(-profile.framebuffer_mib // 1024),
        mixed_ids=ids,
        same_ids=ids,
    )


def _type_directories(function: Block, known: Iterable[CardType]) -> Mapping[int, CardType]:
    found = {}
    for path, value in function.attributes.items():
        match = _MDEV_NAME.fullmatch(path)
        if match is None:
            continue
        description = function.attributes.get(path.replace("/name", "/description"), b"")
        size, most = _FRAMEBUFFER.search(description), _MAXIMUM.search(description)
        kind = _named(int(match[1]), _text(value), known)
        if size and most and not kind.flags:
            kind = msgspec.structs.replace(kind, framebuffer_mib=int(size[1]), maximum=int(most[1]))
        found[kind.id] = kind
    return found


def _creatable_list(function: Block, known: Iterable[CardType]) -> Mapping[int, CardType]:
    rows = _text(function.attributes.get(_CREATABLE, b"")).splitlines()
    matches = filter(None, map(_ROW.fullmatch, rows))
    return {int(match[1]): _named(int(match[1]), match[2], known) for match in matches}


def _carries(function: Block) -> bool:
    """Whether a function on vendor VFIO has a vGPU."""
    return _text(function.attributes.get(CURRENT, b"")) not in ("", "0")


def _named(number: int, name: str, known: Iterable[CardType]) -> CardType:
    kind = next((one for one in known if one.name == name), None)
    if kind is not None:
        return msgspec.structs.replace(kind, id=number)
    profile = profile_named(name)
    if profile is not None:
        return CardType(number, name, profile.framebuffer_mib, profile.max_per_gpu or 1)
    size = _SIZE_IN_NAME.search(name)
    return CardType(number, name, int(size[1]) * 1024 if size else 1024, 1)


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace").strip()
