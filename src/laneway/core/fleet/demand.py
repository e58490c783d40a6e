"""The vGPUs that VMs request in addition to those in use: what waits, and what there was once.

Of each profile the demand is the most that were in use at a time, or in use and waiting now. What
is in use stays where it is, so a layout is to serve the rest. The most of each profile need not
have been at one time: a layout that serves all of it served each of these times.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from laneway.core.fleet import board, resources
from laneway.core.fleet.model import Fleet
from laneway.core.fleet.what_if import waiting
from laneway.core.names import is_vgpu_resource, vgpu_resource_name


class Held(NamedTuple):
    """A vGPU that a VM or pod had, from when to when; None: it has it to this day."""

    profile: str
    since: int
    until: int | None


class Seen(msgspec.Struct, frozen=True):
    """vGPUs of one profile."""

    in_use: int = 0
    waiting: int = 0
    """Requested by VMs and pods that wait."""
    most: int = 0
    """In use at a time, once or now."""

    @property
    def more(self) -> int:
        """The demand in addition to what is in use."""
        return max(self.waiting, self.most - self.in_use)


class Demand(msgspec.Struct, frozen=True):
    """What there is demand for."""

    profiles: Mapping[str, Seen]
    """Those that GPUs of the fleet offer, by the names that they have for them."""
    nowhere: tuple[str, ...] = ()
    """Profiles or resources with demand that no GPU of the fleet offers."""

    @property
    def more(self) -> dict[str, int]:
        """By profile, without those of which nothing more is requested."""
        return {name: one.more for name, one in self.profiles.items() if one.more}


def peaks(held: Iterable[Held]) -> dict[str, int]:
    """The most vGPUs of each profile that were in use at a time."""
    changes: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for one in held:
        if one.since == one.until:
            continue  # Shorter than the history counts.
        changes[one.profile].append((one.since, 1))
        if one.until is not None:
            changes[one.profile].append((one.until, -1))
    found = {}
    for profile, there in changes.items():
        count = most = 0
        # What ends at a moment makes room for what begins at it.
        for _, change in sorted(there):
            count += change
            most = max(most, count)
        found[profile] = most
    return found


def demand(fleet: Fleet, most: Mapping[str, int]) -> Demand:
    """The demand of a fleet; `most`: the most vGPUs of each profile in use at a time, once."""
    in_use = Counter(
        vgpu_resource_name(vgpu.profile) for gpu in fleet.gpus for vgpu in gpu.vgpus if vgpu.holder
    )
    waits: Counter[str] = Counter()
    for vm in waiting(fleet):
        waits.update({name: n for name, n in vm.requests.items() if is_vgpu_resource(name)})
    once = {vgpu_resource_name(name): number for name, number in most.items()}
    offered = {**board.by_resource(fleet), **resources.mig_backed(fleet)}
    every = sorted({*in_use, *waits, *once})
    return Demand(
        {
            offered[one]: Seen(in_use[one], waits[one], max(in_use[one], once.get(one, 0)))
            for one in every
            if one in offered
        },
        tuple(one for one in every if one not in offered and (waits[one] or once.get(one))),
    )
