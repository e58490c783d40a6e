"""How far a device is on its way to VMs, in the words of its object's conditions."""

from __future__ import annotations

from typing import NamedTuple

from laneway.api import Allocation
from laneway.controllers.device_plugin.permission import Permitted, Say
from laneway.core.device_plugin.offer import Offer
from laneway.core.refusals import ResourceNameInvalid


class DeviceStatus(NamedTuple):
    """How far a device is on its way to VMs."""

    resource: str
    """The name by which pods request it; empty while it is not ready, or has no valid one."""
    permitted: bool | None
    """None: the cluster has no KubeVirt that would have to permit anything."""
    permitted_why: Say
    advertised: bool
    """Whether the kubelet may give it to a pod that asks, or has given it to one."""
    advertised_why: Say
    owner: Allocation | None


NO_KUBELET = Say("NoKubelet", "The node has no kubelet to allocate the device.")
WITHDRAWN = Say("Withdrawn", "The device is no longer advertised.")
NOT_TO_BE_PERMITTED = Permitted(
    False, Say("Withdrawn", "KubeVirt has no entry for the device, which is being withdrawn.")
)
WAITING = Say("NotPermitted", "The device is advertised once KubeVirt permits it.")

_NOT_READY = "The device is not bound or configured yet."
NOT_READY = DeviceStatus(
    resource="",
    permitted=False,
    permitted_why=Say("NotReady", _NOT_READY),
    advertised=False,
    advertised_why=Say("NotReady", _NOT_READY),
    owner=None,
)

_IDLE = Say("NotConfigured", "The function has no vGPU, so there is nothing to advertise.")
NOT_CONFIGURED = NOT_READY._replace(permitted_why=_IDLE, advertised_why=_IDLE)


def misnamed(refusal: ResourceNameInvalid) -> DeviceStatus:
    """Of a device that cannot be requested."""
    why = Say(refusal.reason, refusal.words)
    return NOT_READY._replace(permitted_why=why, advertised_why=why)


def device_status(
    offer: Offer, permitted: Permitted, kept_back: Say | None, owner: Allocation | None
) -> DeviceStatus:
    """Of a device that is ready. `kept_back`: why the kubelet could not hand it out at all."""
    if kept_back is WITHDRAWN and permitted.allowed is False:
        permitted = NOT_TO_BE_PERMITTED
    why = kept_back
    if why is None and offer.unhealthy:
        why = Say("Unhealthy", f"{offer.unhealthy[0].upper()}{offer.unhealthy[1:]}.")
    return DeviceStatus(
        resource=offer.resource,
        permitted=permitted.allowed,
        permitted_why=permitted.why,
        advertised=why is None,
        advertised_why=why or Say("Advertised", f"The kubelet advertises it as {offer.resource}."),
        owner=owner,
    )
