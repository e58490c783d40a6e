"""`laneway webhook`: answers the API server's questions about what is to be written."""

from __future__ import annotations

import asyncio
import logging

import click
from prometheus_client import CollectorRegistry

from laneway.admission.caches import AdmissionCaches
from laneway.admission.tls import ClientAuthorityError
from laneway.cli.connection import kubeconfig_option
from laneway.cli.errors import Failure
from laneway.cli.health import ADDRESS, WHICH, health_address_option, host_and_port
from laneway.cli.logs import configure, level_option
from laneway.cli.namespaces import checked_namespace
from laneway.kube.client import Client
from laneway.kube.config import load
from laneway.kube.errors import KubeError
from laneway.roles.health import HealthError, health_server, place
from laneway.roles.manager import NAMESPACE
from laneway.roles.stop import run_until_signal
from laneway.roles.webhook import DRAIN_SECONDS, ListenError, Webhook, trusted

log = logging.getLogger(__name__)


@click.command(
    epilog="""\b
Example: two of them, in pods of a Deployment, with a Secret mounted at /tls.
    laneway webhook --tls-cert-file /tls/tls.crt --tls-key-file /tls/tls.key
"""
)
@click.option(
    "--tls-cert-file",
    required=True,
    metavar="PATH",
    help="The certificate to serve with, and those that lead to its authority (PEM). It is read "
    "again when it changes, and waited for while it is not there.",
)
@click.option("--tls-key-file", required=True, metavar="PATH", help="The key of the certificate.")
@click.option(
    "--client-ca-file",
    default="",
    metavar="PATH",
    help="Answer only clients with a certificate of the authorities in this file (PEM), as an API "
    "server can be told to have one. Without it, everybody who reaches the port is answered.",
)
@click.option(
    "--address",
    default=":8443",
    show_default=True,
    metavar=ADDRESS,
    help=f"Where reviews are served: {WHICH}",
)
@click.option(
    "--namespace",
    default=NAMESPACE,
    show_default=True,
    metavar="NAME",
    help="Where Laneway's agent and manager run: their service accounts there may do what only "
    "they may.",
)
@click.option(
    "--vsphere-inventory",
    type=click.Choice(["warn", "refuse"]),
    default="warn",
    show_default=True,
    help="Machines of Cluster API whose vCenter has no such devices, or not for so many of them, "
    "are warned of or refused.",
)
@kubeconfig_option
@health_address_option(9642)
@level_option()
def webhook(
    *,
    tls_cert_file: str,
    tls_key_file: str,
    client_ca_file: str,
    address: str,
    namespace: str,
    vsphere_inventory: str,
    kubeconfig: str | None,
    health_address: str,
    log_level: str,
) -> None:
    """Answer admission reviews about devices and VMs.

    The API server asks it, by the webhook configurations that Laneway's manifests have. It writes
    nothing itself, and any number of them may run. A webhook that is told to stop goes on answering
    for some seconds, so that none of the API server's questions is lost.
    """
    configure(log_level)
    namespace = checked_namespace(namespace)
    reviews = host_and_port(address, "--address")
    health = host_and_port(health_address)
    refuses = vsphere_inventory == "refuse"
    files = (tls_cert_file, tls_key_file, client_ca_file)
    running = _run(kubeconfig, namespace, files, reviews, health, vsphere_refuses=refuses)
    try:
        asyncio.run(run_until_signal(running))
    except (ClientAuthorityError, KubeError, HealthError, ListenError) as error:
        raise Failure(str(error)) from error


async def _run(
    kubeconfig: str | None,
    namespace: str,
    files: tuple[str, str, str],
    reviews: tuple[str, int],
    health: tuple[str, int],
    *,
    vsphere_refuses: bool,
) -> None:
    registry = CollectorRegistry()
    async with Client(load(kubeconfig)) as client:
        the_webhook = Webhook(
            client,
            registry,
            AdmissionCaches.of(client, trusted(namespace), vsphere_refuses=vsphere_refuses),
            cert_file=files[0],
            key_file=files[1],
            client_ca=files[2],
            host=reviews[0],
            port=reviews[1],
            drain_seconds=DRAIN_SECONDS,
            alone=True,
        )
        async with health_server(*health, registry, the_webhook.waiting_for) as bound:
            log.info("serving health and metrics on %s", place(health[0], bound))
            await the_webhook.run()
