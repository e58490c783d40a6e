"""Why a VM on vSphere cannot have the devices that its Machine requests.

A terminal refusal stands until the spec or the hosts change; any other ends when a device is
released.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from laneway.core.phrases import few, listed, shown
from laneway.core.refusals.base import Refusal

_NAMED = 4
"""How many holders of devices a message names."""


class Supply(msgspec.Struct, frozen=True):
    """One request of a Machine, and what the hosts that it may use have of it."""

    what: str
    """`grid_t4-16q`, `10de:1eb8 labelled 'gold'`."""
    requested: int
    """By one Machine."""
    total: int
    free: int
    in_use: tuple[tuple[str, int], ...] = ()
    """Counts by VM."""
    reserved_for: tuple[tuple[str, int], ...] = ()
    """Counts by Machine whose VM is not on yet."""

    @property
    def used(self) -> int:
        """How many are in use."""
        return sum(count for _, count in self.in_use)

    @property
    def reserved(self) -> int:
        """How many are reserved for Machines whose VMs are not on yet."""
        return sum(count for _, count in self.reserved_for)

    @property
    def words(self) -> str:
        """`grid_t4-16q: 1 requested, 0 of 4 free (3 in use by vm-7 (2), vm-8)`."""
        taken = "; ".join(
            filter(
                None, (_taken("in use by", self.in_use), _taken("reserved for", self.reserved_for))
            )
        )
        said = f"{shown(self.what)}: {self.requested} requested, {self.free} of {self.total} free"
        return f"{said} ({taken})" if taken else said


def _taken(how: str, names: tuple[tuple[str, int], ...]) -> str:
    if not names:
        return ""
    shown = [f"{name} ({count})" if count != 1 else name for name, count in names[:_NAMED]]
    if len(names) > _NAMED:
        shown.append(f"{len(names) - _NAMED} more")
    return f"{sum(count for _, count in names)} {how} {listed(shown)}"


def _skipped(hosts: tuple[tuple[str, str], ...]) -> str:
    """The hosts that were skipped, grouped by reason."""
    by_reason: dict[str, list[str]] = {}
    for host, why in hosts:
        by_reason.setdefault(why, []).append(host)
    reasons = (f"{few(names)} ({why})" for why, names in by_reason.items())
    return f" Skipped: {few(reasons, '; ')}." if hosts else ""


class ResourcePoolUnresolved(Refusal, frozen=True):
    """vCenter has no resource pool of that name, or several."""

    terminal: ClassVar[bool] = False
    why: str
    """`resource pool 'team' is not unique: it may be …; give the whole path`."""

    @property
    def words(self) -> str:
        return f"The hosts for this VM cannot be determined: {self.why}."


class NoHostInDomain(Refusal, frozen=True):
    """No host with devices is in the datacenter, cluster or host group of a Machine."""

    terminal: ClassVar[bool] = True
    domain: str
    """`cluster gpu of datacenter DC0`."""
    clusters: tuple[str, ...]
    """Those with devices."""

    @property
    def words(self) -> str:
        return (
            f"No host in {self.domain} has GPUs or other PCI devices for VMs. Clusters with such "
            f"hosts: {few(self.clusters)}. Choose one of these clusters, or enable passthrough or "
            "Shared Direct on the hosts."
        )


class DeviceNotOffered(Refusal, frozen=True):
    """No host of the failure domain has the requested device, in use or not."""

    terminal: ClassVar[bool] = True
    what: str
    domain: str
    offered: tuple[str, ...]
    """What its hosts have instead."""
    nearly: tuple[str, ...] = ()
    """Devices that match but for one thing that an administrator can change: a sentence each."""

    @property
    def words(self) -> str:
        nearly = f" Closest: {few(self.nearly, '; ')}." if self.nearly else ""
        return (
            f"No host in {self.domain} has {shown(self.what)}.{nearly} Available: "
            f"{few(self.offered)}. Request one of these, or choose another failure domain."
        )


class HostsTooSmall(Refusal, frozen=True):
    """No single host has all devices that one Machine requests, even when empty."""

    terminal: ClassVar[bool] = True
    requested: tuple[tuple[str, int], ...]
    domain: str
    hosts: tuple[str, ...]
    """What the largest hosts have, `esx-1 has 2 of 4 x 10de:1eb8`."""

    @property
    def words(self) -> str:
        each = listed(f"{count} x {shown(what)}" for what, count in self.requested)
        return (
            f"All devices of a VM must be on one host. No host in {self.domain} has {each}, even "
            f"when empty: {few(self.hosts, '; ')}. Request fewer devices."
        )


class NoRoom(Refusal, frozen=True):
    """Hosts have the requested devices, but none has all of them free."""

    terminal: ClassVar[bool] = False
    domain: str
    supplies: tuple[Supply, ...]
    skipped: tuple[tuple[str, str], ...] = ()
    """Hosts with matching devices that were skipped, with the reason."""
    other_sizes: tuple[str, ...] = ()
    """`0000:3b:00.0 of esx-1 has vGPUs of 8 GiB`: boards with memory enough."""

    @property
    def words(self) -> str:
        apart = all(one.free >= one.requested for one in self.supplies)
        how = ", but not all on one host" if apart else ""
        listing = few((one.words for one in self.supplies), "; ")
        sized = ""
        if self.other_sizes:
            sized = f" All vGPUs of a GPU have the same size: {few(self.other_sizes, '; ')}."
        return (
            f"No host in {self.domain} has room: {listing}{how}.{sized}{_skipped(self.skipped)} "
            "Laneway retries when something changes. Release devices, or request fewer."
        )


class FieldNotSupported(Refusal, frozen=True):
    """A spec sets fields that Laneway does not support where it makes the VMs."""

    terminal: ClassVar[bool] = True
    fields: tuple[str, ...]
    """`spec.tagIDs`, `spec.dataDisks`."""
    why: str = ""
    """Which part of them, where only a part is not supported."""

    @property
    def words(self) -> str:
        why = f" ({shown(self.why)})" if self.why else ""
        return (
            f"With --vsphere standalone Laneway does not support {few(self.fields)}{why}, so it "
            "makes no VM. Remove it, or run CAPV's controllers and --vsphere alongside."
        )


def is_terminal(refusal: Refusal) -> bool:
    """Whether a refusal stands until the spec or the hosts change."""
    return getattr(refusal, "terminal", False)
