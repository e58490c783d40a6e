"""In which order MIG-backed vGPUs must be made, so that each finds a GPU instance.

An instance holds vGPUs of one framebuffer size at a time. The driver puts each new one into the
first instance that serves it and has room, also where another has begun to be filled with its size,
and no other can be requested. So whether all find room depends on the order alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import permutations
from typing import NamedTuple

import msgspec

from laneway.core.gpu.modes import GpuInstanceProfile, GpuModes
from laneway.core.inventory import VgpuFunction
from laneway.core.mig.profiles import per_instance, serving
from laneway.core.vgpu.profiles import framebuffer_mib

_ANY = 0
_NONE = -1


class Home(msgspec.Struct, frozen=True):
    """A GPU instance as the home of vGPUs."""

    profile: str
    framebuffer_mib: int = _ANY
    """Of those that it has; 0: it has none and takes any size; -1: it takes no more of any."""
    count: int = 0

    def room(self, instance: str, framebuffer: int, most: int) -> int:
        """How many more it takes of vGPUs that need an instance of this profile."""
        fits = self.profile == instance and self.framebuffer_mib in (_ANY, framebuffer)
        return max(0, most - self.count) if fits else 0


def homes(functions: Iterable[VgpuFunction], modes: GpuModes) -> list[Home]:
    """The GPU instances that exist, in the order of their ids, with the vGPUs of these functions.

    One with vGPUs of an unknown size, or of several sizes, takes no more.
    """
    inside: dict[int, list[int]] = {}
    for one in functions:
        vgpu = one.configured
        if vgpu and vgpu.gpu_instance is not None:
            size = framebuffer_mib(vgpu.type_name) or _NONE
            inside.setdefault(vgpu.gpu_instance, []).append(size)
    found = []
    for instance in sorted(modes.instances, key=lambda one: one.id):
        sizes = inside.get(instance.id, [])
        alike = sizes[0] if len(set(sizes)) == 1 else _NONE
        found.append(Home(instance.profile, alike if sizes else _ANY, len(sizes)))
    return found


class _Group(NamedTuple):
    """vGPUs that may share a GPU instance."""

    framebuffer_mib: int
    most: int
    """In one instance."""
    names: list[str]


def creation_order(
    wanted: Mapping[str, int],
    offered: Iterable[GpuInstanceProfile],
    lines: Iterable[Sequence[Home]],
) -> tuple[str, ...] | None:
    """In which order vGPUs must be made so that all of them find a GPU instance.

    `lines`: instances in the order of their ids; several lines where that is not known yet, and the
    order must serve in each. None: no order does.
    """
    choices, possible = tuple(offered), [tuple(line) for line in lines]
    groups: dict[str, dict[int, _Group]] = {}
    for name in sorted(wanted):
        found = serving(name, choices)
        if found is None:
            return None
        vgpu, instance = found
        new = _Group(vgpu.framebuffer_mib, per_instance(vgpu, instance), [])
        group = groups.setdefault(instance.name, {}).setdefault(vgpu.framebuffer_mib, new)
        group.names.extend([name] * wanted[name])
    order: list[str] = []
    # Those that need different kinds of instances are never in each other's way.
    for instance_name in sorted(groups):
        part = _order_for(instance_name, list(groups[instance_name].values()), possible)
        if part is None:
            return None
        order += part
    return tuple(order)


def _order_for(
    instance: str, groups: list[_Group], lines: list[tuple[Home, ...]]
) -> list[str] | None:
    """The largest first, which nearly always works; then every other order of the sizes."""
    for line in lines:
        # Each size needs an instance of its own. A card has eight at the most, so the orders that
        # are left to try are few, whatever is requested.
        if len(groups) > sum(home.profile == instance for home in line):
            return None
    largest_first = sorted(groups, key=lambda group: -group.framebuffer_mib)
    for order in permutations(largest_first):
        if all(_all_served(instance, order, line) for line in lines):
            return [name for group in order for name in group.names]
    return None


def _all_served(instance: str, order: Iterable[_Group], line: Iterable[Home]) -> bool:
    there = list(line)
    for framebuffer, most, names in order:
        left = len(names)
        for at, home in enumerate(there):
            more = min(left, home.room(instance, framebuffer, most))
            if more:
                there[at] = Home(instance, framebuffer, home.count + more)
                left -= more
        if left:
            return False
    return True
