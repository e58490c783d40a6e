"""`laneway manager`: what concerns a whole cluster."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any

from prometheus_client import CollectorRegistry

from laneway.cli.cluster_options import ClusterChoice
from laneway.cli.errors import Failure
from laneway.cli.health import host_and_port
from laneway.cli.images import checked_image
from laneway.cli.namespaces import checked_namespace
from laneway.kube.client import Client
from laneway.kube.config import load
from laneway.kube.errors import KubeError
from laneway.roles.health import HealthError, health_server, place
from laneway.roles.manager import Manager
from laneway.roles.stop import run_until_signal
from laneway.roles.telemetry import TelemetryError, telemetry

log = logging.getLogger(__name__)


def run_manager(
    where: ClusterChoice,
    health_address: str,
    *,
    check_image: str | None,
    endpoint: str,
    **options: Any,
) -> None:
    """Run until a signal ends it. Raises Failure.

    `endpoint`: for traces; empty for none. `options`: of the Manager.
    """
    namespace = checked_namespace(where.namespace or "")
    address = host_and_port(health_address)
    options["check_image"] = "" if check_image is None else checked_image(check_image)
    try:
        asyncio.run(run_until_signal(_run(where, namespace, address, endpoint, options)))
    except (KubeError, HealthError, TelemetryError) as error:
        raise Failure(str(error)) from error


async def _run(
    where: ClusterChoice,
    namespace: str,
    address: tuple[str, int],
    endpoint: str,
    options: dict[str, Any],
) -> None:
    registry = CollectorRegistry()
    async with contextlib.AsyncExitStack() as stack:
        told = stack.enter_context(telemetry("laneway-manager", registry, endpoint=endpoint))
        client = await stack.enter_async_context(Client(load(where.kubeconfig, where.context)))
        the_manager = Manager(client, registry, namespace=namespace, tracer=told.tracer, **options)
        async with health_server(*address, registry, the_manager.waiting_for) as bound:
            log.info("serving health and metrics on %s", place(address[0], bound))
            await the_manager.run()
