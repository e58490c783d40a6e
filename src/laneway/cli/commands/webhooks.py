"""`laneway webhook` and `pools-webhook`, which answer admission reviews."""

from __future__ import annotations

import click

from laneway.cli.cluster_options import ClusterChoice, Command, role_options
from laneway.cli.commands.options import NAMESPACE, log_options, traces_option
from laneway.cli.health import ADDRESS, WHICH, health_address_option

_SERVING = (
    click.option(
        "--tls-cert-file",
        required=True,
        metavar="PATH",
        help="The certificate of the server, followed by the chain to its authority (PEM). The "
        "webhook waits until the file exists, and reads it again when it changes.",
    ),
    click.option(
        "--tls-key-file", required=True, metavar="PATH", help="The key of the certificate."
    ),
    click.option(
        "--client-ca-file",
        default="",
        metavar="PATH",
        help="Answer only clients with a certificate of the authorities in this file (PEM). An API "
        "server can be configured to present one. Default: answer all clients.",
    ),
    click.option(
        "--address",
        default=":8443",
        show_default=True,
        metavar=ADDRESS,
        help=f"The address for admission reviews: {WHICH}",
    ),
)


def serving_options(command: Command) -> Command:
    """Where a webhook answers, and with which certificate."""
    for option in reversed(_SERVING):
        command = option(command)
    return command


@click.command(
    epilog="""\b
Example: two webhooks, in pods of a Deployment, with a Secret mounted at /tls.
    laneway webhook --tls-cert-file /tls/tls.crt --tls-key-file /tls/tls.key
"""
)
@serving_options
@click.option(
    "--namespace",
    default=NAMESPACE,
    show_default=True,
    metavar="NAME",
    help="The namespace of Laneway's agents and manager, whose service accounts have rights of "
    "their own.",
)
@click.option(
    "--vsphere-inventory",
    type=click.Choice(["warn", "refuse"]),
    default="warn",
    show_default=True,
    help="What to do with Machines of Cluster API that request devices which their vCenter does "
    "not have, or not in that number.",
)
@click.option(
    "--placement-hints/--no-placement-hints",
    default=True,
    show_default=True,
    help="Have new pods with vGPUs prefer the nodes where these take the least room from large "
    "vGPUs.",
)
@role_options
@health_address_option(9642)
@traces_option
@log_options()
def webhook(
    *,
    tls_cert_file: str,
    tls_key_file: str,
    client_ca_file: str,
    address: str,
    namespace: str,
    vsphere_inventory: str,
    placement_hints: bool,
    kubeconfig: str | None,
    context: str | None,
    health_address: str,
    otlp_endpoint: str,
    log_level: str,
    log_format: str | None,
) -> None:
    """Run the webhook, which answers admission reviews about devices and VMs.

    The API server calls it through the webhook configurations in Laneway's manifests. The webhook
    writes nothing, and several may run. On SIGTERM it continues to answer for some seconds, so
    that no request of the API server is lost.
    """
    from laneway.cli.logs import configure
    from laneway.cli.processes.serving import Serving
    from laneway.cli.processes.webhook import run_webhook

    configure(log_level, log_format)
    run_webhook(
        ClusterChoice(kubeconfig, context, namespace),
        Serving(tls_cert_file, tls_key_file, client_ca_file, address, health_address),
        vsphere_refuses=vsphere_inventory == "refuse",
        hints=placement_hints,
        endpoint=otlp_endpoint,
    )


@click.command(
    epilog="""\b
Example: in a pod of a Deployment, with two Secrets mounted at /tls and /harvester.
    laneway pools-webhook --tls-cert-file /tls/tls.crt --tls-key-file /tls/tls.key \\
        --harvester-kubeconfigs /harvester
"""
)
@serving_options
@click.option(
    "--harvester-kubeconfigs",
    required=True,
    metavar="DIR",
    help="A folder with a kubeconfig for each Harvester cluster. A file is named like the cloud "
    "credential of guest clusters (cc-abcde); default is for all others. The files may change.",
)
@click.option(
    "--mode",
    type=click.Choice(["warn", "refuse"]),
    default="warn",
    show_default=True,
    help="What to do with writes of pools whose machines cannot all start.",
)
@role_options
@health_address_option(9644)
@traces_option
@log_options()
def pools_webhook(
    *,
    tls_cert_file: str,
    tls_key_file: str,
    client_ca_file: str,
    address: str,
    harvester_kubeconfigs: str,
    mode: str,
    kubeconfig: str | None,
    context: str | None,
    health_address: str,
    otlp_endpoint: str,
    log_level: str,
    log_format: str | None,
) -> None:
    """Run the webhook for machine pools, in the management cluster of Rancher.

    It answers admission reviews about Clusters and HarvesterConfigs by what Harvester clusters have
    free. It writes nothing, and several may run. While it does not know a Harvester cluster, writes
    pass with a warning.
    """
    from laneway.cli.logs import configure
    from laneway.cli.processes.pools_webhook import run_pools_webhook
    from laneway.cli.processes.serving import Serving

    configure(log_level, log_format)
    run_pools_webhook(
        ClusterChoice(kubeconfig, context),
        Serving(tls_cert_file, tls_key_file, client_ca_file, address, health_address),
        harvester_kubeconfigs,
        refuses=mode == "refuse",
        endpoint=otlp_endpoint,
    )
