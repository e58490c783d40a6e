"""Kinds of dynamic resource allocation, as far as Laneway reads and writes them."""

from __future__ import annotations

from typing import Any

import msgspec

from laneway.api import ObjectMeta
from laneway.kube.resource import Resource


class ResourceSlice(msgspec.Struct, frozen=True, kw_only=True):
    """Devices of a node; what is said of them is compared, and so kept as it is."""

    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = {}


class ResourceClaim(msgspec.Struct, frozen=True, kw_only=True):
    """Devices that a user requested, and in its status which those are."""

    metadata: ObjectMeta = ObjectMeta()
    status: dict[str, Any] = {}


CLAIMS = Resource("resource.k8s.io", "v1", "resourceclaims", True, ResourceClaim)
SLICES = Resource("resource.k8s.io", "v1", "resourceslices", False, ResourceSlice)
