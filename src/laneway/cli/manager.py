"""`laneway manager`: what concerns a whole cluster."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, get_args

import click
from prometheus_client import CollectorRegistry

from laneway.cli.connection import kubeconfig_option
from laneway.cli.errors import Failure
from laneway.cli.health import health_address_option, host_and_port
from laneway.cli.images import checked_image
from laneway.cli.logs import configure, level_option
from laneway.cli.namespaces import checked_namespace
from laneway.kube.client import Client
from laneway.kube.config import load
from laneway.kube.errors import KubeError
from laneway.roles.health import HealthError, health_server, place
from laneway.roles.manager import LEASE, NAMESPACE, Manager, VsphereMode
from laneway.roles.stop import run_until_signal

log = logging.getLogger(__name__)

CERTIFICATES = ("own", "cert-manager", "none")
"""Where the webhook's certificate comes from."""
VSPHERE = get_args(VsphereMode)
"""How machines of Cluster API on vSphere are looked after."""


@click.command(
    epilog="""\b
Example: two of them, in pods of a Deployment.
    laneway manager --namespace harvester-system
"""
)
@kubeconfig_option
@click.option(
    "--namespace",
    default=NAMESPACE,
    show_default=True,
    metavar="NAME",
    help=f"Where the Lease {LEASE} is, by which one of several managers leads; it must exist.",
)
@click.option(
    "--webhook-certificates",
    type=click.Choice(CERTIFICATES),
    default=CERTIFICATES[0],
    show_default=True,
    help="Who makes the webhook's certificate. own: this manager keeps it in a Secret beside the "
    "Lease, and has the API server trust it; cert-manager: that does all of it; none: there is no "
    "webhook.",
)
@click.option(
    "--vsphere",
    type=click.Choice(VSPHERE),
    default=VSPHERE[0],
    show_default=True,
    help="Manage the GPUs of vCenters. alongside: CAPV makes the VMs; Laneway validates Machines, "
    "reserves their devices and reports on them. standalone: Laneway makes the VMs in CAPV's "
    "place; CAPV must not run.",
)
@click.option(
    "--vsphere-check-nodes",
    is_flag=True,
    help="Also look at the node of each machine with GPUs in its own cluster, by the Secret "
    "CLUSTER-kubeconfig, and have a Job add vectors on one of them.",
)
@click.option(
    "--vsphere-check-image",
    metavar="REFERENCE",
    help="The image that adds vectors there, and ends with 0 when that went well. Default: "
    "NVIDIA's sample, which a cluster without the internet cannot get.",
)
@health_address_option(9641)
@level_option()
def manager(
    *,
    kubeconfig: str | None,
    namespace: str,
    webhook_certificates: str,
    vsphere: str,
    vsphere_check_nodes: bool,
    vsphere_check_image: str | None,
    health_address: str,
    log_level: str,
) -> None:
    """Keep what is one for the whole cluster; of several managers, one leads.

    That is: KubeVirt's list of permitted devices, the record on virtual machines of what they got,
    what is left of nodes that are gone, and the certificate of the webhook; with --vsphere, also
    the GPUs of vCenters and who is promised them.
    """
    configure(log_level)
    namespace = checked_namespace(namespace)
    address = host_and_port(health_address)
    if vsphere_check_nodes and vsphere == VSPHERE[0]:
        raise click.UsageError("--vsphere-check-nodes needs --vsphere alongside or standalone")
    if vsphere_check_image is not None and not vsphere_check_nodes:
        raise click.UsageError("--vsphere-check-image needs --vsphere-check-nodes")
    options = {
        "certificates": webhook_certificates == CERTIFICATES[0],
        "vsphere": vsphere,
        "check_nodes": vsphere_check_nodes,
        "check_image": "" if vsphere_check_image is None else checked_image(vsphere_check_image),
    }
    try:
        asyncio.run(run_until_signal(_run(kubeconfig, namespace, address, options)))
    except (KubeError, HealthError) as error:
        raise Failure(str(error)) from error


async def _run(
    kubeconfig: str | None, namespace: str, address: tuple[str, int], options: dict[str, Any]
) -> None:
    registry = CollectorRegistry()
    async with Client(load(kubeconfig)) as client:
        the_manager = Manager(client, registry, namespace=namespace, **options)
        async with health_server(*address, registry, the_manager.waiting_for) as bound:
            log.info("serving health and metrics on %s", place(address[0], bound))
            await the_manager.run()
