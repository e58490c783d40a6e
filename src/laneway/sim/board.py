"""Which vGPU types a simulated GPU offers.

What was captured from a driver wins: type directories of the mdev framework, or the lists of
vendor VFIO. umockdev records neither the former nor, on a full card, the latter; then the
catalogue answers by PCI id. MIG-backed types are left out: a card without GPU instances has none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from laneway.core.catalogue import VgpuProfile, profile_named, profiles_of
from laneway.sim.dump import Block
from laneway.sim.gpu import CardType

_MDEV_NAME = re.compile(r"mdev_supported_types/nvidia-([0-9]{1,9})/name")
_FRAMEBUFFER = re.compile(rb"framebuffer=([0-9]{1,9})M")
_MAXIMUM = re.compile(rb"max_instance=([0-9]{1,9})")
_CREATABLE = "nvidia/creatable_vgpu_types"
_ROW = re.compile(r"\s*([0-9]{1,9})\s*:\s*(\S.*?)\s*")
_SIZE_IN_NAME = re.compile(r"-([0-9]{1,4})[ABCQ]")

_BOARD_BY_SUBSYSTEM = {"25b6": {"157e": "A2", "14a9": "A16"}}
"""Boards that share a PCI id, told apart by the subsystem id of the PF."""


def board_types(physical: Block | None, functions: Iterable[Block]) -> tuple[CardType, ...]:
    """The types of a GPU, given its PF and its VFs; sorted by id."""
    found: dict[int, CardType] = {}
    device = ""
    for function in functions:
        device = device or _hex(function, "device")
        found |= _captured(function)
    if not found:
        known = [profile for profile in profiles_of(device) if not profile.mig_backed]
        boards = _BOARD_BY_SUBSYSTEM.get(device, {})
        board = boards.get(_hex(physical, "subsystem_device")) if physical else None
        found = {
            profile.type_id: _from_profile(profile.type_id, profile)
            for profile in known
            if profile.type_id is not None and board in (None, profile.board)
        }
    return tuple(found[number] for number in sorted(found))


def _captured(function: Block) -> dict[int, CardType]:
    found = {}
    for path, value in function.attributes.items():
        if match := _MDEV_NAME.fullmatch(path):
            description = function.attributes.get(path.replace("/name", "/description"), b"")
            size, most = _FRAMEBUFFER.search(description), _MAXIMUM.search(description)
            kind = _named(int(match[1]), _text(value))
            if size and most:
                kind = CardType(kind.id, kind.name, int(size[1]), int(most[1]))
            found[kind.id] = kind
    for row in _text(function.attributes.get(_CREATABLE, b"")).splitlines():
        if match := _ROW.fullmatch(row):
            found[int(match[1])] = _named(int(match[1]), match[2])
    return found


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
