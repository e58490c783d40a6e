"""For which pod a kubelet may be asking, and whether that pod may have what others have claimed.

A kubelet that requests devices does not say for which pod, and chooses among all that are healthy.
So every pod that could be meant has to be entitled: every pod on the node that has not all it
requests. A pod may have a device that is claimed for a user who requests the pod
(`core.requesters`), or for the account as which it runs, or whose claim one of them may `use`.

Total and pure: pods, holders and rights are arguments.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import msgspec

from laneway.core.device_plugin.offer import Owner
from laneway.core.phrases import few, quoted
from laneway.core.requesters import User, service_account

_WAITING = ("", "Pending")


class Pod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod on the node."""

    uid: str
    namespace: str
    name: str
    phase: str
    limits: Mapping[str, int]
    """Devices, by resource, as the scheduler counts them."""
    sizes: Collection[tuple[str, int]]
    """What single containers request: resource and count."""
    users: tuple[User, ...] = ()
    """The users who request its devices."""
    account: str = ""
    """The ServiceAccount that it names."""

    @property
    def title(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def entitled(self) -> tuple[User, ...]:
        """Those of whom one has to have the right."""
        return (*self.users, service_account(self.namespace, self.account))


def candidates(
    pods: Iterable[Pod],
    resource: str,
    count: int,
    owners: Mapping[tuple[str, str], Owner],
) -> tuple[Pod, ...]:
    """The pods for one of whose containers a kubelet may request so many devices."""
    had: dict[tuple[str, str], int] = {}
    for (of, _), owner in owners.items():
        if of == resource:
            key = owner.namespace, owner.pod
            had[key] = had.get(key, 0) + 1
    return tuple(
        pod
        for pod in pods
        if pod.phase in _WAITING
        and (resource, count) in pod.sizes
        and had.get((pod.namespace, pod.name), 0) < pod.limits.get(resource, 0)
    )


def barred(
    device: str, owner: str, found: Collection[Pod], may: Mapping[str, bool]
) -> tuple[str, bool]:
    """Why a device that `owner` has claimed is for none of these pods; empty if it is for all.

    `may` says of each, by title, whether it may have the device. With it: whether that may be
    otherwise in a moment, because it may be in use, or who is meant is not known yet.
    """
    claimed = f"{device} is claimed by {quoted(owner)}"
    if not found:
        return f"{claimed}, and no pod on this node is known to wait for so many devices", True
    strange = [pod for pod in found if not may.get(pod.title)]
    if not strange:
        return "", False
    if len(strange) < len(found):
        others = few(pod.title for pod in found)
        why = f"any of the pods {others} may be meant, not all of which may have it"
        return f"{claimed}: {why}; delete {strange[0].title}", True
    pod = strange[0]
    who = few(quoted(one.username) for one in pod.entitled)
    made = "" if pod.users else ", whose creation Laneway's webhook did not see,"
    return f"{claimed}; pod {pod.title}{made} may not have it, as {who} may not use it", False
