"""Definitions of other projects' kinds that are shipped, and putting them on an API server.

What is there already is left as it is: it may be the project's own, or changed by a person.
"""

from __future__ import annotations

import contextlib
import lzma
from collections.abc import Collection
from importlib import resources

import msgspec

from laneway.api import ObjectMeta
from laneway.core.raw import JsonObject, at
from laneway.kube.client import Client
from laneway.kube.errors import AlreadyExistsError
from laneway.kube.resource import Resource


class _Named(msgspec.Struct, frozen=True):
    """A definition, as far as it is read back."""

    metadata: ObjectMeta = ObjectMeta()


_CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", False, _Named)


def shipped(package: str) -> list[JsonObject]:
    """The definitions that a package holds."""
    packed = resources.files(package).joinpath("crds.json.xz").read_bytes()
    found: list[JsonObject] = msgspec.json.decode(lzma.decompress(packed))
    return found


async def install_missing(
    client: Client, package: str, names: Collection[str] = (), *, group: str = ""
) -> None:
    """Create those of a package that are missing. Raises KubeError.

    `names`: of all of them, where they are known, so that nothing need be unpacked to see that
    nothing is missing. `group`: of which they are to be; empty: of any.
    """
    pages = [page async for page in client.list(_CRDS)]
    present = {_CRDS.decode(item).metadata.name for page in pages for item in page.items}
    if names and present.issuperset(names):
        return
    for crd in shipped(package):
        if at(crd, ("metadata", "name")) in present:
            continue
        if not group or at(crd, ("spec", "group")) == group:
            with contextlib.suppress(AlreadyExistsError):
                await client.create(_CRDS, crd)
