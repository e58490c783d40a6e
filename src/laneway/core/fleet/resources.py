"""What VMs can request of a fleet: what is there, and what its GPUs could be given.

Profiles of boards that are not there yet are among them, for a change may add these boards.
"""

from __future__ import annotations

from collections.abc import Iterable

from laneway.core.fleet import backed
from laneway.core.fleet.made_up import boards
from laneway.core.fleet.model import Fleet
from laneway.core.mig.profiles import expected_profiles
from laneway.core.names import instance_resource_name, vgpu_resource_name


def profiles(fleet: Fleet, coming: Iterable[str] = ()) -> set[str]:
    """All vGPU profiles, MIG-backed ones as well; `coming`: boards that a change adds."""
    names = {name for gpu in fleet.gpus for name in gpu.profiles}
    names |= {vgpu.profile for gpu in fleet.gpus for vgpu in gpu.vgpus}
    names |= set(mig_backed(fleet).values())
    every = boards()
    # A board that is there has the names of its driver, which win over those of the catalogue.
    there = {name.rpartition(" ")[2] for name in names}
    names |= {
        name for board in coming for name in every[board][1] if name.rpartition(" ")[2] not in there
    }
    return names


def mig_backed(fleet: Fleet) -> dict[str, str]:
    """The MIG-backed profiles of its GPUs, by resource."""
    kinds = dict.fromkeys((gpu.device, gpu.profiles) for gpu in fleet.gpus)
    return {resource: name for one in kinds for resource, name in backed.profiles(*one).items()}


def instances(fleet: Fleet) -> set[str]:
    """The resources of the kinds of GPU instances that its GPUs have."""
    boards_ = {gpu.device for gpu in fleet.gpus if not gpu.instance_profiles}
    names = {one.name for device in boards_ for one in expected_profiles(device)}
    names |= {one.name for gpu in fleet.gpus for one in gpu.instance_profiles}
    return set(map(instance_resource_name, names))


def meant(name: str, known: Iterable[str]) -> list[str]:
    """The resources that a name may mean, which people write short: `L40S-24Q`, `2g.10gb`.

    `known`: those that there are. A name with its prefix means itself.
    """
    if "/" in name:
        return [name]
    tail = vgpu_resource_name(name).partition("/")[2].lower()
    return [one for one in known if f"_{one.partition('/')[2].lower()}".endswith(f"_{tail}")]


def resources(fleet: Fleet) -> set[str]:
    """All resources, by their names."""
    found = {vgpu_resource_name(name) for name in profiles(fleet, boards())}
    return found | instances(fleet) | {one.resource for one in fleet.devices}
