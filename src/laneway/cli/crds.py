"""`laneway crds`: the custom resource definitions, to apply to a cluster."""

from __future__ import annotations

import click
import yaml

from laneway.api.crds import crds_yaml
from laneway.simcluster.clusterapi.install import provider_definitions


@click.command(
    epilog="""\b
Examples:
    laneway crds | kubectl apply --server-side -f -
    laneway crds --vsphere | kubectl apply --server-side -f -
"""
)
@click.option(
    "--vsphere",
    is_flag=True,
    help="Print those of Cluster API's provider for vSphere instead, with what Laneway adds to "
    "them. For clusters without that provider, or in place of its own.",
)
def crds(*, vsphere: bool) -> None:
    """Print the custom resource definitions of Laneway's kinds as YAML.

    The agent and the other roles expect them to be in the cluster.
    """
    if vsphere:
        text = yaml.safe_dump_all(provider_definitions(), sort_keys=False, explicit_start=True)
        click.echo(text, nl=False)
    else:
        click.echo(crds_yaml(), nl=False)
