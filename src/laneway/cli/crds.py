"""`laneway crds`: the custom resource definitions, to apply to a cluster."""

from __future__ import annotations

import click

from laneway.api.crds import crds_yaml


@click.command(
    epilog="""\b
Example:
    laneway crds | kubectl apply --server-side -f -
"""
)
def crds() -> None:
    """Print the custom resource definitions of Laneway's kinds as YAML.

    The agent and the other roles expect them to be in the cluster.
    """
    click.echo(crds_yaml(), nl=False)
