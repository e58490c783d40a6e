"""The vGPUs of single virtual functions, as their VGPUDevices desire them.

Each function has an object of its own, so each is refused for itself. Several functions of one GPU
share its room: what the first ones take is counted for those that follow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from laneway.api import SRIOVGPUDevice, VGPUDevice
from laneway.changes import specs
from laneway.core.phrases import short_name
from laneway.core.refusals import DeviceInUse, OwnedByLayout
from laneway.core.use import Use
from laneway.kube.client import Client
from laneway.kube.resource import served
from laneway.views.vgpu_state import owner_layout


class Desired(NamedTuple):
    """The vGPU that a function is to have."""

    profile: str
    """In the driver's words; empty: none."""

    @property
    def fields(self) -> dict[str, Any]:
        """Those of the spec that change."""
        if not self.profile:
            return {"enabled": False}
        return {"enabled": True, "vGPUTypeName": self.profile}

    def is_met(self, vgpu: VGPUDevice) -> bool:
        """Whether the object desires just this already."""
        if not self.profile:
            return not vgpu.spec.enabled and not vgpu.status.vgpu_status
        return vgpu.spec.enabled and vgpu.spec.vgpu_type_name == self.profile


def against(vgpu: VGPUDevice, gpu: str, users: Sequence[Use]) -> Iterator[str]:
    """Reasons against any change, as far as objects show them. `gpu`: name of its GPU's object."""
    if layout := owner_layout(vgpu.status.owner):
        yield OwnedByLayout(gpu, layout).words
    elif users and vgpu.spec.enabled:
        yield DeviceInUse(vgpu.metadata.name, tuple(users)).words


def crowded(
    vgpus: Iterable[tuple[VGPUDevice, SRIOVGPUDevice | None]], profile: str
) -> Mapping[str, str]:
    """Those of several functions, by name, that find no room once the others have the profile."""
    taken: Counter[str] = Counter()
    found: dict[str, str] = {}
    for vgpu, gpu in vgpus:
        if gpu is None or vgpu.status.vgpu_status or Desired(profile).is_met(vgpu):
            continue
        left = gpu.status.fits.get(profile)
        taken[gpu.metadata.name] += 1
        if left is not None and 0 < left < taken[gpu.metadata.name]:
            found[vgpu.metadata.name] = (
                f"The GPU has room for {left} more of {short_name(profile)}, which functions "
                "before this one take."
            )
    return found


async def write(
    client: Client, name: str, desired: Desired, *, dry_run: bool = False
) -> VGPUDevice:
    """Store it. `dry_run`: only ask the server, with its webhooks."""
    return await specs.write(client, served(VGPUDevice), name, desired.fields, dry_run=dry_run)
