"""Which vGPU types a simulated GPU offers.

What was captured from a driver wins: type directories of the mdev framework, or the lists of
vendor VFIO. But umockdev does not record the former, and the latter shrink with every vGPU; what
is missing then comes from the catalogue by PCI id. MIG-backed types are left out: a card without
GPU instances has none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from laneway.core.catalogue import VgpuProfile, profile_named, profiles_of
from laneway.sim.dump import Block
from laneway.sim.gpu import CardType

_MDEV_NAME = re.compile(r"mdev_supported_types/nvidia-([0-9]{1,9})/name")
_FRAMEBUFFER = re.compile(rb"framebuffer=([0-9]{1,9})M")
_MAXIMUM = re.compile(rb"max_instance=([0-9]{1,9})")
_ROW = re.compile(r"\s*([0-9]{1,9})\s*:\s*(\S.*?)\s*")
_SIZE_IN_NAME = re.compile(r"-([0-9]{1,4})[ABCQ]")

_BOARD_BY_SUBSYSTEM = {"25b6": {"157e": "A2", "14a9": "A16"}}
"""Boards that share a PCI id, told apart by the subsystem id of the PF."""


def board_types(physical: Block | None, functions: Iterable[Block]) -> tuple[CardType, ...]:
    """The types of a GPU, given its PF and its VFs; sorted by id."""
    functions = list(functions)
    found: dict[int, CardType] = {}
    for function in functions:
        found |= _type_directories(function)
    if not found:
        for function in functions:
            found |= _creatable_list(function)
        if not found or any(map(_carries, functions)):
            names = {kind.name for kind in found.values()}
            known = _catalogued(physical, functions[0])
            found = {kind.id: kind for kind in known if kind.name not in names} | found
    return tuple(found[number] for number in sorted(found))


def _catalogued(physical: Block | None, function: Block) -> Iterator[CardType]:
    device = _hex(function, "device")
    boards = _BOARD_BY_SUBSYSTEM.get(device, {})
    board = boards.get(_hex(physical, "subsystem_device")) if physical else None
    for profile in profiles_of(device):
        if profile.type_id is None or profile.mig_backed or board not in (None, profile.board):
            continue
        yield _from_profile(profile.type_id, profile)


def _type_directories(function: Block) -> dict[int, CardType]:
    found = {}
    for path, value in function.attributes.items():
        match = _MDEV_NAME.fullmatch(path)
        if match is None:
            continue
        description = function.attributes.get(path.replace("/name", "/description"), b"")
        size, most = _FRAMEBUFFER.search(description), _MAXIMUM.search(description)
        kind = _named(int(match[1]), _text(value))
        if size and most:
            kind = CardType(kind.id, kind.name, int(size[1]), int(most[1]))
        found[kind.id] = kind
    return found


def _creatable_list(function: Block) -> dict[int, CardType]:
    rows = _text(function.attributes.get("nvidia/creatable_vgpu_types", b"")).splitlines()
    matches = filter(None, map(_ROW.fullmatch, rows))
    return {int(match[1]): _named(int(match[1]), match[2]) for match in matches}


def _carries(function: Block) -> bool:
    """Whether a function on vendor VFIO has a vGPU."""
    return _text(function.attributes.get("nvidia/current_vgpu_type", b"")) not in ("", "0")


def _named(number: int, name: str) -> CardType:
    profile = profile_named(name)
    if profile is not None:
        return _from_profile(number, profile)
    size = _SIZE_IN_NAME.search(name)
    return CardType(number, name, int(size[1]) * 1024 if size else 1024, 1)


def _from_profile(number: int, profile: VgpuProfile) -> CardType:
    return CardType(number, profile.name, profile.framebuffer_mib, profile.max_per_gpu or 1)


def _hex(block: Block, name: str) -> str:
    return _text(block.attributes.get(name, b"")).removeprefix("0x")


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace").strip()
