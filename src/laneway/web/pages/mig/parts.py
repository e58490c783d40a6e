"""What the pages about the GPU instances of one GPU have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from laneway.api import MigConfiguration
from laneway.core.mig.profiles import bare_name
from laneway.core.phrases import short_name
from laneway.core.refusals import MigModeDisabled, OwnedByLayout
from laneway.views.gpus import Gpu
from laneway.views.mig_planned import totals
from laneway.views.vgpu_state import owner_layout
from laneway.web import holders
from laneway.web.page import NotFound
from laneway.web.pages.gpus import reading
from laneway.web.pages.mig.listing import PATCH
from laneway.web.place import link
from laneway.web.visit import Visit


class Inside(NamedTuple):
    """A vGPU in a GPU instance."""

    name: str
    profile: str
    url: str
    holder: holders.Holder | None


class Instance(NamedTuple):
    """A GPU instance."""

    id: int
    profile: str
    vgpus: Sequence[Inside]


def named(visit: Visit) -> tuple[Gpu, MigConfiguration]:
    """The GPU that the address of a page names, with its MigConfiguration. Raises NotFound."""
    gpu = reading.named(visit)
    if gpu.mig is None:
        raise NotFound(gpu.name)
    return gpu, gpu.mig


def instances(visit: Visit, gpu: Gpu) -> list[Instance]:
    """The GPU instances with what is in them."""
    return [
        Instance(number, profile, _inside(visit, gpu, number)) for number, profile in gpu.instances
    ]


def _inside(visit: Visit, gpu: Gpu, number: int) -> list[Inside]:
    return [
        Inside(
            vgpu.metadata.name,
            short_name(vgpu.status.configure_vgpu_type_name),
            link("vgpus", vgpu.metadata.name),
            holders.of_vgpu(visit, vgpu),
        )
        for vgpu in gpu.vgpus
        if vgpu.status.vgpu_status and vgpu.status.gpu_instance == number
    ]


def counts_now(gpu: Gpu) -> dict[str, int]:
    """The GPU instances that are desired, or that there are where none are."""
    mig = gpu.mig
    if mig is not None and mig.spec.enabled:
        found = {bare_name(one.name): one.requested for one in mig.spec.profile_spec}
    else:
        found = dict.fromkeys(totals(gpu), 0)
        for _, name in gpu.instances:
            found[name] = found.get(name, 0) + 1
    return {name: count for name, count in found.items() if count}


def query_of(counts: Mapping[str, int]) -> list[tuple[str, str]]:
    """The fields of the plan's form for these counts."""
    return [("plan", "1"), *((f"{FIELD}{name}", str(n)) for name, n in counts.items() if n)]


FIELD = "mig:"
"""Begins the name of a field; the profile follows."""


def against(visit: Visit, gpu: Gpu) -> str:
    """Why the user cannot change the GPU instances; empty where nothing is known against it."""
    if not visit.may(PATCH):
        return visit.texts("mig.may_not_patch")
    if layout := owner_layout(gpu.device.status.owner):
        return OwnedByLayout(gpu.name, layout).words
    if not gpu.has_mig:
        return MigModeDisabled(gpu.address, gpu.name).words
    return gpu.stale
