"""Why VMs that request devices cannot all start."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from laneway.core.names import is_vgpu_resource
from laneway.core.phrases import line, listed
from laneway.core.refusals.base import Refusal

_NAMED = 4
"""So many holders, or reasons, of one node are named."""


class NodeDevices(msgspec.Struct, frozen=True):
    """The devices of one resource on one node, and where they are; names with their counts."""

    node: str
    total: int = 0
    free: int = 0
    held: tuple[tuple[str, int], ...] = ()
    reserved: tuple[tuple[str, int], ...] = ()
    wanted: tuple[tuple[str, int], ...] = ()
    unhealthy: tuple[tuple[str, int], ...] = ()
    """By reason."""

    @property
    def taken(self) -> str:
        """`3 held by default/vm-a; 1 reserved by the stopped default/vm-b`; empty for none."""
        parts = (
            _taken("held by", self.held),
            _taken("reserved by the stopped", self.reserved),
            _taken("requested by", self.wanted),
            _taken("unavailable:", self.unhealthy),
        )
        return "; ".join(filter(None, parts))

    @property
    def words(self) -> str:
        """`node n1 has 1 free of 4 (3 held by default/vm-a)`."""
        taken = self.taken
        where = f"node {self.node} has {self.free} free of {self.total}"
        return f"{where} ({taken})" if taken else where


def _taken(how: str, names: tuple[tuple[str, int], ...]) -> str:
    if not names:
        return ""
    several = len(names) > 1
    reported = [f"{name} ({count})" if several else name for name, count in names[:_NAMED]]
    if len(names) > _NAMED:
        reported.append(f"{len(names) - _NAMED} more")
    return f"{sum(count for _, count in names)} {how} {listed(reported)}"


def _sites(nodes: Iterable[NodeDevices]) -> str:
    return "; ".join(node.words for node in nodes)


def _nodes(others: int) -> str:
    return f"{others} other nodes have" if others != 1 else "1 other node has"


class NoNodeHasResource(Refusal, frozen=True, tag="ResourceNotFound"):
    """No node has a device of this name at all."""

    resource: str
    known: tuple[str, ...]
    """Names that there are."""

    @property
    def words(self) -> str:
        if is_vgpu_resource(self.resource):
            profile = self.resource.rpartition("_")[2]
            how = f"configure such a vGPU: laneway vgpu set NODE/ADDRESS {line(profile)}"
        else:
            how = "claim such a device: laneway claim NODE/ADDRESS"
        others = f" The nodes have {listed(self.known)}." if self.known else ""
        return f"{self.resource}: no node has such a device.{others} To {how}"


class NodeNotFound(Refusal, frozen=True):
    """A node is requested that is not in the cluster."""

    node: str
    known: tuple[str, ...]
    """Nodes with devices."""

    @property
    def words(self) -> str:
        return (
            f"The cluster has no node {self.node}. Name one of the nodes with devices: "
            f"{listed(self.known)}."
        )


class NoNodeMatches(Refusal, frozen=True, tag="NodeSelectorMismatch"):
    """No node has the labels that are requested."""

    labels: tuple[tuple[str, str], ...]
    nodes: tuple[str, ...] = ()
    """Those of the devices that are requested by name; none: any."""

    @property
    def words(self) -> str:
        asked = listed(f"{key}={value}" for key, value in self.labels)
        if self.nodes:
            only = f"The devices are on node {listed(self.nodes)}, which does not have {asked}."
            return f"{only} Request devices of another node, or select other labels."
        return f"No usable node has {asked}. Label a node, or select other labels."


class InsufficientDevices(Refusal, frozen=True):
    """Of one resource there is not enough, whatever else is requested."""

    resource: str
    count: int
    """What one machine requests, all on one node."""
    vms: int
    """How many VMs are still to start."""
    possible: int
    """For how many of them there is enough."""
    nodes: tuple[NodeDevices, ...]
    """Those with the most, at first what is free."""
    others: int
    """How many more nodes have such devices."""
    others_free: int
    """What is free on these."""
    chosen: bool = False
    """Whether only some nodes may be used."""

    @property
    def words(self) -> str:
        asked = f"{self.resource}: {self.count} requested on one node"
        if self.vms != 1:
            asked = (
                f"{self.resource}: {self.count} requested by each of {self.vms} VMs, and "
                f"there is enough for {self.possible}"
            )
        usable = "usable node" if self.chosen else "node"
        if not self.nodes:
            rest = f"no {usable} has any"
        elif not self.others:
            rest = f"{_sites(self.nodes)}; no other {usable} has any"
        else:
            rest = f"{_sites(self.nodes)}; {_nodes(self.others)} {self.others_free} free"
        if is_vgpu_resource(self.resource):
            more = "configure more. To see which GPUs have room: laneway gpus"
        else:
            more = "claim more. To list devices: kubectl get pcidevices,usbdevices"
        return f"{asked}; {rest}. Free some, request fewer, or {more}"


class NoNodeFits(Refusal, frozen=True):
    """There is enough of each resource, but not of all of them on one node."""

    vms: int
    possible: int
    lacks: tuple[tuple[str, str, int, int], ...]
    """A node with some of it, what is missing there, how much is requested, and what is free."""
    others: int
    """How many more nodes have some of it."""

    @property
    def words(self) -> str:
        reported = listed(
            f"node {node} has {free} free of the {count} x {resource}"
            for node, resource, count, free in self.lacks
        )
        more = f"; {_nodes(self.others)} not all of it either" if self.others else ""
        return (
            "A VM needs all of its devices on one node, and there is room for "
            f"{self.possible} of {self.vms}: {reported}{more}. Request fewer, or free what is "
            "missing. To see what uses it: laneway capacity"
        )


class RolloutBlocked(Refusal, frozen=True):
    """A pool cannot be replaced machine by machine; other refusals say what is missing."""

    replaced: int
    vms: int
    running: int
    """Old VMs that may not end before a new one runs."""
    surge: int
    resources: tuple[tuple[str, int], ...]
    """What one new machine requests."""

    @property
    def words(self) -> str:
        each = listed(f"{count} x {resource}" for resource, count in self.resources)
        old = "1 old one keeps its" if self.running == 1 else f"{self.running} old ones keep their"
        return (
            f"The rollout stops after {self.replaced} of {self.vms} VMs: {old} devices until "
            f"a new one runs (surge {self.surge}), which needs {each} more. Free that many, or "
            "allow one VM to be unavailable meanwhile: --unavailable 1"
        )
