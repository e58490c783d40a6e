"""What a layout asks of one GPU: whether it means the GPU, and which mode and vGPUs it requests.

A GPU's vGPUs are configured by one owner: one layout, or the GPU's single VGPUDevices. Two would
undo each other for ever. A layout owns a GPU from the moment at which it is first applied to it;
of several that select the same new GPU the oldest gets it. It replaces what single VGPUDevices ask
for only where its spec says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from laneway.core.decision import Decision
from laneway.core.gpu.modes import Mode, mode_named
from laneway.core.layout.plan import DesiredGpu, plan_layout, plan_whole
from laneway.core.pci import PciAddress
from laneway.core.refusals import (
    CountInvalid,
    DeviceHeld,
    GpuClaimed,
    GpuOwnedByLayout,
    ModeConflict,
    ModeInvalid,
    OwnedByVgpuDevices,
    Refusal,
    UpdateRejected,
    VgpusEnabled,
)
from laneway.core.situation import Situation
from laneway.core.vgpu.profiles import by_sharing

OWNED = (GpuOwnedByLayout, OwnedByVgpuDevices)
"""Refusals that say that something else configures the GPU's vGPUs."""
USED = (GpuClaimed, DeviceHeld, VgpusEnabled, UpdateRejected)
"""Refusals whose reason is a use of the GPU, and that end with it."""

# ---------------------------------------------------------------------------------- which GPUs


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """Which GPUs a layout means: those that everything named here fits; all, if nothing is."""

    labels: Mapping[str, str] = {}
    """Of the cluster's node."""
    nodes: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    """Of SRIOVGPUDevices."""
    device_ids: frozenset[str] = frozenset()


class Claimant(msgspec.Struct, frozen=True):
    """A layout that selects a GPU."""

    created: str
    """As the API writes it, to the second; empty for one that is only to be made."""
    name: str
    owns: bool = False
    """Whether it has been applied to the GPU, and not been taken off it since."""

    @property
    def rank(self) -> tuple[bool, bool, str, str]:
        """The lowest gets the GPU: who owns it already, then the oldest."""
        return not self.owns, not self.created, self.created, self.name


def selects_node(selection: Selection, node: str, labels: Mapping[str, str]) -> bool:
    """Whether a layout means any GPU of a node."""
    if selection.nodes and node not in selection.nodes:
        return False
    return all(labels.get(key) == value for key, value in selection.labels.items())


def selects_gpu(selection: Selection, name: str, device: str) -> bool:
    """Whether a layout that means a node means this GPU of it."""
    if selection.names and name not in selection.names:
        return False
    return not selection.device_ids or device in selection.device_ids


def owner(claimants: Iterable[Claimant]) -> str:
    """The name of the layout that has a GPU; empty where none means it."""
    first = min(claimants, key=lambda one: one.rank, default=None)
    return first.name if first else ""


SINGLE = "VGPUDevices"
"""The owner of a GPU whose vGPUs are configured one by one."""


def owner_words(layout: str, *, single: bool) -> str:
    """The owner as objects show it.

    `layout`: empty where none owns the GPU. `single`: a VGPUDevice of the GPU requests a vGPU.
    """
    if layout:
        return f"VGPULayout {layout}"
    return SINGLE if single else ""


# ---------------------------------------------------------------------------- what is requested


class DesiredLayout(msgspec.Struct, frozen=True):
    """What a layout asks of one GPU."""

    gpu: DesiredGpu
    mode: Mode | None
    """None: any that has virtual functions, as no mode is set and no profile implies one."""
    explicit: bool
    """Whether the mode was named, not only implied by the profiles."""

    @property
    def wanted(self) -> Counter[str]:
        """How many vGPUs, by profile."""
        counts: Counter[str] = Counter()
        for name, count in self.gpu.vgpus:
            counts[name] += count
        return counts

    @property
    def shared(self) -> bool:
        """Whether the GPU is to have virtual functions."""
        return self.mode is None or self.mode.has_vfs


def desired_of(
    address: PciAddress, mode: str, vgpus: Iterable[tuple[str, int]]
) -> DesiredLayout | tuple[Refusal, ...]:
    """The desired state, or everything in it that contradicts itself on any card."""
    asked = tuple(vgpus)
    chosen = mode_named(mode)
    if mode and chosen is None:
        return (ModeInvalid(mode),)
    against: list[Refusal] = [CountInvalid(name, count) for name, count in asked if count < 1]
    names = {name for name, _ in asked}
    sliced, backed = by_sharing(names)
    if chosen is not None:
        if not chosen.has_vfs:
            excluded = tuple(sorted(names))
        else:
            excluded = sliced if chosen.has_mig else backed
        if excluded:
            against.append(ModeConflict(chosen, excluded))
    if against:
        return tuple(against)
    implied = Mode.MIG_BACKED if backed else Mode.SAME_SIZE if sliced else None
    gpu = DesiredGpu(
        address,
        asked,
        mixed_size=chosen is Mode.MIXED_SIZE,
        mig=None if chosen is None else chosen.has_mig,
    )
    return DesiredLayout(gpu, chosen or implied, explicit=chosen is not None)


def replaces(desired: DesiredLayout, asked: Mapping[str, int]) -> bool:
    """Whether a layout requests others than the vGPUs that single VGPUDevices request.

    `asked`: by these, how many by profile.
    """
    return bool(asked) and desired.wanted != Counter(asked)


def plan_desired(desired: DesiredLayout, situation: Situation) -> Decision:
    """What hardware needs for it, or everything that speaks against it. Judges, and writes not."""
    address = desired.gpu.address
    if not desired.shared:
        return plan_whole(address, situation, mig=desired.mode is Mode.MIG)
    gpu, modes = desired.gpu, situation.gpus.get(address)
    if desired.mode is None:
        # It stays in the mode that it is in.
        gpu = msgspec.structs.replace(gpu, mixed_size=bool(modes and modes.mixed_size))
    return plan_layout(gpu, situation)
