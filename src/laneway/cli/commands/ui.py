"""`laneway ui`: the web interface."""

from __future__ import annotations

import click

from laneway.cli.cluster_options import ClusterChoice, role_options
from laneway.cli.commands.options import log_options, traces_option
from laneway.cli.health import ADDRESS, WHICH, health_address_option


@click.command(
    epilog="""\b
Example: on your workstation, with your kubeconfig.
    laneway ui
"""
)
@click.option(
    "--address",
    default="127.0.0.1:7480",
    show_default=True,
    metavar=ADDRESS,
    help=f"The address of the web interface: {WHICH}",
)
@click.option(
    "--tls-cert-file",
    default="",
    metavar="PATH",
    help="Serve HTTPS with this certificate, followed by the chain to its authority (PEM). The "
    "interface waits for the file, and reads it again when it changes. Default: HTTP, for this "
    "host or behind a proxy that serves HTTPS.",
)
@click.option("--tls-key-file", default="", metavar="PATH", help="The key of the certificate.")
@click.option(
    "--trusted-proxy",
    multiple=True,
    metavar="NETWORK",
    help="A network of proxies, such as 10.0.0.0/8, whose X-Forwarded-For and X-Forwarded-Proto "
    "are believed. Repeat the option for several.",
)
@click.option(
    "--oidc-issuer",
    default="",
    metavar="URL",
    help="An identity provider at which users can sign in (OpenID Connect). The API server must "
    "accept its tokens.",
)
@click.option(
    "--oidc-client-id", default="", metavar="ID", help="The client id of Laneway at the provider."
)
@click.option(
    "--oidc-redirect-url",
    default="",
    metavar="URL",
    help="The address to which the provider sends users back: the web interface as browsers reach "
    "it, with the path /sign-in/oidc/callback.",
)
@click.option(
    "--oidc-client-secret-file",
    default="",
    metavar="PATH",
    help="The secret of the client. Default: a public client, protected by PKCE.",
)
@click.option(
    "--oidc-ca-file",
    default="",
    metavar="PATH",
    help="The authorities of the provider (PEM). Default: those of the system.",
)
@click.option(
    "--management-kubeconfig",
    default="",
    metavar="PATH",
    help="A kubeconfig of Rancher's management cluster, whose machine pools the interface shows. "
    "Its credentials serve you alone; any other user signs in with a token of that cluster. "
    "Default: the cluster of --kubeconfig.",
)
@click.option(
    "--management-context",
    default="",
    metavar="NAME",
    help="The context of that kubeconfig. Default: its current context.",
)
@click.option(
    "--history-dir",
    default="",
    metavar="PATH",
    help="The folder in which the interface keeps who held which device. Default: it keeps no "
    "history.",
)
@click.option(
    "--history-days",
    type=click.IntRange(1, 3650),
    default=90,
    show_default=True,
    metavar="DAYS",
    help="How long it keeps the history.",
)
@click.option(
    "--history-size",
    type=click.IntRange(16, 65536),
    default=256,
    show_default=True,
    metavar="MIB",
    help="How large the history may become. The oldest entries are removed first.",
)
@role_options
@health_address_option(9643)
@traces_option
@log_options()
def ui(
    *,
    address: str,
    tls_cert_file: str,
    tls_key_file: str,
    trusted_proxy: tuple[str, ...],
    oidc_issuer: str,
    oidc_client_id: str,
    oidc_redirect_url: str,
    oidc_client_secret_file: str,
    oidc_ca_file: str,
    management_kubeconfig: str,
    management_context: str,
    history_dir: str,
    history_days: int,
    history_size: int,
    kubeconfig: str | None,
    context: str | None,
    health_address: str,
    otlp_endpoint: str,
    log_level: str,
    log_format: str | None,
) -> None:
    """Serve the web interface of a cluster.

    A user signs in with a token of the cluster, or at the identity provider. The interface shows
    what the user may see and writes with the user's own token. It reads the cluster with the rights
    of its kubeconfig or service account, and never writes with these.
    """
    from laneway.cli.logs import configure
    from laneway.cli.processes.ui import Clusters, Tls, run_ui
    from laneway.web.history.store import Keeping
    from laneway.web.session.oidc import OidcSettings

    configure(log_level, log_format)
    run_ui(
        Clusters(
            ClusterChoice(kubeconfig, context),
            ClusterChoice(management_kubeconfig or None, management_context or None),
        ),
        address,
        health_address,
        tls=Tls(tls_cert_file, tls_key_file),
        oidc=OidcSettings(
            oidc_issuer, oidc_client_id, oidc_redirect_url, oidc_client_secret_file, oidc_ca_file
        ),
        trusted_proxies=trusted_proxy,
        history=Keeping(history_dir, history_days, history_size) if history_dir else None,
        endpoint=otlp_endpoint,
    )
