"""`laneway ui`: the web interface of a cluster."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections.abc import Sequence
from typing import NamedTuple

import click
from prometheus_client import CollectorRegistry

from laneway.admission.tls import TlsFiles
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
from laneway.roles.ui import Ui, UiError
from laneway.web.history.store import Keeping
from laneway.web.metrics import UiMetrics
from laneway.web.session.oidc import OidcSettings
from laneway.web.session.peers import Network
from laneway.web.session.sign_in import Settings

log = logging.getLogger(__name__)


class Tls(NamedTuple):
    """Paths of PEM files; empty: served without TLS."""

    certificate: str
    key: str


class Clusters(NamedTuple):
    """The clusters that the interface is about."""

    served: ClusterChoice
    management: ClusterChoice
    """Rancher's; empty: the served one."""


def run_ui(
    where: Clusters,
    address: str,
    health_address: str,
    *,
    tls: Tls,
    oidc: OidcSettings,
    trusted_proxies: Sequence[str],
    history: Keeping | None,
    endpoint: str,
) -> None:
    """Run until a signal ends it. Raises Failure. `endpoint`: for traces; empty for none."""
    pages, health = host_and_port(address, "--address"), host_and_port(health_address)
    settings = Settings(proxies=tuple(map(_network, trusted_proxies)), oidc=_provider(oidc))
    if bool(tls.certificate) != bool(tls.key):
        raise click.UsageError("--tls-cert-file and --tls-key-file belong together; give both")
    registry = CollectorRegistry()
    try:
        with telemetry("laneway-ui", registry, endpoint=endpoint) as told:
            running = _run(
                where,
                pages,
                health,
                tls,
                settings,
                registry=registry,
                history=history,
                tracer=told.tracer,
            )
            asyncio.run(run_until_signal(running))
    except (KubeError, HealthError, TelemetryError, UiError) as error:
        raise Failure(str(error)) from error


def _network(text: str) -> Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        raise click.UsageError(
            f"--trusted-proxy must be a network such as 10.0.0.0/8: {error}"
        ) from None


def _provider(oidc: OidcSettings) -> OidcSettings | None:
    """What was typed, if anything was."""
    if oidc == OidcSettings("", "", ""):
        return None
    missing = [
        option
        for option, value in (
            ("--oidc-issuer", oidc.issuer),
            ("--oidc-client-id", oidc.client_id),
            ("--oidc-redirect-url", oidc.redirect_url),
        )
        if not value
    ]
    if missing:
        raise click.UsageError(f"an identity provider needs {' and '.join(missing)} as well")
    return oidc


async def _run(
    where: Clusters,
    pages: tuple[str, int],
    health: tuple[str, int],
    tls: Tls,
    settings: Settings,
    *,
    registry: CollectorRegistry,
    history: Keeping | None,
    tracer: Tracer | None,
) -> None:
    metrics = UiMetrics(registry)
    served, management = where
    config = load(served.kubeconfig, served.context)
    is_other = management != ClusterChoice()
    rancher = load(management.kubeconfig, management.context) if is_other else None
    async with Client(config) as client:
        ui = Ui(
            client,
            config,
            metrics,
            host=pages[0],
            port=pages[1],
            option="--address",
            settings=settings,
            management=rancher,
            tls=TlsFiles(tls.certificate, tls.key, metrics) if tls.certificate else None,
            history=history,
            tracer=tracer,
            alone=True,
        )
        async with health_server(*health, registry, ui.waiting_for) as bound:
            log.info("serving health and metrics on %s", place(health[0], bound))
            await ui.run()
