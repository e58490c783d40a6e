"""How many vGPUs a VM may have, by profile.

A driver knows it per type (NVML: maximum instances per VM), and where a driver's number is in the
catalogue, that counts. Else it follows from series and board:

- A and B series: one. NVIDIA supports several vGPUs in one VM for Q and C series only: the
  table of driver 510 has no other type, and driver 580 prints 1 for the B type that is known.
- C series of A2 and A16: one. Harvester's documentation has only the Q series of these boards.
- All else: not known here, so the driver decides. What driver 510 restricted to types with all of a
  card's framebuffer, newer ones allow.
"""

from __future__ import annotations

from laneway.core.vgpu.catalogue import VgpuProfile, profiles_of
from laneway.core.vgpu.profiles import profile

_ALONE = frozenset("AB")
_Q_ONLY = frozenset({"A2", "A16"})
"""Boards."""


def most_per_vm(name: str, known: VgpuProfile | None) -> int | None:
    """How many vGPUs a VM with one of this profile may have in all; None: not known.

    `known`: the catalogue's entry of that name, if it has one.
    """
    if known is not None and known.max_per_vm is not None:
        return known.max_per_vm
    said = profile(name)
    if said is None:
        return None
    alone = said.series in _ALONE or (said.series == "C" and said.board in _Q_ONLY)
    return 1 if alone else None


def instead(known: VgpuProfile | None, count: int) -> tuple[str, ...]:
    """Profiles of the same board of which so many are known to be supported, by size."""
    if known is None:
        return ()
    supported = [
        one
        for one in profiles_of(known.device)
        if one.board == known.board
        and (
            one.max_per_vm >= count
            if one.max_per_vm is not None
            else one.board in _Q_ONLY and one.series == "Q"
        )
    ]
    supported.sort(key=lambda one: abs(one.framebuffer_mib - known.framebuffer_mib))
    return tuple(one.name for one in supported)
