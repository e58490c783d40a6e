"""A webhook as a process of its own: its port, its health and metrics, and its end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from prometheus_client import CollectorRegistry

from laneway.admission.tls import ClientAuthorityError
from laneway.cli.cluster_options import ClusterChoice
from laneway.cli.errors import Failure
from laneway.cli.health import host_and_port
from laneway.core.tracing import Tracer
from laneway.kube.client import Client
from laneway.kube.config import load
from laneway.kube.errors import KubeError
from laneway.roles.health import HealthError, health_server, place
from laneway.roles.stop import run_until_signal
from laneway.roles.telemetry import TelemetryError, telemetry
from laneway.roles.webhook import DRAIN_SECONDS, ListenError, Webhook

log = logging.getLogger(__name__)

Make: TypeAlias = Callable[[Client, CollectorRegistry, dict[str, Any]], Webhook]
"""Makes the webhook; the last are arguments of `Webhook`."""


class Serving(NamedTuple):
    """Paths of PEM files, and addresses, as the command line has them."""

    certificate: str
    key: str
    client_authorities: str
    address: str
    health_address: str


def serve(
    where: ClusterChoice, serving: Serving, make: Make, *, component: str, endpoint: str
) -> None:
    """Run a webhook until a signal ends it. Raises Failure.

    `component`: its name in traces. `endpoint`: where they go; empty for none.
    """
    reviews = host_and_port(serving.address, "--address")
    health = host_and_port(serving.health_address)
    registry = CollectorRegistry()
    try:
        with telemetry(component, registry, endpoint=endpoint) as told:
            running = _run(
                where, serving, reviews, health, make, registry=registry, tracer=told.tracer
            )
            asyncio.run(run_until_signal(running))
    except (ClientAuthorityError, KubeError, HealthError, ListenError, TelemetryError) as error:
        raise Failure(str(error)) from error


async def _run(
    where: ClusterChoice,
    serving: Serving,
    reviews: tuple[str, int],
    health: tuple[str, int],
    make: Make,
    *,
    registry: CollectorRegistry,
    tracer: Tracer | None,
) -> None:
    how: dict[str, Any] = {
        "cert_file": serving.certificate,
        "key_file": serving.key,
        "client_ca": serving.client_authorities,
        "host": reviews[0],
        "port": reviews[1],
        "drain_seconds": DRAIN_SECONDS,
        "alone": True,
        "tracer": tracer,
    }
    async with Client(load(where.kubeconfig, where.context)) as client:
        webhook = make(client, registry, how)
        async with health_server(*health, registry, webhook.waiting_for) as bound:
            log.info("serving health and metrics on %s", place(health[0], bound))
            await webhook.run()
