"""What vCenters have becomes objects, and goes with them."""

from __future__ import annotations

from typing import Any

from laneway.api import find_condition
from laneway.api.vsphere import VCenter, VSphereHost


def is_ready(vcenter: VCenter) -> bool:
    found = find_condition(vcenter.status.conditions, "Ready")
    return found is not None and found.status == "True"


def reason(vcenter: VCenter) -> str:
    found = find_condition(vcenter.status.conditions, "Ready")
    return found.reason if found is not None else ""


async def test_hosts_with_gpus_become_objects(site: Any, vcenter: Any) -> None:
    await site.vcenter(vcenter)
    await site.lead()
    told = await site.until(VCenter, "main", is_ready)
    assert told.status.version
    hosts = {host.status.host: host for host in await site.all(VSphereHost)}
    assert len(hosts) == told.status.hosts
    assert hosts, "the sample inventory has hosts with GPUs"
    assert all(host.spec.vcenter == "main" for host in hosts.values())
    assert any(board.profiles for host in hosts.values() for board in host.status.boards)
