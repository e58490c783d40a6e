"""The pages of hardware: the vGPU profiles of every board, and the models of simulated hosts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from laneway.core.vgpu.catalogue import VgpuProfile, names, profile_named
from laneway.sim.models import ABOUT, MODELS
from reference.markdown import code, page, table

_PROFILES = """
The vGPU profiles that Laneway knows without asking a driver: for plans on hardware that is not
there, and for names. On a node the driver decides which of them exist: `status.availableTypes` of
a VGPUDevice, or `laneway gpus`. A command takes the short name below. An object takes it, too, or
the driver's long name, which is the short name after `NVIDIA ` or `GRID `.

*Per GPU* is the maximum when all vGPUs have one size, for a MIG-backed profile over all its GPU
instances. *Per VM* is how many one VM can have, where that is known. The last letter is the
series: `A` applications, `B` virtual PC, `C` compute, `Q` workstation. *MIG* marks profiles that
need GPU instances.
"""


def profiles() -> str:
    """All profiles by board."""
    found = sorted(
        (one for name in names() if (one := profile_named(name)) is not None),
        key=lambda one: (one.board, one.mig_backed, one.framebuffer_mib, one.name),
    )
    sections: list[str] = []
    for board, some in groupby(found, key=lambda one: one.board):
        rows = (_row(list(alike)) for _, alike in groupby(some, key=_alike))
        header = ("profiles", "framebuffer", "per GPU", "per VM", "MIG")
        sections += [f"## {board}", table(header, rows)]
    return page("vGPU profiles", _PROFILES, *sections)


def _alike(profile: VgpuProfile) -> tuple[object, ...]:
    return (profile.mig_backed, profile.framebuffer_mib, profile.max_per_gpu, profile.max_per_vm)


def _row(found: Sequence[VgpuProfile]) -> tuple[str, ...]:
    first = found[0]
    return (
        ", ".join(code(one.name.split()[-1]) for one in found),
        f"{first.framebuffer_mib / 1024:g} GiB",
        str(first.max_per_gpu or ""),
        str(first.max_per_vm or ""),
        "yes" if first.mig_backed else "",
    )


_MODELS = """
The models of `--simulate`. Their nodes are called `sim-MODEL-1`, `sim-MODEL-2`, and so on.
[Simulate a server](../how-to/simulate.md) shows them at work.
"""


def models() -> str:
    """All models of simulated hosts."""
    rows = ((code(name), ABOUT[name]) for name in MODELS)
    return page("Simulated models", _MODELS, table(("model", "what it is"), rows))
