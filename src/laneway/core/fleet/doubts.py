"""What a fleet from a file says of things that are not in it, with the place and what follows.

Such a file is read all the same. An export by a user who may not list all VMs is of this kind, and
so is one of a cluster that changed while it was read. But a name that was typed wrong looks alike,
and a plan on it would be silently another: so every place is told.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import groupby

from laneway.core.fleet import board, resources
from laneway.core.fleet.model import Fleet, Gpu
from laneway.core.fleet.shape import resource_of
from laneway.core.gpu.modes import Mode
from laneway.core.ledger.facts import Phase
from laneway.core.names import is_vgpu_resource
from laneway.core.phrases import listed
from laneway.core.vgpu.profiles import framebuffer_mib, profile, profiles_on

_MOST = 5
"""Places that are told of one kind of doubt."""


def doubts(fleet: Fleet) -> Iterator[str]:
    """A sentence each."""
    found = sorted(_all(fleet), key=lambda pair: pair[0])  # Stable: in the order of the file.
    for why, group in groupby(found, key=lambda pair: pair[0]):
        places = [text for _, text in group]
        yield from (f"{text}. {why}" for text in places[:_MOST])
        if len(places) > _MOST:
            yield f"{len(places) - _MOST} more places of the file are alike. {why}"


_HOLDER = (
    "The device counts as in use and stays where it is. If the name was typed, correct it; if the "
    "VM is real, add it to fleet.vms"
)
_LACKS = "What it has is missing in the plan. Add the device to the file, or export it again"
_NOT_OFFERED = (
    "What it has is missing in the plan. Correct the name of the profile, or add the GPU to the "
    "file"
)
_NODE = "Add the node to fleet.nodes, or correct the name"
_NO_PROFILE = (
    "The plan does not know how large it is. Write the name that the driver has for it, such as "
    "NVIDIA L40S-24Q"
)
_OTHER_BOARD = "The plan takes it for what its driver lists. If it was typed, correct it"
_OTHER_MODE = "Correct the mode, or the profile"


def _all(fleet: Fleet) -> Iterator[tuple[str, str]]:
    """What follows, and the place with what is wrong there."""
    vms = {vm.name for vm in fleet.vms}
    held: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for number, gpu in enumerate(fleet.gpus):
        where = f"fleet.gpus[{number}]"
        yield from _profiles(where, gpu)
        for index, vgpu in enumerate(gpu.vgpus):
            place = f"{where}.vgpus[{index}]"
            yield from _holder(place, vgpu.holder, vms)
            held[vgpu.holder][resource_of(vgpu.profile)] += 1
    for number, device in enumerate(fleet.devices):
        yield from _holder(f"fleet.devices[{number}]", device.holder, vms)
        held[device.holder][device.resource] += 1
    yield from _vms(fleet, held)


def _holder(place: str, holder: str, vms: set[str]) -> Iterator[tuple[str, str]]:
    if holder and holder not in vms:
        yield _HOLDER, f"{place}.holder: fleet.vms has no {holder[:80]!r}"


def _vms(fleet: Fleet, held: defaultdict[str, Counter[str]]) -> Iterator[tuple[str, str]]:
    nodes = {node.name for node in fleet.nodes}
    known = {*board.by_resource(fleet), *resources.mig_backed(fleet)}
    known |= {device.resource for device in fleet.devices}
    for number, vm in enumerate(fleet.vms):
        if vm.node and vm.node not in nodes:
            yield _NODE, f"fleet.vms[{number}].node: fleet.nodes has no node {vm.node[:80]!r}"
        if vm.phase is not Phase.RUNNING or not vm.node:
            continue
        for resource, count in vm.requests.items():
            has = held[vm.name][resource] if vm.name in held else 0
            if has >= count:
                continue
            place = f"fleet.vms[{number}].requests: it runs with {count} x {resource[:80]}"
            if resource in known:
                yield _LACKS, f"{place}, and the file has {has} that it holds"
            elif is_vgpu_resource(resource):
                yield _NOT_OFFERED, f"{place}, and no GPU of the file has this profile"


def _profiles(where: str, gpu: Gpu) -> Iterator[tuple[str, str]]:
    boards = {one.board for one in profiles_on(gpu.device)}
    for number, name in enumerate(gpu.profiles):
        known = profile(name)
        place = f"{where}.profiles[{number}]"
        if known is None:
            yield _NO_PROFILE, f"{place}: {name[:80]!r} is no vGPU profile"
        elif boards and known.board not in boards:
            yield _OTHER_BOARD, f"{place}: the GPU {gpu.device} has no {name[:80]!r}"
    in_instances = gpu.mode == Mode.MIG_BACKED
    for number, vgpu in enumerate(gpu.vgpus):
        known = profile(vgpu.profile)
        place = f"{where}.vgpus[{number}].profile"
        if known is None:
            yield _NO_PROFILE, f"{place}: {vgpu.profile[:80]!r} is no vGPU profile"
        elif gpu.mode and known.mig_backed != in_instances:
            words = f"{vgpu.profile} cannot be on a GPU in the mode {gpu.mode}"
            yield _OTHER_MODE, f"{place}: {words}"
    if gpu.mode == Mode.SAME_SIZE:
        yield from _sizes(where, gpu)


def _sizes(where: str, gpu: Gpu) -> Iterator[tuple[str, str]]:
    """A GPU in the mode SameSize that carries two sizes: an agent may have reported half a change.

    That an export can be so is why it is no contradiction.
    """
    by_size: dict[int, str] = {}
    for vgpu in gpu.vgpus:
        if size := framebuffer_mib(vgpu.profile):
            by_size.setdefault(size, vgpu.profile)
    if len(by_size) > 1:
        words = f"{listed(by_size.values())} have different sizes, and the GPU is in the mode"
        yield _OTHER_MODE, f"{where}.vgpus: {words} {gpu.mode}"
