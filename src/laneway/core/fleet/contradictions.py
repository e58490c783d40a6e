"""What a fleet from a file says that cannot be, with the place.

A plan on it would be about no fleet at all, or would never end: a GPU instance of a billion memory
slices is as quickly written as one of two. What may come from a real export is told in `doubts`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from laneway.core.fleet import backed, board
from laneway.core.fleet.model import Fleet, Gpu
from laneway.core.gpu.modes import mode_named
from laneway.core.vgpu.profiles import MIB_PER_GIB, profile

_MOST_COUNT = 100_000
_MOST_SLOTS = 1024
_MOST_SLICES = 16
"""Memory slices of a card, of which none has more than twelve. Where GPU instances can be is found
by trying, which takes twice as long for each more."""
_DEVICE_ID = 4
_NO_RUN = (
    f"a GPU instance takes one or more of the memory slices 0 to {_MOST_SLICES - 1}. Correct its "
    "start and its size"
)


def contradictions(fleet: Fleet) -> Iterator[str]:
    """A sentence each."""
    yield from _twice("nodes", "name", (node.name for node in fleet.nodes))
    yield from _twice("gpus", "name", (gpu.name for gpu in fleet.gpus))
    yield from _twice("gpus", "address", (f"{gpu.node}/{gpu.address}" for gpu in fleet.gpus))
    yield from _twice("devices", "name", (device.name for device in fleet.devices))
    yield from _twice("vms", "name", (vm.name for vm in fleet.vms))
    nodes = {node.name for node in fleet.nodes}
    vgpus: set[str] = set()
    for number, gpu in enumerate(fleet.gpus):
        where = f"fleet.gpus[{number}]"
        if gpu.node not in nodes:
            yield f"{where}.node: fleet.nodes has no node {gpu.node[:80]!r}"
        if len(gpu.device) != _DEVICE_ID or set(gpu.device) - set("0123456789abcdef"):
            yield f"{where}.device: write the PCI device id as four digits, such as 26b9"
        if gpu.mode and mode_named(gpu.mode) is None:
            yield f"{where}.mode: no mode {gpu.mode[:40]!r}"
        if not 0 <= gpu.functions <= _MOST_COUNT:
            yield f"{where}.functions: use 0 to {_MOST_COUNT}"
        if any(not 0 <= (vgpu.slot or 0) < _MOST_SLOTS for vgpu in gpu.vgpus):
            yield f"{where}.vgpus: a slot is 0 to {_MOST_SLOTS - 1}"
        yield from _twice(f"gpus[{number}].vgpus", "name", (one.name for one in gpu.vgpus), vgpus)
        yield from _misplaced(where, gpu)
        yield from _instances(where, gpu)
    for number, device in enumerate(fleet.devices):
        if device.node not in nodes:
            yield f"fleet.devices[{number}].node: fleet.nodes has no node {device.node[:80]!r}"
    for number, vm in enumerate(fleet.vms):
        if any(not 0 <= count <= _MOST_COUNT for count in vm.requests.values()):
            yield f"fleet.vms[{number}].requests: a count is 0 to {_MOST_COUNT}"


def _misplaced(where: str, gpu: Gpu) -> Iterator[str]:
    """Of vGPUs, those that the board does not have, or not so many of."""
    card = board.card(gpu)
    in_instances = set(backed.profiles(gpu.device, gpu.profiles).values())
    taken = 0
    for number, vgpu in enumerate(gpu.vgpus):
        known = profile(vgpu.profile)
        if not card.kinds or known is None:
            continue
        if vgpu.profile not in (in_instances if known.mig_backed else card.kinds):
            yield (
                f"{where}.vgpus[{number}].profile: the board has no {vgpu.profile}. Write a "
                "profile of the board, or correct the device id of the GPU"
            )
        taken += 0 if known.mig_backed else known.framebuffer_mib
    if taken > card.region * MIB_PER_GIB:
        yield f"{where}.vgpus: they take {taken // MIB_PER_GIB} GiB, the GPU has {card.region}"


def _instances(where: str, gpu: Gpu) -> Iterator[str]:
    """GPU instances, and kinds of them, that no card has room for."""
    taken: set[int] = set()
    for number, one in enumerate(gpu.instances):
        place = f"{where}.instances[{number}]"
        if not _is_run(one.start, one.size):
            yield f"{place}: {_NO_RUN}"
        elif not taken.isdisjoint(slices := range(one.start, one.start + one.size)):
            yield f"{place}: another GPU instance has these memory slices. Correct the start of one"
        else:
            taken.update(slices)
    ids = (str(one.id) for one in gpu.instances)
    yield from _twice(f"{where.removeprefix('fleet.')}.instances", "id", ids)
    for number, kind in enumerate(gpu.instance_profiles):
        place = f"{where}.instance_profiles[{number}]"
        if not all(_is_run(start, kind.size) for start in kind.starts):
            yield f"{place}: {_NO_RUN}"
        if len(kind.starts) > _MOST_SLICES or not 0 <= kind.total <= _MOST_SLICES:
            yield f"{place}: a GPU has at most {_MOST_SLICES} GPU instances of a kind"


def _is_run(start: int, size: int) -> bool:
    return 0 <= start < start + size <= _MOST_SLICES


def _twice(
    things: str, field: str, names: Iterable[str], seen: set[str] | None = None
) -> Iterator[str]:
    """`seen`: names that are used already, to which these are added."""
    seen = set() if seen is None else seen
    for number, name in enumerate(names):
        if not name:
            yield f"fleet.{things}[{number}].{field}: it is empty"
        if name in seen:
            yield f"fleet.{things}[{number}].{field}: {name[:80]!r} is used twice"
        seen.add(name)
