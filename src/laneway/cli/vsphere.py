"""`laneway vsphere`: what vCenters have for machines, who has it, and what is still free.

Only objects of Kubernetes are read, which the manager keeps: no credentials of a vCenter are
needed, and what is shown is what machines are decided by.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import click
import msgspec

from laneway.api.vsphere import VCenter, VSphereHost, VSphereReservation
from laneway.cli import connection, table
from laneway.cli import vsphere_tables as tables
from laneway.cli.errors import Failure, one_line
from laneway.cli.labels import natural
from laneway.cli.output import output_option, print_json
from laneway.cli.vsphere_tables import Site
from laneway.controllers.ledger.vsphere import host_of, machine_name, reservation_of
from laneway.core.phrases import few
from laneway.kube.client import Client
from laneway.kube.resource import Resource, T, served


@click.group(
    epilog="""\b
Example:
    laneway vsphere gpus
"""
)
def vsphere() -> None:
    """Show the vCenters whose GPUs Laneway manages."""


@vsphere.command(
    epilog="""\b
Examples:
    laneway vsphere gpus
    laneway vsphere gpus --vcenter main --cluster DC0_C0
    laneway vsphere gpus -o json | jq '.vCenters[].clusters[].capacity[] | select(.free > 0)'
"""
)
@click.option("--vcenter", metavar="NAME", help="Only this vCenter, by the name of its object.")
@click.option("--cluster", metavar="NAME", help="Only this cluster of vSphere.")
@output_option("Text to read, or JSON.")
@connection.kubeconfig_option
def gpus(vcenter: str | None, cluster: str | None, output: str, kubeconfig: str | None) -> None:
    """Show the GPUs of vCenters' hosts, their users, and what is free.

    USED BY names the machine, or the VM where no machine of this cluster is known for it. RESERVED
    is what machines are promised that are not on yet. "Room for" tells how many more vGPUs of each
    profile would fit now if it were the only one that is added.
    """
    sites = connection.ask(_look, kubeconfig)
    if vcenter is not None:
        sites = [one for one in sites if one.name == vcenter] or _unknown(
            "vCenter", vcenter, [one.name for one in sites]
        )
    if cluster is not None:
        known = {host.cluster for one in sites for host in one.hosts}
        if cluster not in known:
            _unknown("cluster", cluster, known)
        sites = [msgspec.structs.replace(one, only=cluster) for one in sites if one.has(cluster)]
    if output == "json":
        print_json({"vCenters": [tables.plain(one) for one in sites]})
        return
    if not sites:
        click.echo(
            "No vCenter. Make a VCenter object, or a VSphereCluster with a Secret, while a "
            "manager runs with --vsphere."
        )
    for number, site in enumerate(sites):
        if number:
            click.echo()
        _show(site)


def _show(site: Site) -> None:
    click.echo(one_line(tables.heading(site)))
    if devices := list(tables.devices(site)):
        table.echo(tables.DEVICES, devices)
        click.echo()
        table.echo(tables.CAPACITY, list(tables.capacities(site)))
    else:
        click.echo("  No host with GPUs or other devices for Machines is known.")


async def _look(client: Client) -> list[Site]:
    """All vCenters that an object, a host or a promise names."""
    with connection.installed("VCenter"):
        vcenters, hosts, reservations = await asyncio.gather(
            _all(client, served(VCenter)),
            _all(client, served(VSphereHost)),
            _all(client, served(VSphereReservation)),
        )
    named = {one.metadata.name: one for one in vcenters}
    names = named.keys() | {host.spec.vcenter for host in hosts}
    return [
        Site(
            name=name,
            vcenter=named.get(name),
            hosts=tuple(host_of(host) for host in hosts if host.spec.vcenter == name),
            reservations=tuple(
                reservation_of(one) for one in reservations if one.spec.vcenter == name
            ),
            machines={
                one.status.vm: machine_name(one.metadata)
                for one in reservations
                if one.spec.vcenter == name and one.status.vm
            },
        )
        for name in sorted(names, key=natural)
    ]


async def _all(client: Client, resource: Resource[T]) -> list[T]:
    return [resource.decode(raw) async for page in client.list(resource) for raw in page.items]


def _unknown(kind: str, name: str, known: Sequence[str] | set[str]) -> list[Site]:
    raise Failure(f"there is no {kind} {name}; there is: {few(sorted(known, key=natural))}")
