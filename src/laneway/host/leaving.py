"""Functions that are being taken away from a process that still uses them.

The kernel waits for that user, and keeps locks meanwhile: of the function, and of the PF whose VFs
are being removed. A process that reads an attribute that needs such a lock (`driver_override` is
one) then waits too, and cannot even be killed. So these functions are found from what can always be
read: they look as if they had no driver, but processes have them open. A VF that is being removed
has lost its links to and from the PF; it is known by the address that only a VF of this PF can
have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from laneway.core.inventory import Inventory
from laneway.core.pci import PciAddress, PciFunction
from laneway.core.situation import Holder
from laneway.host.attributes import clean, decimal_id
from laneway.host.holders import Workloads, no_workloads, read_holders
from laneway.host.pci import DEVICES
from laneway.host.port import Host
from laneway.host.scan import scan

_LAST = 1 << 16
"""Routing ids of one domain."""

Holders = dict[PciAddress, tuple[Holder, ...]]


def read_users(
    host: Host,
    inventory: Inventory,
    concerned: Iterable[PciAddress],
    workloads: Workloads = no_workloads,
) -> tuple[Holders, frozenset[PciAddress]]:
    """The users of the functions, a PF's with those of VFs it is losing; and what is locked."""
    known = inventory.by_address()
    asked = frozenset(concerned) & known.keys()
    lost = {
        pf: [vf for vf in _vf_addresses(host, pf, known[pf].total_vfs or 0) if _lost(vf, known)]
        for pf in asked
        if known[pf].total_vfs
    }
    found = read_holders(host, asked.union(*lost.values()), workloads)
    leaving = {
        address
        for address, holders in found.items()
        if not known[address].driver and any(holder.kind == "process" for holder in holders)
    }
    users = {address: holders for address, holders in found.items() if address in asked}
    for pf, vfs in lost.items():
        waiting = [
            Holder(holder.kind, f"it is losing {vf}, but {holder.text}", holder.pid, holder.end)
            for vf in sorted(leaving.intersection(vfs))
            for holder in found[vf]
        ]
        if waiting:
            users[pf] = (*users.get(pf, ()), *waiting)
            leaving.add(pf)
    return users, frozenset(leaving & asked)


def read_locked(host: Host, addresses: Iterable[PciAddress]) -> frozenset[PciAddress]:
    """Which of these functions the kernel is taking away from a process now."""
    able = [address for address in addresses if _can_be_locked(host, address)]
    return read_users(host, scan(host), able)[1] if able else frozenset()


def _can_be_locked(host: Host, address: PciAddress) -> bool:
    """Whether a closer look is worth its time: not where all have their drivers, or are gone."""
    if not host.exists(f"{DEVICES}/{address}/driver"):
        return True
    total = _number(host, address, "sriov_totalvfs")
    homes = (f"{DEVICES}/{vf}" for vf in _vf_addresses(host, address, total or 0))
    return any(
        host.exists(home)
        and not host.exists(f"{home}/physfn")
        and not host.exists(f"{home}/driver")
        for home in homes
    )


def _lost(address: PciAddress, known: Mapping[PciAddress, PciFunction]) -> bool:
    function = known.get(address)
    return function is not None and function.physfn is None and not function.driver


def _vf_addresses(host: Host, pf: PciAddress, total: int) -> list[PciAddress]:
    """Where the VFs of a PF are, whether they exist or not: PCIe's routing ids, counted on."""
    offset, stride = (_number(host, pf, name) for name in ("sriov_offset", "sriov_stride"))
    if offset is None or stride is None:
        return []
    first = (pf.bus << 8) + (pf.device << 3) + pf.function + offset
    ids = range(first, first + max(stride, 1) * total, max(stride, 1))
    return [
        PciAddress(pf.domain, number >> 8, (number >> 3) & 0x1F, number & 7)
        for number in ids
        if number < _LAST
    ]


def _number(host: Host, pf: PciAddress, name: str) -> int | None:
    try:
        return decimal_id(clean(host.read(f"{DEVICES}/{pf}/{name}")))
    except OSError:
        return None
