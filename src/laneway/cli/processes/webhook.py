"""`laneway webhook`: answers the API server's questions about what is to be written."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry

from laneway.admission.caches import AdmissionCaches
from laneway.cli.cluster_options import ClusterChoice
from laneway.cli.namespaces import checked_namespace
from laneway.cli.processes.serving import Serving, serve
from laneway.kube.client import Client
from laneway.roles.webhook import Webhook, trusted


def run_webhook(
    where: ClusterChoice, serving: Serving, *, vsphere_refuses: bool, hints: bool, endpoint: str
) -> None:
    """Run until a signal ends it. Raises Failure.

    `hints`: whether pods with vGPUs are to prefer nodes. `endpoint`: for traces; empty for none.
    """
    ours = trusted(checked_namespace(where.namespace or ""))

    def make(client: Client, registry: CollectorRegistry, how: dict[str, Any]) -> Webhook:
        caches = AdmissionCaches.of(client, ours, vsphere_refuses=vsphere_refuses, hints=hints)
        return Webhook(client, registry, caches, **how)

    serve(where, serving, make, component="laneway-webhook", endpoint=endpoint)
