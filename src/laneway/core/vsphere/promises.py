"""Which promises keep something free, and where."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from laneway.core.vsphere.inventory import Host
from laneway.core.vsphere.promise import Promise


def by_host(
    hosts: Iterable[Host], promises: Iterable[Promise], but: str = ""
) -> Mapping[str, Sequence[Promise]]:
    """The promises that count, by the ref of the host; those of one machine left out.

    A VM that is on with devices of another host than the promised one keeps nothing free there.
    """
    homes: dict[str, set[str]] = {}
    for host in hosts:
        for device in host.devices:
            if device.holder:
                homes.setdefault(device.holder, set()).add(host.ref)
        for board in host.boards:
            for user in board.users:
                homes.setdefault(user.vm, set()).add(host.ref)
    found: dict[str, list[Promise]] = {}
    for promise in sorted(promises, key=_name):
        if but and promise.machine == but:
            continue
        at = homes.get(promise.vm) if promise.vm else None
        if at is None or promise.host in at:
            found.setdefault(promise.host, []).append(promise)
    return found


def _name(promise: Promise) -> str:
    return promise.machine
