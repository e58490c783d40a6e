"""`laneway crds` and `laneway manifests`: what is installed in a cluster."""

from __future__ import annotations

import click

from laneway.cli.commands.options import NAMESPACE


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
    help="Print the definitions of Cluster API's provider for vSphere instead, with Laneway's "
    "additions: for clusters without that provider, or to replace its own.",
)
def crds(*, vsphere: bool) -> None:
    """Print the custom resource definitions of Laneway's kinds as YAML.

    The agent, the manager and the webhook need them in the cluster.
    """
    from laneway.cli.crds import print_definitions

    print_definitions(vsphere=vsphere)


@click.command(
    epilog="""\b
Examples:
    laneway manifests --image registry.example/laneway:0.1.0 | kubectl apply -f -
    laneway manifests --no-crds | kubectl delete -f -
"""
)
@click.option(
    "-n",
    "--namespace",
    default=NAMESPACE,
    show_default=True,
    metavar="NAME",
    help="The namespace where Laneway runs. It must exist.",
)
@click.option(
    "--image",
    metavar="REFERENCE",
    help="The image to run, with its tag or digest. Default: laneway of this version.",
)
@click.option(
    "--no-crds",
    is_flag=True,
    help="Leave out the definitions of Laneway's kinds, to remove Laneway and keep its objects.",
)
@click.option(
    "--no-policies",
    is_flag=True,
    help="Leave out the ValidatingAdmissionPolicies, which Kubernetes has since 1.30. They "
    "restrict each agent to the objects of its own node.",
)
def manifests(*, namespace: str, image: str | None, no_crds: bool, no_policies: bool) -> None:
    """Print all objects of Laneway as YAML, the definitions of its kinds first."""
    from laneway.cli.manifests import print_manifests

    print_manifests(namespace, image, crds=not no_crds, policies=not no_policies)
