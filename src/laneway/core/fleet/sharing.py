"""How GPUs of a fleet are shared, changed: another mode, or other GPU instances for containers.

A GPU with vGPUs that VMs have keeps its mode, and one with GPU instances that containers need keeps
those: on which GPU of a node a container is, is not known, so the node must have as many of each
kind after the change as its pods have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from laneway.core.fleet import backed, containers
from laneway.core.fleet.known import ChangeError, known
from laneway.core.fleet.model import Fleet, Gpu
from laneway.core.gpu.modes import GpuInstance, Mode, mode_named
from laneway.core.mig.instances import Obstacle, arrange_instances
from laneway.core.mig.profiles import bare_name
from laneway.core.phrases import counted, few, line, listed
from laneway.core.vgpu.profiles import profiles_on

_MAIN_DOMAIN = "0000:"
"""Of PCI; people leave it out of an address."""
MOST_INSTANCES = 64
"""Of one kind on a GPU; no card takes as many."""

Found = tuple[Fleet, tuple[str, ...]]
"""The fleet after the change, and what cannot be changed, in words."""


def set_mode(fleet: Fleet, gpus: Iterable[str], name: str) -> Found:
    """GPUs get a mode. Raises ChangeError."""
    mode = mode_named(name)
    if mode is None:
        raise ChangeError(f"no mode {name[:40]!r}. Use one of {', '.join(Mode)}")
    return _changed(fleet, gpus, mode, None)


def set_instances(fleet: Fleet, gpus: Iterable[str], instances: Mapping[str, int]) -> Found:
    """GPUs get the mode MIG with these GPU instances, and no others. Raises ChangeError."""
    wanted = {bare_name(name): number for name, number in instances.items()}
    if not wanted or any(not 1 <= number <= MOST_INSTANCES for number in wanted.values()):
        raise ChangeError(
            f"a GPU has 1 to {MOST_INSTANCES} GPU instances of a kind, and of at least one kind"
        )
    return _changed(fleet, gpus, Mode.MIG, wanted)


def _changed(
    fleet: Fleet, chosen: Iterable[str], mode: Mode, wanted: Mapping[str, int] | None
) -> Found:
    names = _named(fleet, chosen)
    after = list(fleet.gpus)
    refused: list[str] = []
    for number, gpu in enumerate(fleet.gpus):
        if gpu.name not in names or (wanted is None and gpu.mode == mode):
            continue
        instances = _instances(gpu, wanted or {})
        if why := _stays(gpu, mode):
            refused.append(f"{gpu.name} keeps its mode: {why}")
        elif isinstance(instances, Obstacle):
            asked = counted((wanted or {}).items())
            refused.append(f"{gpu.name} cannot have {asked}: {instances.text}")
        else:
            new = msgspec.structs.replace(gpu, mode=mode, vgpus=(), instances=instances)
            before, after[number] = after[number], new
            if why := _lost(fleet, tuple(after), gpu.node):
                after[number] = before
                refused.append(f"{gpu.name} keeps its GPU instances: {why}")
    return msgspec.structs.replace(fleet, gpus=tuple(after)), tuple(refused)


def _named(fleet: Fleet, chosen: Iterable[str]) -> set[str]:
    names = {}
    for gpu in fleet.gpus:
        names[gpu.name] = names[f"{gpu.node}/{gpu.address}"] = gpu.name
        names[f"{gpu.node}/{gpu.address.removeprefix(_MAIN_DOMAIN)}"] = gpu.name
    found = set()
    for name in chosen:
        known(name, names, "GPU")
        found.add(names[name])
    return found


def _stays(gpu: Gpu, mode: Mode) -> str:
    """Why a GPU cannot have a mode; empty: it can."""
    if holders := [vgpu.holder for vgpu in gpu.vgpus if vgpu.holder]:
        return f"it carries vGPUs of {few(holders)}"
    if gpu.claimed:
        return line(gpu.claimed)
    if mode.has_mig and not backed.kinds(gpu) and profiles_on(gpu.device):
        return "its board has no MIG"
    return ""


def _instances(gpu: Gpu, wanted: Mapping[str, int]) -> tuple[GpuInstance, ...] | Obstacle:
    found = arrange_instances(backed.kinds(gpu), (), wanted)
    if isinstance(found, Obstacle):
        return found
    return tuple(
        GpuInstance(number, kind.name, kind.id, start, kind.size, compute_instances=1)
        for number, (kind, start) in enumerate(found.create)
    )


def _lost(fleet: Fleet, after: tuple[Gpu, ...], node: str) -> str:
    """What pods of a node have and would not have any more; empty: they keep all."""
    used = containers.in_use(fleet).get(node)
    if not used:
        return ""
    left = containers.there(msgspec.structs.replace(fleet, gpus=after)).get(node) or Counter()
    lacking = [f"{number} x {name}" for name, number in used.items() if number > left.get(name, 0)]
    return f"pods on {node} have {listed(lacking)}" if lacking else ""
