"""Objects with all that their spec says: what is handed on need not be known here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, NamedTuple

import msgspec

from laneway.api import ObjectMeta, decode
from laneway.kube.capv import VSPHERE_MACHINES, VSPHERE_VMS
from laneway.kube.resource import Resource, T


class WithSpec(NamedTuple, Generic[T]):
    """An object as it is read, and its spec as it is written."""

    known: T
    spec: Mapping[str, Any]

    @property
    def metadata(self) -> ObjectMeta:
        return self.known.metadata


class _Spec(msgspec.Struct, frozen=True):
    spec: Mapping[str, Any] = {}


def whole(resource: Resource[T]) -> Resource[WithSpec[T]]:
    """The same objects with all of their spec."""
    return Resource(
        resource.group,
        resource.version,
        resource.plural,
        resource.namespaced,
        WithSpec[T],
        resource.kind or resource.type.__name__,
        lambda _, raw: WithSpec(resource.decode(raw), decode(_Spec, raw).spec),
    )


MACHINES_WITH_SPEC = whole(VSPHERE_MACHINES)
VMS_WITH_SPEC = whole(VSPHERE_VMS)
