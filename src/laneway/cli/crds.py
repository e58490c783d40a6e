"""`laneway crds`: the custom resource definitions, to apply to a cluster."""

from __future__ import annotations

import click
import yaml

from laneway.api.crds import crds_yaml
from laneway.simcluster.clusterapi.install import provider_definitions


def print_definitions(*, vsphere: bool) -> None:
    """Print those of Laneway's kinds, or of Cluster API's provider for vSphere."""
    if vsphere:
        text = yaml.safe_dump_all(provider_definitions(), sort_keys=False, explicit_start=True)
        click.echo(text, nl=False)
    else:
        click.echo(crds_yaml(), nl=False)
