"""What the status of a claim says: how far its device is on its way to VMs.

Four conditions: `Bound` (hardware), `Permitted` (KubeVirt's list), `Advertised` (the kubelet), and
`Ready`, which is the first that does not hold. A cluster without KubeVirt has nothing to permit and
a node without a kubelet nobody to advertise to: what can be done there is all done.
"""

from __future__ import annotations

from laneway.api import Condition
from laneway.controllers.device_plugin.controller import Say, Standing
from laneway.controllers.devices.family import ready
from laneway.core.workload import Workload

NO_KUBELET = "NoKubelet"
"""Reason of `Advertised` on a node that has no kubelet."""
RELEASING = "Releasing"
"""Reason of `Ready` while a claim that is being deleted goes its way back."""


def conditions(bound: Condition, standing: Standing, answer: Condition | None) -> list[Condition]:
    """All four. `answer`: what there is to say of the claim, other than how far it is."""
    permitted, advertised = standing.permitted_why, standing.advertised_why
    said = [
        bound,
        _condition("Permitted", permitted, holds=standing.permitted is True),
        _condition("Advertised", advertised, holds=standing.advertised),
    ]
    return [*said, answer or _summary(bound, standing)]


def is_passed(bound: Condition, standing: Standing) -> bool:
    """Whether VMs can use the device, as far as this node and its cluster are concerned."""
    return (
        bound.status == "True"
        and standing.permitted is not False
        and (standing.advertised or standing.advertised_why.reason == NO_KUBELET)
    )


def bound_condition(answer: Condition | None, *, holds: bool, words: str) -> Condition:
    """Whether hardware is as claimed; where not, because of what the claim is answered."""
    if holds:
        return Condition(type="Bound", status="True", reason="Bound", message=words)
    reason, message = (answer.reason, answer.message) if answer else ("NotBound", words)
    return Condition(type="Bound", status="False", reason=reason, message=message)


def _summary(bound: Condition, standing: Standing) -> Condition:
    if bound.status != "True":
        return ready(bound.reason, bound.message, status=False)
    if standing.permitted is False:
        return _ready(standing.permitted_why, holds=False)
    if not standing.advertised and standing.advertised_why.reason != NO_KUBELET:
        return _ready(standing.advertised_why, holds=False)
    if not standing.advertised:
        return ready("Bound", f"{bound.message} {standing.advertised_why.message}")
    if (owner := standing.owner) is not None:
        user = Workload(owner.namespace, owner.pod, owner.virtual_machine)
        return ready("Allocated", f"Allocated to {user}, as {standing.resource}.")
    return ready("Available", f"VMs can request it as {standing.resource}.")


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
NOWHERE = Standing("", False, _NOT_BOUND, False, _NOT_BOUND, None)
"""Of what no device is."""
