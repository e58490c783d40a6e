"""An API server whose writes a webhook reviews, as on a cluster where Laneway is installed.

People are administrators with a token. Laneway's own parts have the names of their service accounts
and all rights; what rights they need is proved elsewhere.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry

from kapilite.authn import Authenticator, User
from kapilite.credentials import kubeconfig
from kapilite.credentials.pki import Pki, ensure
from kapilite.server import ApiServer
from laneway.core.tracing import Tracer
from laneway.kube.client import Client
from laneway.kube.cluster import ClusterConfig
from laneway.kube.config import load
from laneway.roles.admitting import ACCOUNT, admission
from laneway.roles.manager import NAMESPACE
from laneway.roles.up import KUBEVIRT, Staff
from laneway.roles.webhook import AGENT, Webhook

TOKEN = "person"
DATABASE = "state.db"


@dataclass(frozen=True)
class Served:
    """A server that listens."""

    kubeconfig: str
    """The administrator's."""
    server: ApiServer
    own: ClusterConfig
    """How Laneway's own parts reach it."""
    kubevirts: ClusterConfig
    """How KubeVirt's controller does."""
    asking: ClusterConfig
    """How its webhook does."""
    pki: Pki


@contextlib.asynccontextmanager
async def served(directory: Path) -> AsyncIterator[Served]:
    """Our API server with the database in a folder."""
    staff, pki = Staff(), ensure(str(directory / "pki"))
    users = {TOKEN: User("admin", ("system:masters",)), **staff.users}
    server = ApiServer(
        str(directory / DATABASE),
        tls=pki.ssl_context(),
        authenticator=Authenticator(users),
        ca_pem=pki.ca_pem,
    )
    await server.start()
    path = str(directory / "kubeconfig")
    kubeconfig.write(path, server=server.url, ca_pem=pki.ca_pem, token=TOKEN)
    config = load(path)
    try:
        own, kubevirts, asking = (staff.config(config, one) for one in (AGENT, KUBEVIRT, ACCOUNT))
        yield Served(path, server, own, kubevirts, asking, pki)
    finally:
        await server.stop()


@contextlib.asynccontextmanager
async def reviewing(
    served: Served, registry: CollectorRegistry, tracer: Tracer | None = None
) -> AsyncIterator[Webhook]:
    """Its writes are reviewed until the block ends."""
    async with (
        Client(served.asking) as client,
        admission(
            client,
            registry,
            NAMESPACE,
            cert_file=served.pki.server_cert,
            key_file=served.pki.server_key,
            ca_pem=served.pki.ca_pem,
            tracer=tracer,
        ) as webhook,
    ):
        yield webhook


def wanted() -> bool:
    """Whether tests that say nothing of it are to run with a webhook."""
    return bool(os.environ.get("LANEWAY_ADMISSION"))
