"""`laneway pools-webhook`: reviews writes of machine pools in Rancher's management cluster."""

from __future__ import annotations

from laneway.cli.cluster_options import ClusterChoice
from laneway.cli.processes.serving import Serving, serve
from laneway.roles.pools_webhook import pools_webhook


def run_pools_webhook(
    where: ClusterChoice, serving: Serving, kubeconfigs: str, *, refuses: bool, endpoint: str
) -> None:
    """Run until a signal ends it. Raises Failure.

    `kubeconfigs`: a folder. `endpoint`: for traces; empty for none.
    """
    serve(
        where,
        serving,
        lambda client, registry, how: pools_webhook(
            client, registry, kubeconfigs, refuses=refuses, **how
        ),
        component="laneway-pools-webhook",
        endpoint=endpoint,
    )
