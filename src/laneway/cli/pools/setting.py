"""`laneway pools set`: the devices and the number of machines of a pool."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import click

from laneway.changes.machine_pools import Edit, Wanted, planned, refuse, store
from laneway.cli import capacity_question as question
from laneway.cli.errors import Failure, one_line
from laneway.cli.pools import files, reaching
from laneway.cli.pools.reaching import Pools
from laneway.cli.statuses import ExitStatus
from laneway.controllers.machine_pools.look import Managed, Supply
from laneway.controllers.machine_pools.reading import read_config
from laneway.core.machine_pools.device_info import MOST
from laneway.kube.client import Client
from laneway.views import machine_pools as views


class Request(NamedTuple):
    """What was typed."""

    cluster: str
    pool: str
    devices: dict[str, int] | None
    """None: not mentioned."""
    machines: int | None
    dry_run: bool


def set_pool(pools: Pools, request: Request) -> int:
    """Set a pool. Raises Failure, where it is refused too."""

    async def work(client: Client | None, managed: Managed, supply: Supply) -> None:
        for why in (*managed.unknown, *supply.unknown):
            click.echo(one_line(f"laneway: warning: {why}"), err=True)
        devices = request.devices
        if devices is not None:
            there = {*supply.ledger.homes, *_requested(managed)}
            devices = question.in_full(devices, there)
            if too_many := [name for name, count in devices.items() if count > MOST]:
                raise Failure(f"a machine can have {MOST} x {too_many[0]} at most")
        wanted = Wanted(request.cluster, request.pool, devices, request.machines)
        edit = planned(managed, supply, wanted)
        refuse(edit)
        if edit.changes and client is not None:
            await store(client, edit, dry_run=request.dry_run)
        elif edit.changes:
            changed = files.edited(pools.files, edit)
            if not request.dry_run:
                files.write(changed)
            _tell_files(edit, list(changed), dry_run=request.dry_run)
            return
        _tell(edit, pools.files, dry_run=request.dry_run)

    reaching.ask(pools, work)
    return ExitStatus.DONE


def _requested(managed: Managed) -> set[str]:
    """Resources that pools have already: they may be named though no node has them now."""
    found: set[str] = set()
    for config in managed.configs.values():
        found |= set(read_config(config)[0].devices)
    return found


def devices(values: Iterable[str]) -> dict[str, int]:
    """What `RESOURCE[=COUNT]...` asks of each machine."""
    return question.requested(values, MOST, ". To remove all devices, use --no-devices")


def _tell(edit: Edit, paths: Sequence[str], *, dry_run: bool) -> None:
    name = f"Pool {edit.pool.spec.name} of {edit.cluster.metadata.name}"
    pool = edit.pool.pool
    if not edit.changes:
        there = f"{', '.join(paths)}: " if paths else ""
        click.echo(one_line(f"{there}{name} has {_machines(edit)} already."))
        return
    click.echo(one_line(f"{name} {'would have' if dry_run else 'has'} {_machines(edit)}."))
    _tell_mended(edit, dry_run=dry_run)
    if edit.fields and pool.machines:
        order = ", ".join(machine.vm.name for machine in pool.leaving)
        click.echo(one_line(f"Rancher replaces its machines, the oldest first: {order}."))
    elif pool.leaving:
        order = ", ".join(machine.vm.name for machine in pool.leaving)
        click.echo(one_line(f"Rancher removes the oldest machines: {order}."))
    _tell_rest(edit)


def _tell_files(edit: Edit, changed: list[str], *, dry_run: bool) -> None:
    """What changes in files, and that nothing else does."""
    pool = f"pool {edit.pool.spec.name} of {edit.cluster.metadata.name}"
    start = "Would change" if dry_run else "Changed"
    click.echo(one_line(f"{start} {', '.join(changed)}: {pool} has {_machines(edit)} there."))
    _tell_mended(edit, dry_run=dry_run)
    apply = "" if dry_run else f" until you apply {'it' if len(changed) == 1 else 'them'}"
    click.echo(f"The cluster is unchanged{apply}.")
    _tell_rest(edit)


def _tell_mended(edit: Edit, *, dry_run: bool) -> None:
    for field in edit.mended:
        verb = "would be" if dry_run else "is"
        click.echo(f"The text of {field}, which could not be read, {verb} replaced.")


def _tell_rest(edit: Edit) -> None:
    for state in edit.state.pools:
        for line in views.words(state, edit.state):
            click.echo(one_line(f"Pool {state.spec.name}: {line}"))


def _machines(edit: Edit) -> str:
    pool = edit.pool.pool
    each = f"with {views.devices(pool.devices)} each" if pool.devices else "without devices"
    return f"{pool.quantity} {'machine' if pool.quantity == 1 else 'machines'} {each}"
