"""Why a machine on vSphere cannot have the devices that it asks for.

A terminal refusal stands until the spec or the hosts change; any other ends by itself, once
somebody gives something back.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from laneway.core.phrases import few, listed, shown
from laneway.core.refusals.base import Refusal

_NAMED = 4
"""So many holders of devices are named."""


class Supply(msgspec.Struct, frozen=True):
    """What there is of one thing that a machine asks for, on the hosts that it may be on."""

    what: str
    """`grid_t4-16q`, `10de:1eb8 labelled 'gold'`."""
    requested: int
    """By one machine."""
    total: int
    free: int
    in_use: tuple[tuple[str, int], ...] = ()
    """By VM, with how many."""
    reserved_for: tuple[tuple[str, int], ...] = ()
    """To machines that are not on yet, with how many."""

    @property
    def used(self) -> int:
        """How many are in use."""
        return sum(count for _, count in self.in_use)

    @property
    def reserved(self) -> int:
        """How many are kept for machines that are not on yet."""
        return sum(count for _, count in self.reserved_for)

    @property
    def words(self) -> str:
        """`grid_t4-16q: 1 asked for, 0 of 4 free (3 in use by vm-7 (2), vm-8)`."""
        taken = "; ".join(
            filter(
                None, (_taken("in use by", self.in_use), _taken("promised to", self.reserved_for))
            )
        )
        said = f"{shown(self.what)}: {self.requested} asked for, {self.free} of {self.total} free"
        return f"{said} ({taken})" if taken else said


def _taken(how: str, names: tuple[tuple[str, int], ...]) -> str:
    if not names:
        return ""
    told = [f"{name} ({count})" if count != 1 else name for name, count in names[:_NAMED]]
    if len(names) > _NAMED:
        told.append(f"{len(names) - _NAMED} more")
    return f"{sum(count for _, count in names)} {how} {listed(told)}"


def _skipped(hosts: tuple[tuple[str, str], ...]) -> str:
    """The hosts that were not considered, together with those of the same reason."""
    by_reason: dict[str, list[str]] = {}
    for host, why in hosts:
        by_reason.setdefault(why, []).append(host)
    told = (f"{few(names)} ({why})" for why, names in by_reason.items())
    return f" Not considered: {few(told, '; ')}." if hosts else ""


class PoolUnclear(Refusal, frozen=True):
    """The resource pool of a machine is not there, or its name fits several."""

    terminal: ClassVar[bool] = False
    why: str
    """`resource pool 'team' is not unique: it may be …; give the whole path`."""

    @property
    def words(self) -> str:
        return f"It is not known on which hosts the machine may be: {self.why}."


class NoHostInDomain(Refusal, frozen=True):
    """No host with devices is in the datacenter, cluster or host group of a machine."""

    terminal: ClassVar[bool] = True
    domain: str
    """`cluster gpu of datacenter DC0`."""
    clusters: tuple[str, ...]
    """Those with devices."""

    @property
    def words(self) -> str:
        return (
            f"In {self.domain} no host has devices for machines. Clusters whose hosts have: "
            f"{few(self.clusters)}. Choose a failure domain that has GPUs, or enable passthrough "
            "or Shared Direct on its hosts."
        )


class DeviceNotOffered(Refusal, frozen=True):
    """No host of the failure domain has what is asked for, in use or not."""

    terminal: ClassVar[bool] = True
    what: str
    domain: str
    offered: tuple[str, ...]
    """What there is instead."""
    nearly: tuple[str, ...] = ()
    """What would do but for something that can be put right, as parts of a sentence."""

    @property
    def words(self) -> str:
        nearly = f" But {few(self.nearly, '; ')}." if self.nearly else ""
        return (
            f"No host in {self.domain} offers {shown(self.what)}.{nearly} There is: "
            f"{few(self.offered)}. Ask for something of that, or choose another failure domain."
        )


class HostsTooSmall(Refusal, frozen=True):
    """There is all of it, but no host has all that one machine asks for, even if it were empty."""

    terminal: ClassVar[bool] = True
    requested: tuple[tuple[str, int], ...]
    domain: str
    hosts: tuple[str, ...]
    """What the largest hosts have, `esx-1 has 2 of 4 x 10de:1eb8`."""

    @property
    def words(self) -> str:
        each = listed(f"{count} x {shown(what)}" for what, count in self.requested)
        return (
            f"A machine needs all of its devices on one host, and no host in {self.domain} could "
            f"have {each} even if nobody else had any: {few(self.hosts, '; ')}. Ask for less."
        )


class NoRoom(Refusal, frozen=True):
    """Hosts have what is asked for, but now none has all of it free."""

    terminal: ClassVar[bool] = False
    domain: str
    supplies: tuple[Supply, ...]
    skipped: tuple[tuple[str, str], ...] = ()
    """Hosts that have some of it and were not considered, with the reason."""
    other_sizes: tuple[str, ...] = ()
    """`0000:3b:00.0 of esx-1 has vGPUs of 8 GiB`: boards with memory enough."""

    @property
    def words(self) -> str:
        apart = all(one.free >= one.requested for one in self.supplies)
        how = ", but not all of it on one host" if apart else ""
        told = few((one.words for one in self.supplies), "; ")
        sized = ""
        if self.other_sizes:
            sized = f" vGPUs of a board have one size: {few(self.other_sizes, '; ')}."
        return (
            f"No host in {self.domain} has room now: {told}{how}.{sized}{_skipped(self.skipped)} "
            "It is tried again when something changes; free some, or ask for less."
        )


class FieldNotSupported(Refusal, frozen=True):
    """A spec says something that Laneway does not carry out where it makes the machines."""

    terminal: ClassVar[bool] = True
    fields: tuple[str, ...]
    """`spec.tagIDs`, `spec.dataDisks`."""
    why: str = ""
    """What of them is not, where only a part of it is not."""

    @property
    def words(self) -> str:
        why = f" ({shown(self.why)})" if self.why else ""
        return (
            f"A manager with --vsphere standalone does not carry out {few(self.fields)}{why}, and "
            "makes no VM without. Leave that out, or run CAPV's controllers with Laneway beside."
        )


def is_terminal(refusal: Refusal) -> bool:
    """Whether a refusal stands until the spec or the hosts change."""
    return getattr(refusal, "terminal", False)
