"""`laneway pools list`, `show` and `check`."""

from __future__ import annotations

from collections.abc import Iterator

from laneway.changes.machine_pools import find, no_pool
from laneway.cli import table
from laneway.cli.errors import Failure
from laneway.cli.output import View, show, table_view
from laneway.cli.pools import reaching
from laneway.cli.pools.reaching import Pools
from laneway.cli.statuses import ExitStatus
from laneway.controllers.machine_pools.judged import ClusterState, PoolState, judged
from laneway.controllers.machine_pools.look import Managed, Supply
from laneway.core.ledger.ledger import Ledger
from laneway.kube.client import Client
from laneway.views import machine_pools as views

_COLUMNS = (
    table.Column("CLUSTER"),
    table.Column("POOL"),
    table.Column("MACHINES"),
    table.Column("DEVICES OF EACH"),
    table.Column("CPUS", wide=True),
    table.Column("MEMORY", wide=True),
    table.Column("FITS"),
)
_MACHINES = table.columns("MACHINE", "NODE", "STATE", "DEVICES", "REPLACED")


def list_pools(pools: Pools, output: str | None) -> int:
    """Print all pools, with what speaks against them. Raises Failure."""

    async def work(_: Client | None, managed: Managed, supply: Supply) -> View:
        found = judged(managed, supply)
        return _all(
            found, supply.ledger, (*managed.unknown, *supply.unknown), pools.management.namespace
        )

    show(reaching.ask(pools, work), output)
    return ExitStatus.DONE


def check_pools(pools: Pools, name: str, output: str | None) -> int:
    """Print whether all machines can start; gives the exit status. Raises Failure."""
    answers: list[bool] = []

    async def work(_: Client | None, managed: Managed, supply: Supply) -> View:
        found = judged(managed, supply)
        if name:
            found = [_one(found, managed, name)]
        elif pools.files and not found:
            # A pipeline with the wrong file must not pass.
            raise Failure(f"{', '.join(pools.files)}: no machine pools on Harvester were found")
        answers.extend(one.fits for one in found)
        return _all(
            found, supply.ledger, (*managed.unknown, *supply.unknown), pools.management.namespace
        )

    show(reaching.ask(pools, work), output)
    return ExitStatus.DONE if all(answers) else ExitStatus.NO


def show_pool(pools: Pools, name: str, pool: str, output: str | None) -> int:
    """Print the machines of one pool, or of all pools of a cluster. Raises Failure."""

    async def work(_: Client | None, managed: Managed, supply: Supply) -> View:
        found = _one(judged(managed, supply), managed, name)
        chosen = [one for one in found.pools if pool in ("", one.spec.name)]
        if not chosen:
            raise Failure(no_pool(name, pool, found.cluster.pools))
        return _machines(found, chosen, supply.ledger, (*managed.unknown, *supply.unknown))

    show(reaching.ask(pools, work), output)
    return ExitStatus.DONE


def _one(found: list[ClusterState], managed: Managed, name: str) -> ClusterState:
    cluster = find(managed, name)
    for one in found:
        if one.cluster is cluster:
            return one
    raise Failure(f"guest cluster {name} has no machine pools on Harvester")


def _number(state: PoolState) -> str:
    """How many machines there are; without a configuration, their namespace is not known."""
    return table.EMPTY if state.config is None else str(len(state.pool.machines))


def _all(
    found: list[ClusterState], ledger: Ledger, unknown: tuple[str, ...], namespace: str | None
) -> View:
    within = f" in namespace {namespace}" if namespace else ""
    rows = tuple(
        table.Row(
            (
                cluster.cluster.metadata.name,
                state.spec.name,
                f"{_number(state)} of {state.pool.quantity}",
                views.devices_of(state),
                *views.size_of(state),
                "update waits" if views.waits(state, cluster) else views.fit(state, cluster),
            ),
            tuple(views.words(state, cluster)),
        )
        for cluster in found
        for state in cluster.pools
    )
    return table_view(
        _COLUMNS,
        [table.Section("", rows)] if rows else [],
        document={"clusters": [views.plain(one, ledger) for one in found]},
        names=[
            f"{one.cluster.metadata.name}/{state.spec.name}" for one in found for state in one.pools
        ],
        empty=f"No guest cluster{within} has machine pools on Harvester.",
        warnings=unknown,
    )


def _machines(
    cluster: ClusterState, pools: list[PoolState], ledger: Ledger, unknown: tuple[str, ...]
) -> View:
    def rows(state: PoolState) -> Iterator[table.Row]:
        for one in views.machines(state.pool, ledger):
            yield table.Row(
                (
                    one.name,
                    one.node or table.EMPTY,
                    one.state,
                    ", ".join(one.devices) or table.EMPTY,
                    str(one.leaves) if one.leaves else "stays",
                )
            )
        for _ in range(views.to_create(state.pool) if state.config is not None else 0):
            yield table.Row((table.EMPTY, table.EMPTY, "to be created", table.EMPTY, table.EMPTY))

    sections = [table.Section(f"{one.spec.name}: {_each(one)}", tuple(rows(one))) for one in pools]
    return table_view(
        _MACHINES,
        sections,
        document=views.plain(cluster, ledger),
        names=[machine.vm.name for one in pools for machine in one.pool.machines],
        empty="The pool has no machines.",
        after=[
            f"Pool {one.spec.name}: {line}" for one in pools for line in views.words(one, cluster)
        ],
        warnings=unknown,
    )


def _each(state: PoolState) -> str:
    found = views.devices_of(state)
    if found == views.NOT_KNOWN:
        return "devices not known"
    return f"{found} each" if state.pool.devices else "no devices"
