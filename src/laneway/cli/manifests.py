"""`laneway manifests`: what the chart installs with its defaults, for those who use kubectl.

The chart is the one source: its rendering is part of this package (`make manifests`), with marks
where the namespace and the image belong. Whoever wants another choice than the defaults takes the
chart itself.
"""

from __future__ import annotations

import re
from importlib.metadata import version
from importlib.resources import files

import click

from laneway.api.crds import crds_yaml
from laneway.cli.images import checked_image
from laneway.cli.namespaces import checked_namespace
from laneway.roles.manager import NAMESPACE

NAMESPACE_MARK = "__NAMESPACE__"
IMAGE_MARK = "__IMAGE__"

_POLICY = re.compile(r"^kind: ValidatingAdmissionPolicy", re.MULTILINE)
"""Of a policy, and of what says where it counts."""


@click.command(
    epilog="""\b
Examples:
    laneway manifests --image registry.example/laneway:0.1.0 | kubectl apply -f -
    laneway manifests --no-crds | kubectl delete -f -
"""
)
@click.option(
    "--namespace",
    default=NAMESPACE,
    show_default=True,
    metavar="NAME",
    help="Where Laneway is to run; it must exist.",
)
@click.option(
    "--image",
    metavar="REFERENCE",
    help="The image to run, with its tag or digest. Default: laneway of this version.",
)
@click.option(
    "--no-crds",
    is_flag=True,
    help="Leave the definitions of Laneway's kinds out: to remove Laneway and keep its objects.",
)
@click.option(
    "--no-policies",
    is_flag=True,
    help="Leave out the ValidatingAdmissionPolicies, which Kubernetes has since 1.30. By them each "
    "agent changes objects of its own node only.",
)
def manifests(namespace: str, image: str | None, *, no_crds: bool, no_policies: bool) -> None:
    """Print all objects of Laneway on a cluster as YAML, definitions of its kinds first."""
    namespace = checked_namespace(namespace)
    image = checked_image(image or f"laneway:{version('laneway')}")
    objects = files("laneway").joinpath("data/manifests.yaml").read_text(encoding="utf-8")
    if no_policies:
        documents = re.split(r"^---\n", objects, flags=re.MULTILINE)
        objects = "---\n".join(one for one in documents if not _POLICY.search(one))
    if not no_crds:
        click.echo(crds_yaml(), nl=False)
        click.echo("---")
    click.echo(objects.replace(NAMESPACE_MARK, namespace).replace(IMAGE_MARK, image), nl=False)
