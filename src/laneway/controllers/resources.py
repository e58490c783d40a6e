"""How the client reaches each kind of the API layer."""

from __future__ import annotations

from typing import Any, TypeVar, cast

from laneway.api import kind_of
from laneway.kube.resource import KubeObject, Resource

T = TypeVar("T", bound=KubeObject)


def resource_of(cls: type[T]) -> Resource[T]:
    """The resource whose objects are of this type, which must be one of the API's kinds."""
    info = kind_of(cast(Any, cls))
    return Resource(info.group, info.version, info.plural, info.namespaced, cls, info.kind)
