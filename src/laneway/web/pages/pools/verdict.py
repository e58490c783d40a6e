"""What would become of a pool: what speaks against it, which machines go, and the nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from laneway.changes.machine_pools import Edit, refusals
from laneway.core.ledger.ledger import Ledger
from laneway.core.machine_pools.judge import places
from laneway.core.machine_pools.pool import CPU, MEMORY
from laneway.views import machine_pools as views
from laneway.views.machine_pools import MachineState
from laneway.views.order import natural
from laneway.web.management import Judged
from laneway.web.pages.pools import seen
from laneway.web.pages.pools.seen import Line, Pool
from laneway.web.pages.vms.form import amount
from laneway.web.pages.vms.resources import LIST_NODES
from laneway.web.visit import Visit

SIGNS = {
    "yes": "success",
    "devices": "info",
    "no": "danger",
    "invalid": "danger",
    "unknown": "unknown",
    "not_all_pools": "warning",
}
"""Of the words that say whether a pool fits."""
_SHOWN = 50


class Site(NamedTuple):
    """A node for the machines of a pool."""

    node: str
    closed: str
    """Why no machine can start there."""
    room: int | None
    """For how many more machines there is room; None: not known."""
    devices: Sequence[int]
    """How many of each resource of the pool are available."""
    cpu: str
    """Free; empty where that is not known."""
    memory: str


class Verdict(NamedTuple):
    """The answer to what a form says."""

    lines: Sequence[Line]
    """What is said of the pools of the cluster."""
    fits: bool
    checks_compute: bool
    """Whether CPU and memory are known."""
    allowed: bool
    """Whether it can be saved."""
    changes: bool
    replaced: bool
    """Whether the machines that go are replaced; else they are removed."""
    leaving: Sequence[str]
    """Names of the machines that go, in their order."""
    more: int
    """How many go besides those."""
    coming: int
    """How many machines are still to get a node."""


def fit(pool: Pool, known: Judged) -> tuple[str, str]:
    """Whether the machines of a pool can start: a sign and a word, `devices` if only these do."""
    word = views.fit(*pool).replace(" ", "_")
    if word == "yes" and known.supply.free is None:
        word = "devices"
    return SIGNS[word], word


def verdict(visit: Visit, edit: Edit, known: Judged) -> Verdict:
    """The answer to a change."""
    states = sorted(edit.state.pools, key=lambda state: state is not edit.pool)
    lines = [line for one in states for line in seen.lines(visit, Pool(one, edit.state))]
    pool = edit.pool.pool
    leaving = [machine_name(visit, edit.pool.asked.namespace, one.vm.name) for one in pool.leaving]
    return Verdict(
        lines=lines,
        fits=edit.state.fits,
        checks_compute=known.supply.free is not None,
        allowed=not refusals(edit),
        changes=edit.changes,
        replaced=bool(edit.fields),
        leaving=leaving[:_SHOWN],
        more=max(len(leaving) - _SHOWN, 0),
        coming=pool.coming,
    )


def sites(visit: Visit, pool: Pool, known: Judged) -> list[Site] | None:
    """The nodes, those with the most room first; None where the user may not see them."""
    if not visit.may(LIST_NODES):
        return None
    valid = [one.pool for one in pool.cluster.pools if not one.problems]
    ledger, resources = known.supply.ledger, sorted(pool.state.pool.devices, key=natural)
    available = {one.resource: dict(one.nodes) for one in views.available(*pool, ledger)}
    has_compute = known.supply.free is not None
    found = [
        Site(
            one.node,
            one.closed or ("" if one.allowed else visit.texts("pools.not_allowed")),
            one.room,
            [available[name].get(one.node, 0) for name in resources],
            amount(max(one.free.get(CPU, 0), 0), "cpu") if has_compute else "",
            amount(max(one.free.get(MEMORY, 0), 0), "memory") if has_compute else "",
        )
        for one in places(valid, pool.state.pool, ledger, known.supply.free)
    ]
    found.sort(key=lambda one: (bool(one.closed), -(one.room or 0), natural(one.node)))
    return found


def machine_name(visit: Visit, namespace: str, name: str) -> str:
    """The name of a machine; only what it is where the user may not see its VM."""
    return name if seen.sees(visit, namespace) else visit.texts("pools.hidden_machine")


def machines(visit: Visit, pool: Pool, ledger: Ledger) -> list[MachineState]:
    """The machines of a pool, those that go first at the top."""
    found = views.machines(pool.state.pool, ledger)
    namespace = pool.state.asked.namespace
    return [one._replace(name=machine_name(visit, namespace, one.name)) for one in found]
