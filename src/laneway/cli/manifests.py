"""`laneway manifests`: what the chart installs with its defaults, for those who use kubectl.

The chart is the one source: its rendering is part of this package (`make manifests`), with marks
where the namespace and the image belong. For another choice than the defaults there is the
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

NAMESPACE_MARK = "__NAMESPACE__"
IMAGE_MARK = "__IMAGE__"

_POLICY = re.compile(r"^kind: ValidatingAdmissionPolicy", re.MULTILINE)
"""Of a policy, and of what says where it counts."""


def print_manifests(namespace: str, image: str | None, *, crds: bool, policies: bool) -> None:
    """Print all objects, definitions first where they are wanted. Raises Failure."""
    namespace = checked_namespace(namespace)
    image = checked_image(image or f"laneway:{version('laneway')}")
    objects = files("laneway").joinpath("data/manifests.yaml").read_text(encoding="utf-8")
    if not policies:
        documents = re.split(r"^---\n", objects, flags=re.MULTILINE)
        objects = "---\n".join(one for one in documents if not _POLICY.search(one))
    if crds:
        click.echo(crds_yaml(), nl=False)
        click.echo("---")
    click.echo(objects.replace(NAMESPACE_MARK, namespace).replace(IMAGE_MARK, image), nl=False)
