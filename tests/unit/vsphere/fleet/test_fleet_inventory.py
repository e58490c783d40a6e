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
    # It says that it has hosts as soon as it is known which.
    reported = await site.until(VCenter, "main", lambda one: is_ready(one) and one.status.hosts)
    assert reported.status.version

    def all_say_what_they_have(found: list[VSphereHost]) -> bool:
        return len({one.status.host for one in found} - {""}) == reported.status.hosts

    # The vCenter and each of its hosts are published at the same time.
    found = await site.until_all(VSphereHost, all_say_what_they_have)
    hosts = {host.status.host: host for host in found}
    assert len(found) == len(hosts)
    assert all(host.spec.vcenter == "main" for host in hosts.values())
    assert any(board.profiles for host in hosts.values() for board in host.status.boards)
