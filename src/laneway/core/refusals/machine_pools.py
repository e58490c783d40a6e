"""Why the machines of pools cannot all start, or not while old ones are replaced."""

from __future__ import annotations

from typing import NamedTuple

from laneway.core.phrases import few, line, listed
from laneway.core.refusals.base import Refusal

Counts = tuple[tuple[str, int], ...]
"""Names with numbers."""
_NOT_TOLD = (
    "The details are shown only to users who may read the Secret of the cloud credential. Request "
    "fewer machines or devices, or ask such a user."
)


class NodeCompute(NamedTuple):
    """What is free on a node."""

    name: str
    cpu: int
    """Thousandths of a processor."""
    memory: int
    """Bytes."""

    def __str__(self) -> str:
        return f"node {self.name} has {_compute(self.cpu, self.memory)} free"


class InsufficientCompute(Refusal, frozen=True):
    """There are enough devices, but not where there are enough CPU and memory."""

    machines: int
    """How many are still to get a node."""
    possible: int
    cpu: int
    """What the pod of one machine requests."""
    memory: int
    nodes: tuple[NodeCompute, ...]
    """Those with the devices, what is free on them."""
    others: int = 0

    @property
    def words(self) -> str:
        each = "each request" if self.machines != 1 else "requests"
        nodes = "; ".join(map(str, self.nodes)) or "no node has the devices"
        more = f"; {self.others} more nodes have no room either" if self.others else ""
        return (
            f"There is room for {self.possible} of {_machines(self.machines)}, whose pods {each} "
            f"{_compute(self.cpu, self.memory)}: {nodes}{more}. Request smaller or fewer machines, "
            "or move other VMs off these nodes."
        )


class MachinesCompete(Refusal, frozen=True):
    """Each pool has room alone; all of them do not."""

    pools: Counts
    """Pools with the machines that are still to be made."""

    @property
    def words(self) -> str:
        return (
            f"The machines of {_pools(self.pools)} do not fit together, although those of each "
            "pool would fit alone. Request fewer machines or devices in one of them."
        )


class PlacementUncertain(Refusal, frozen=True):
    """All machines have a place, which the scheduler may not find."""

    pools: Counts

    @property
    def words(self) -> str:
        return (
            f"Whether all machines of {_pools(self.pools)} start depends on the nodes that the "
            "scheduler chooses, because they compete for the same nodes. Bind the pools to "
            "different nodes, or leave more devices free."
        )


class SurgeBlocked(Refusal, frozen=True):
    """A rolling update finds no room for a machine that it needs before an old one goes."""

    missing: int
    """For so many new machines there is no room; 0: it depends on the nodes of other machines."""
    devices: Counts
    """What is missing for these."""
    replaced: int
    """So many old machines are gone by then."""
    due: bool
    """Whether a rolling update begins with this change, or is under way."""
    advice: str = "Free what is missing, or set maxSurge to 0 and maxUnavailable to 1."
    """A sentence."""

    @property
    def words(self) -> str:
        stops = f"{'The rolling update of its machines' if self.due else 'A rolling update'} waits"
        if self.replaced:
            stops += f" after {_machines(self.replaced)}"
        stops += " for room for a new machine before it deletes an old one"
        if not self.missing:
            lack = "other pools may take that"
        elif self.devices:
            lacking = listed(f"{count} x {name}" for name, count in self.devices)
            lack = f"the nodes lack {lacking}"
        else:
            lack = "the nodes lack CPU or memory, or have the devices apart"
        return f"{stops}: {lack}. {self.advice}"


class MachinePoolShort(Refusal, frozen=True):
    """A write asks for machines that cannot all start."""

    pool: str
    """`gpu`, or `gpu of guest` where the write is not that of its cluster."""
    why: Refusal

    @property
    def cause(self) -> str:
        """The same reason as without a write."""
        return self.why.reason

    @property
    def words(self) -> str:
        return f"Pool {self.pool}: {self.why.words}"


class MachinesHaveNoRoom(Refusal, frozen=True):
    """Not all machines can start; the requester may not know what the Harvester cluster has."""

    @property
    def words(self) -> str:
        return (
            "Its machines cannot all start on the Harvester cluster of its cloud credential. "
            f"{_NOT_TOLD}"
        )


class RoomUncertain(Refusal, frozen=True):
    """Machines may not start or not be replaced, and the requester may not know why."""

    @property
    def words(self) -> str:
        return (
            "Its machines may not all start, or not all be replaced, on the Harvester cluster of "
            f"its cloud credential. {_NOT_TOLD}"
        )


class MachinePoolInvalid(Refusal, frozen=True):
    """An object of a pool has a mistake, so that no machine can be created from it."""

    field: str
    """`vgpuInfo`, `spec.rkeConfig.machinePools[0].quantity`"""
    problem: str
    pool: str = ""

    @property
    def words(self) -> str:
        what = f"Pool {self.pool}: {self.problem}" if self.pool else self.problem
        return line(f"{what}. Correct the field {self.field}.")


def _machines(count: int) -> str:
    return f"{count} machine{'s' if count != 1 else ''}"


def _pools(pools: Counts) -> str:
    named = [f"{name} ({count})" for name, count in pools]
    return f"pools {few(named)}" if len(named) > 1 else f"pool {few(named)}"


def _compute(cpu: int, memory: int) -> str:
    return f"{cpu / 1000:g} CPUs and {memory / 2**30:.4g} GiB"
