"""Settings of a VM that large cards need: address space for their memory, and leave to reach peers.

The size of the address space follows a rule of thumb, as no better one is published: the memory
of all cards, rounded up to a power of two, and then the next one. Only whole cards need it; a vGPU
has its memory behind its manager. Whatever a user sets stands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from laneway.core.vgpu.profiles import MIB_PER_GIB, profiles_on
from laneway.core.vsphere.spec.requests import PciIds, Requested

USE_64_BIT = "pciPassthru.use64bitMMIO"
SIZE_GIB = "pciPassthru.64bitMMIOSizeGB"
PEER_KEYS = ("pciPassthru.allowP2P", "pciPassthru.RelaxACSforP2P")

_NVIDIA = 0x10DE
_LARGEST_GIB = 1 << 16
"""More is no card's memory."""


def extra_config(
    memory_gib: Sequence[int], requested: Requested, custom: Mapping[str, str]
) -> dict[str, str]:
    """What is to be set in addition to what a user has set.

    `memory_gib`: of each whole card of the machine, as far as it is known.
    """
    computed: dict[str, str] = {}
    total = min(sum(gib for gib in memory_gib if gib > 0), _LARGEST_GIB)
    if total:
        computed[USE_64_BIT] = "TRUE"
        computed[SIZE_GIB] = str(address_space_gib(total))
    if requested.peer_to_peer:
        computed.update(dict.fromkeys(PEER_KEYS, "TRUE"))
    # The names of these keys are read without regard to case.
    settled = {key.lower() for key in custom}
    switched_off = any(
        key.lower() == USE_64_BIT.lower() and value.strip().upper() == "FALSE"
        for key, value in custom.items()
    )
    return {
        key: value
        for key, value in computed.items()
        if key.lower() not in settled and not (switched_off and key == SIZE_GIB)
    }


def address_space_gib(total: int) -> int:
    """The size for cards with so much memory together: 16 → 32, 48 → 128."""
    power = 1 << (total - 1).bit_length()
    return 2 * power


@lru_cache(maxsize=256)
def gpu_memory_gib(ids: PciIds) -> int:
    """The memory of a card; 0: it is no GPU that the catalogue knows."""
    if ids.vendor != _NVIDIA:
        return 0
    subsystem = "" if ids.sub_device is None else f"{ids.sub_device:04x}"
    known = profiles_on(f"{ids.device:04x}", subsystem)
    return max((one.framebuffer_mib for one in known), default=0) // MIB_PER_GIB
