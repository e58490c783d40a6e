"""`laneway webhook`: answers the API server's questions about what is to be written."""

from __future__ import annotations

import asyncio
import logging
from typing import NamedTuple

from prometheus_client import CollectorRegistry

from laneway.admission.caches import AdmissionCaches
from laneway.admission.tls import ClientAuthorityError
from laneway.cli.cluster_options import ClusterChoice
from laneway.cli.errors import Failure
from laneway.cli.health import host_and_port
from laneway.cli.namespaces import checked_namespace
from laneway.kube.client import Client
from laneway.kube.config import load
from laneway.kube.errors import KubeError
from laneway.roles.health import HealthError, health_server, place
from laneway.roles.stop import run_until_signal
from laneway.roles.webhook import DRAIN_SECONDS, ListenError, Webhook, trusted

log = logging.getLogger(__name__)


class Files(NamedTuple):
    """Paths of PEM files."""

    certificate: str
    key: str
    client_authorities: str


def run_webhook(
    where: ClusterChoice,
    files: Files,
    address: str,
    health_address: str,
    *,
    vsphere_refuses: bool,
) -> None:
    """Run until a signal ends it. Raises Failure."""
    checked_namespace(where.namespace or "")
    reviews = host_and_port(address, "--address")
    health = host_and_port(health_address)
    running = _run(where, files, reviews, health, vsphere_refuses=vsphere_refuses)
    try:
        asyncio.run(run_until_signal(running))
    except (ClientAuthorityError, KubeError, HealthError, ListenError) as error:
        raise Failure(str(error)) from error


async def _run(
    where: ClusterChoice,
    files: Files,
    reviews: tuple[str, int],
    health: tuple[str, int],
    *,
    vsphere_refuses: bool,
) -> None:
    registry = CollectorRegistry()
    async with Client(load(where.kubeconfig, where.context)) as client:
        the_webhook = Webhook(
            client,
            registry,
            AdmissionCaches.of(
                client, trusted(where.namespace or ""), vsphere_refuses=vsphere_refuses
            ),
            cert_file=files.certificate,
            key_file=files.key,
            client_ca=files.client_authorities,
            host=reviews[0],
            port=reviews[1],
            drain_seconds=DRAIN_SECONDS,
            alone=True,
        )
        async with health_server(*health, registry, the_webhook.waiting_for) as bound:
            log.info("serving health and metrics on %s", place(health[0], bound))
            await the_webhook.run()
