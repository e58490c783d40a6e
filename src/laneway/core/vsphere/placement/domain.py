"""Which hosts a machine may be on: its failure domain, and what closes a host to it."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from laneway.core.vsphere.inventory.hosts import Host
from laneway.core.vsphere.spec.requests import GroupRequest, Requested, VgpuRequest

_ANY = ("", "*")


class Domain(msgspec.Struct, frozen=True):
    """Part of a vCenter; what is empty does not restrict it. Names, or inventory paths."""

    datacenter: str = ""
    cluster: str = ""
    host_group: str = ""

    def has(self, host: Host) -> bool:
        """Whether a host is in it."""
        return (
            _is(self.datacenter, host.datacenter)
            and (_is(self.cluster, host.cluster) or self.cluster == host.cluster_ref)
            and (not self.host_group or self.host_group in host.groups_of)
        )

    def __str__(self) -> str:
        parts = (
            ("host group", self.host_group),
            ("cluster", self.cluster),
            ("datacenter", self.datacenter),
        )
        return " of ".join(f"{kind} {name}" for kind, name in parts if name not in _ANY) or (
            "this vCenter"
        )


ANYWHERE = Domain()


def _is(request: str, name: str) -> bool:
    return request in _ANY or request == name or request.rpartition("/")[2] == name


def unavailable_because(host: Host, requested: Requested, excluded: Collection[str] = ()) -> str:
    """Why nothing may be reserved on a host now; empty: nothing speaks against it."""
    if not host.connected:
        return "not connected"
    if host.maintenance:
        return "in maintenance mode"
    if host.ref in excluded:
        return "vCenter could not create or start the VM there"
    if not host.shared_direct and any(_has_vgpus(host, one) for one in requested.devices):
        return "its default graphics type is not Shared Direct"
    return ""


def _has_vgpus(host: Host, request: object) -> bool:
    if isinstance(request, GroupRequest):
        groups = (one for one in host.device_groups if one.name == request.name)
        return any(part.profile for group in groups for part in group.parts)
    return isinstance(request, VgpuRequest)
