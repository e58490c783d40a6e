"""`laneway hosts`: how far the nodes of a cluster are prepared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from laneway.changes.reboots import PREPARATIONS, allow_reboot
from laneway.cli import connection, live, table
from laneway.cli.cluster_options import ClusterChoice
from laneway.cli.errors import Failure, one_line
from laneway.cli.fleet import readable
from laneway.cli.output import View, object_name, show, table_view
from laneway.cli.suggest import did_you_mean
from laneway.core.phrases import few
from laneway.kube.client import Client
from laneway.views.preparation import Prepared, prepared

COLUMNS = (
    table.Column("NODE"),
    table.Column("STAGE"),
    table.Column("BOOT LOADER", wide=True),
    table.Column("POLICIES", wide=True),
    table.Column("MESSAGE"),
)
_REQUIREMENTS = table.columns("REQUIREMENT", "STATE", "MESSAGE")
_EMPTY = (
    "No HostPolicy selects a node. 'kubectl get hostpolicies' lists the policies, and "
    "docs/how-to/prepare.md shows the first."
)
_UNREADABLE = "No HostPreparation can be read."


def show_hosts(node: str, output: str | None, where: ClusterChoice, *, watch: bool) -> None:
    """Print the nodes, or one of them with each requirement. Raises Failure."""

    async def work(client: Client) -> None:
        async def look() -> View:
            unreadable: list[str] = []
            stored = await readable(client, PREPARATIONS, unreadable)
            found = sorted(map(prepared, stored), key=lambda one: one.node)
            return _one(found, node, unreadable) if node else _all(found, unreadable)

        if watch:
            await live.follow(client, [PREPARATIONS], look, output)
        show(await look(), output)

    connection.ask(work, where)


def reboot(node: str, where: ClusterChoice, *, dry_run: bool) -> None:
    """Let a node reboot. Raises Failure."""

    async def work(client: Client) -> None:
        await allow_reboot(client, node, dry_run=dry_run)
        would = "would reboot" if dry_run else "reboots"
        click.echo(
            one_line(
                f"Node {node} {would} as soon as its policies, its VMs and the other nodes let it: "
                f"laneway hosts list {node} --watch"
            )
        )

    connection.ask(work, where)


def _all(found: list[Prepared], unreadable: Sequence[str]) -> View:
    rows = tuple(
        table.Row(
            (
                one.node,
                one.stage or table.EMPTY,
                one.boot_loader or table.EMPTY,
                ", ".join(one.policies) or table.EMPTY,
                one.message,
            )
        )
        for one in found
    )
    return table_view(
        COLUMNS,
        [table.Section("", rows)] if rows else [],
        document={"hosts": found},
        names=[object_name("HostPreparation", one.node) for one in found],
        empty=_UNREADABLE if unreadable else _EMPTY,
        warnings=unreadable,
    )


def _one(found: list[Prepared], node: str, unreadable: Sequence[str]) -> View:
    one = next((one for one in found if one.node == node), None)
    if one is None and unreadable:
        raise Failure(f"node {node[:80]} is not among those that can be read: {few(unreadable)}")
    if one is None:
        known = [one.node for one in found]
        raise Failure(
            f"no HostPolicy selects a node {node[:80]}. "
            f"{did_you_mean(node, known) or 'laneway hosts list lists the nodes that one selects.'}"
        )
    rows = tuple(
        table.Row((requirement.name, requirement.state, requirement.message))
        for requirement in one.requirements
    )
    return table_view(
        _REQUIREMENTS,
        [table.Section("", rows)] if rows else [],
        document=one,
        names=[object_name("HostPreparation", node)],
        empty="No requirement is known yet.",
        after=tuple(_after(one)),
        warnings=unreadable,
    )


def _after(one: Prepared) -> Iterator[str]:
    yield ""
    yield f"{one.stage or 'Unknown'}: {one.message}"
    if one.steps:
        yield "To be written:"
        yield from (f"  {step}" for step in one.steps)
