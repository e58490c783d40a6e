"""Whether a named device can be had at all, by any user: claimed, enabled and ready.

What is in the way stands in a condition of the claim or of the VGPUDevice, and is reported in its
words. Objects that no agent of Laneway's has answered have no conditions; the fields of Harvester's
contract say whether its controller has.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from laneway.admission.vms.devices import Found, find
from laneway.admission.world import COMING, World
from laneway.api import Condition, VGPUDevice, find_condition
from laneway.core.refusals import DeviceNotClaimed, DeviceNotReady, Refusal, VgpuDisabled

_LEAVING = DeviceNotReady(
    "", "Releasing", "It is being released. Wait until that ends, then claim it again."
)
_UNANSWERED = "No agent has reported on it. Check that the agent of its node runs."


def missing(found: Found) -> Refusal | None:
    """What a user has to do before it can be had: claim it, enable it."""
    vgpu = found.vgpu
    if vgpu is not None and not vgpu.spec.enabled and (found.is_mediated or found.claim is None):
        return VgpuDisabled(found.name)
    if found.is_mediated or found.claim is not None or found.usb_claim is not None:
        return None
    if vgpu is not None:
        # Its claim is made by the agent, once the vGPU is there.
        return _not_ready(found.title, vgpu.status.conditions, passed=False)
    return DeviceNotClaimed(found.title, found.place)


def lacks_claim(found: Found) -> bool:
    """Whether a claim is all that it is missing, as far as is known."""
    return not isinstance(missing(found), VgpuDisabled | None)


def unready(found: Found) -> Refusal | None:
    """What is to be waited for, of a device that `missing` says nothing about."""
    if found.is_mediated and found.vgpu is not None:
        return _unready_vgpu(found, found.vgpu)
    claim = found.claim or found.usb_claim
    if claim is None:
        return None
    if claim.metadata.deletion_timestamp:
        return DeviceNotReady(found.title, _LEAVING.cause, _LEAVING.message)
    passed = (
        found.claim.status.passthrough_enabled
        if found.claim is not None
        else found.usb is not None and found.usb.status.enabled
    )
    return _not_ready(found.title, claim.status.conditions, passed=passed)


def coming(world: World, resources: Collection[str]) -> bool:
    """Whether devices of these resources are claimed or made, and to be had in a moment."""
    on_the_way = [claim.metadata.name for claim in world.claims.by(COMING, True)]
    on_the_way += [claim.metadata.name for claim in world.usb_claims.by(COMING, True)]
    on_the_way += [vgpu.metadata.name for vgpu in world.vgpus.by(COMING, True)]
    found = (find(world, name) for name in on_the_way)
    return any(one is not None and not set(resources).isdisjoint(one.resources) for one in found)


def _unready_vgpu(found: Found, vgpu: VGPUDevice) -> Refusal | None:
    if vgpu.metadata.deletion_timestamp:
        return DeviceNotReady(found.title, _LEAVING.cause, _LEAVING.message)
    return _not_ready(found.title, vgpu.status.conditions, passed=bool(vgpu.status.vgpu_status))


def _not_ready(title: str, conditions: Sequence[Condition], *, passed: bool) -> Refusal | None:
    ready = find_condition(conditions, "Ready")
    if ready is None:
        return None if passed else DeviceNotReady(title, "AgentNotReporting", _UNANSWERED)
    if ready.status == "True":
        return None
    return DeviceNotReady(title, ready.reason or "NotReady", ready.message)
