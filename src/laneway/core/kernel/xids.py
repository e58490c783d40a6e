"""Errors that NVIDIA's driver reports, and which of them leave a GPU that cannot be allocated.

Each error has a number, the Xid. Most concern the program that ran; those in `FATAL` are the ones
after which NVIDIA's catalogue (https://docs.nvidia.com/deploy/xid-errors/) has the GPU reset or
the node rebooted, whatever ran on it. Newer drivers also say themselves what is needed, and that
nothing is any more, as Xid 154.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

import msgspec

from laneway.core.pci import PciAddress


class Need(StrEnum):
    """What makes a GPU usable again."""

    RESET = "the GPU must be reset"
    REBOOT = "the node must be rebooted"


class Xid(msgspec.Struct, frozen=True):
    """One report of the driver."""

    card: PciAddress
    """Function 0 of the GPU: the driver names none."""
    code: int
    text: str = ""


class Fault(msgspec.Struct, frozen=True):
    """Why a GPU cannot be relied on."""

    code: int
    what: str
    need: Need


_RECOVERY = 154
_ACTION = re.compile(r"\bto 0x([0-9a-f]{1,8})\b")
_NONE, _REBOOT = 0, 2

FATAL: Mapping[int, tuple[str, Need]] = MappingProxyType(
    {
        46: ("the GPU stopped processing", Need.RESET),
        48: ("double-bit memory error", Need.RESET),
        62: ("an internal microcontroller halted", Need.RESET),
        64: ("bad memory could not be remapped", Need.RESET),
        74: ("NVLink error", Need.RESET),
        79: ("the GPU has fallen off the bus", Need.REBOOT),
        95: ("uncontained memory error", Need.RESET),
        109: ("a context switch took too long", Need.RESET),
        110: ("security fault", Need.RESET),
        119: ("the GPU system processor does not answer", Need.RESET),
        120: ("the GPU system processor failed", Need.RESET),
        136: ("a link could not be trained", Need.RESET),
        140: ("unrecovered memory error", Need.RESET),
        143: ("the GPU could not be initialized", Need.RESET),
        155: ("NVLink error found by software", Need.RESET),
        156: ("a part of the GPU was retired", Need.RESET),
        158: ("fatal timeout", Need.RESET),
    }
)


def after(fault: Fault | None, xid: Xid) -> Fault | None:
    """What is wrong with a GPU after one more report."""
    if xid.code == _RECOVERY:
        return _recovery(fault, xid)
    if xid.code not in FATAL:
        return fault
    what, need = FATAL[xid.code]
    if fault is not None and fault.need is Need.REBOOT:
        need = Need.REBOOT  # What follows from an error does not make it lighter.
    return Fault(xid.code, what, need)


def _recovery(fault: Fault | None, xid: Xid) -> Fault | None:
    action = _ACTION.search(xid.text)
    if action is None:
        return fault
    number = int(action[1], 16)
    if number == _NONE:
        return None
    need = Need.REBOOT if number == _REBOOT else Need.RESET
    if fault is None:
        return Fault(xid.code, "its driver requires recovery", need)
    return Fault(fault.code, fault.what, need)


def words(card: PciAddress, fault: Fault) -> str:
    """For people."""
    return f"{card} reported Xid {fault.code} ({fault.what}): {fault.need}"
