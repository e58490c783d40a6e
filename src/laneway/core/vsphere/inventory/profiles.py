"""What is known of a vGPU profile by the name that vCenter has for it, `grid_a100-4-20c`.

vCenter writes a name in lower case and without blanks. Whether `grid` or `nvidia` stands first is
no matter. But of GPUs whose own names have blanks, `nvidia_rtx_pro_6000_blackwell_dc-4q`, the
whole is read: the last word is that of other GPUs as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from laneway.core.vgpu.catalogue import names
from laneway.core.vgpu.profiles import Profile, profile


@lru_cache(maxsize=1024)
def named(name: str) -> Profile | None:
    """The profile, as far as its name tells; None for text that is no profile's name."""
    folded = name.lower()
    short = folded.rpartition("_")[2]
    spellings = _spellings()
    return profile(spellings.get(folded) or spellings.get(short) or short.upper())


@lru_cache(maxsize=1)
def _spellings() -> Mapping[str, str]:
    found = {}
    for name in names():
        words = name.lower().split(" ")
        found["_".join(words)] = name
        if len(words) == 2:
            found[words[1]] = name
    return found
