"""What the status of a claim says: how far its device is on its way to VMs.

Four conditions: `Bound` (hardware), `Permitted` (KubeVirt's list), `Advertised` (the kubelet), and
`Ready`, which is the first that does not hold. A cluster without KubeVirt has nothing to permit and
a node without a kubelet needs no device plugin: what can be done there is all done.
"""

from __future__ import annotations

from laneway.api import Condition
from laneway.controllers.device_plugin.controller import DeviceStatus, Say
from laneway.controllers.devices.family import ready
from laneway.core.workload import Workload

NO_KUBELET = "NoKubelet"
"""Reason of `Advertised` on a node that has no kubelet."""
RELEASING = "Releasing"
"""Reason of `Ready` while a claim that is being deleted goes its way back."""


def conditions(
    bound: Condition, device_status: DeviceStatus, answer: Condition | None
) -> list[Condition]:
    """All four. `answer`: what there is to say of the claim, other than how far it is."""
    permitted, advertised = device_status.permitted_why, device_status.advertised_why
    said = [
        bound,
        _condition("Permitted", permitted, holds=device_status.permitted is True),
        _condition("Advertised", advertised, holds=device_status.advertised),
    ]
    return [*said, answer or _summary(bound, device_status)]


def is_passed(bound: Condition, device_status: DeviceStatus) -> bool:
    """Whether VMs can use the device, as far as this node and its cluster are concerned."""
    return (
        bound.status == "True"
        and device_status.permitted is not False
        and (device_status.advertised or device_status.advertised_why.reason == NO_KUBELET)
    )


def bound_condition(answer: Condition | None, *, holds: bool, words: str) -> Condition:
    """Whether hardware is as claimed; where not, because of what the claim is answered."""
    if holds:
        return Condition(type="Bound", status="True", reason="Bound", message=words)
    reason, message = (answer.reason, answer.message) if answer else ("NotBound", words)
    return Condition(type="Bound", status="False", reason=reason, message=message)


def _summary(bound: Condition, device_status: DeviceStatus) -> Condition:
    if bound.status != "True":
        return ready(bound.reason, bound.message, status=False)
    if device_status.permitted is False:
        return _ready(device_status.permitted_why, holds=False)
    if not device_status.advertised and device_status.advertised_why.reason != NO_KUBELET:
        return _ready(device_status.advertised_why, holds=False)
    if not device_status.advertised:
        return ready("Bound", f"{bound.message} {device_status.advertised_why.message}")
    if (owner := device_status.owner) is not None:
        user = Workload(owner.namespace, owner.pod, owner.virtual_machine)
        return ready("Allocated", f"Allocated to {user}, as {device_status.resource}.")
    return ready("Available", f"VMs can request it as {device_status.resource}.")


def _condition(name: str, say: Say, *, holds: bool) -> Condition:
    return Condition(
        type=name,
        status="True" if holds else "False",
        reason=say.reason,
        message=say.message,
    )


def _ready(say: Say, *, holds: bool) -> Condition:
    return ready(say.reason, say.message, status=holds)


_NOT_BOUND = Say("NotBound", "The claim is not bound.")
NOWHERE = DeviceStatus("", False, _NOT_BOUND, False, _NOT_BOUND, None)
"""Of what no device is."""
