"""`laneway vsphere`: what vCenters have for machines, what uses it, and what is still free.

Only objects of Kubernetes are read, which the manager keeps: no credentials of a vCenter are
needed, and what is shown is what machines are decided by.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

import msgspec

from laneway.api.vsphere import VCenter, VSphereHost, VSphereReservation
from laneway.cli import connection, live, table
from laneway.cli.cluster_options import ClusterChoice
from laneway.cli.errors import Failure, one_line
from laneway.cli.output import View, object_name, show
from laneway.cli.suggest import did_you_mean
from laneway.core.phrases import few
from laneway.kube.client import Client
from laneway.kube.resource import Resource, T, served
from laneway.views import vsphere as views
from laneway.views.order import natural
from laneway.views.vsphere import Site

_DEVICES = ("DEVICE", "WHAT", "MODE", "LABEL", "USED BY")
_CAPACITY = ("CAPACITY", "KIND", "TOTAL", "IN USE", "RESERVED", "FREE")
_KINDS = (VCenter, VSphereHost, VSphereReservation)


def show_vsphere(
    vcenter: str | None,
    cluster: str | None,
    output: str | None,
    where: ClusterChoice,
    *,
    watch: bool,
) -> None:
    """Print the vCenters, and with `watch` again after every change. Raises Failure."""

    async def work(client: Client) -> None:
        async def look() -> View:
            return _view(_chosen(await _look(client), vcenter, cluster))

        if watch:
            await live.follow(client, [served(kind) for kind in _KINDS], look, output)
        show(await look(), output)

    connection.ask(work, where)


def _chosen(sites: list[Site], vcenter: str | None, cluster: str | None) -> list[Site]:
    if vcenter is not None:
        sites = [one for one in sites if one.name == vcenter] or _unknown(
            "vCenter", vcenter, [one.name for one in sites]
        )
    if cluster is None:
        return sites
    known = {host.cluster for one in sites for host in one.hosts}
    if cluster not in known:
        _unknown("cluster", cluster, known)
    return [msgspec.structs.replace(one, only=cluster) for one in sites if one.has(cluster)]


def _view(sites: list[Site]) -> View:
    return View(
        document={"vCenters": [views.plain(one) for one in sites]},
        names=[object_name("VCenter", one.name) for one in sites if one.vcenter is not None],
        text=lambda wide: "\n".join(_text(site, wide=wide) for site in sites) or _NONE,
    )


_NONE = (
    "No vCenter. Create a VCenter object, or a VSphereCluster with a Secret, while a manager runs "
    "with --vsphere.\n"
)


def _text(site: Site, *, wide: bool) -> str:
    heading = f"{one_line(views.heading(site))}\n"
    if not (devices := list(_devices(site))):
        return f"{heading}  No host with GPUs or other devices for Machines is known.\n"
    parts = (
        table.text(table.columns(*_DEVICES), devices, wide=wide),
        table.text(table.columns(*_CAPACITY), list(_capacities(site)), wide=wide),
    )
    return heading + "\n".join(parts)


def _devices(site: Site) -> Iterator[table.Section]:
    """A section for every host."""
    for host in views.devices(site):
        rows = (table.Row(line[:-1], line.notes) for line in host.lines)
        yield table.Section(host.title, tuple(rows))


def _capacities(site: Site) -> Iterator[table.Section]:
    """A section for every cluster."""
    for cluster in views.capacities(site):
        yield table.Section(
            cluster.title, tuple(table.Row(tuple(map(str, one))) for one in cluster.sums)
        )


async def _look(client: Client) -> list[Site]:
    with connection.installed("VCenter"):
        vcenters, hosts, reservations = await asyncio.gather(
            _all(client, served(VCenter)),
            _all(client, served(VSphereHost)),
            _all(client, served(VSphereReservation)),
        )
    return views.sites(vcenters, hosts, reservations)


async def _all(client: Client, resource: Resource[T]) -> list[T]:
    return [resource.decode(raw) async for page in client.list(resource) for raw in page.items]


def _unknown(kind: str, name: str, known: Sequence[str] | set[str]) -> list[Site]:
    listed = f"Known: {few(sorted(known, key=natural))}"
    raise Failure(f"no {kind} {name} is known. {did_you_mean(name, known) or listed}")
