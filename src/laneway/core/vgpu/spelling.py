"""Short names of profiles: `A2-4Q` for `NVIDIA A2-4Q`.

A short name stands for a profile only where exactly one of those that are known ends with it.
"""

from __future__ import annotations

from collections.abc import Iterable

from laneway.core.inventory import VgpuFunction
from laneway.core.pci import PciFunction
from laneway.core.phrases import short_name
from laneway.core.vgpu.profiles import profiles_on


def matches(text: str, known: Iterable[str]) -> list[str]:
    """The known profiles that a text may mean: one of exactly that name, else all that fit it."""
    names = list(known)
    if text in names:
        return [text]
    wanted = _plain(text)
    return [name for name in names if wanted in (_plain(name), _plain(short_name(name)))]


def in_full(text: str, *known: Iterable[str]) -> str:
    """The driver's name of a profile; what means no single one stays as it is written.

    `known`: the driver's own names before those of the catalogue, for releases call the same
    profile differently.
    """
    for names in known:
        found = matches(text, names)
        if len(found) == 1:
            return found[0]
    return text


def named(gpu: PciFunction, functions: Iterable[VgpuFunction] = ()) -> tuple[set[str], set[str]]:
    """The profiles of a GPU as its driver names them, and as the catalogue does."""
    there = tuple(functions)
    driver = {kind.name for one in there for kind in one.supported}
    driver |= {one.configured.type_name for one in there if one.configured} - {""}
    return driver, {one.name for one in profiles_on(gpu.device, gpu.subsystem_device)}


def _plain(name: str) -> str:
    return " ".join(name.split()).lower()
