"""Puts on an API server what Laneway needs there: its CRDs, brought up to date, and a namespace.

A server serves a new kind a moment after it took the CRD. That is not waited for here:
informers ask again until it does.
"""

from __future__ import annotations

import contextlib
import logging
from typing import Any

import msgspec

from laneway.api import ObjectMeta
from laneway.api.crds import crds, setting_crd
from laneway.kube.client import Client
from laneway.kube.errors import AlreadyExistsError, ForbiddenError, NotFoundError
from laneway.kube.resource import Resource

log = logging.getLogger(__name__)


class _Installed(msgspec.Struct, frozen=True):
    """As far as it is read back."""

    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = {}


_CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", False, _Installed)
_NAMESPACES = Resource("", "v1", "namespaces", False, _Installed)


Stored = dict[str, dict[str, Any]]
"""By the name of a CRD, the spec that the server stored when it was written last."""


async def install_crds(client: Client, stored: Stored | None = None) -> None:
    """Create or update every CRD; write nothing where they say what they should. Raises KubeError.

    Several may do so at once. Kubernetes before 1.25 drops validation rules, so there a CRD never
    says what it should. Who installs again and again passes the same `stored` every time: what
    the server made of the last write is then left alone.
    """
    forbidden = None
    for crd in crds():
        try:
            await _install(client, crd, stored)
        except ForbiddenError as error:  # one that a former chart does not know keeps no other
            forbidden = forbidden or error
    if forbidden is not None:
        raise forbidden


async def _install(client: Client, crd: dict[str, Any], stored: Stored | None) -> None:
    name = crd["metadata"]["name"]
    try:
        found = await client.get(_CRDS, name)
    except NotFoundError:
        with contextlib.suppress(AlreadyExistsError):
            await client.create(_CRDS, crd)
            log.info("created CRD %s", name)
        return
    if not _says(found.spec, crd["spec"]) and (stored or {}).get(name) != found.spec:
        written = await client.patch(_CRDS, name, {"spec": crd["spec"]})
        if stored is not None:
            stored[name] = written.spec
        log.info("updated CRD %s", name)


async def install_setting(client: Client) -> None:
    """Define Harvester's kind Setting, if it is not there. Raises KubeError."""
    with contextlib.suppress(AlreadyExistsError):
        await client.create(_CRDS, setting_crd())


def _says(found: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Whether a definition is as it should be. Next to and below `names` a server adds defaults."""
    names = found.get("names", {})
    named = all(names.get(key) == value for key, value in wanted["names"].items())
    rest = wanted.keys() - {"names"}
    return named and all(found.get(key) == wanted[key] for key in rest)


async def install_namespace(client: Client, name: str) -> None:
    """Create a namespace, if it is not there. Raises KubeError."""
    with contextlib.suppress(AlreadyExistsError):
        await client.create(_NAMESPACES, {"metadata": {"name": name}})
