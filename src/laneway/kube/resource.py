"""What can be asked of the API: a served resource, an object's key, a reference to an object.

A `Resource` is the only thing that the client, the informer and the recorder know about a kind, so
any Struct with Kubernetes metadata can be read and written through them.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, cast
from urllib.parse import quote

import msgspec

from laneway.api import ObjectMeta, decode, kind_of
from laneway.kube.errors import KubeError


class KubeObject(Protocol):
    """Anything with metadata."""

    @property
    def metadata(self) -> ObjectMeta: ...


T = TypeVar("T", bound=KubeObject)
T_co = TypeVar("T_co", bound=KubeObject, covariant=True)


class Key(NamedTuple):
    """An object among those of its resource; the namespace is empty for cluster-scoped ones."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def key_of(obj: KubeObject) -> Key:
    """Under what an object is stored."""
    return Key(obj.metadata.namespace, obj.metadata.name)


class ObjectRef(NamedTuple):
    """Which object an event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: str = ""


@dataclass(frozen=True, slots=True)
class Resource(Generic[T_co]):
    """One resource as the API server serves it, and the Struct that its objects become."""

    group: str
    """Empty for the core group."""
    version: str
    plural: str
    namespaced: bool
    type: builtins.type[T_co]
    """The Struct."""
    kind: str = ""
    """Empty: the Struct bears the name of the kind."""
    decoder: Callable[[builtins.type[T_co], bytes | msgspec.Raw], T_co] = decode
    """Makes the Struct from JSON; may raise anything on an object that it cannot read."""
    optional: bool = False
    """A kind of another project, which a cluster need not have."""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def decode(self, raw: bytes | msgspec.Raw) -> T_co:
        """One object from its JSON."""
        return self.decoder(self.type, raw)

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The URL path, each part quoted; no namespace means all of them."""
        parts = ["apis", self.group] if self.group else ["api"]
        parts.append(self.version)
        if namespace and self.namespaced:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        parts += [part for part in (name, subresource) if part]
        return "/" + "/".join(_segment(part) for part in parts)

    def ref(self, obj: KubeObject) -> ObjectRef:
        """A reference to one object, for events."""
        meta = obj.metadata
        return ObjectRef(
            self.api_version,
            self.kind or self.type.__name__,
            meta.namespace,
            meta.name,
            meta.uid,
            meta.resource_version,
        )


def served(kind: type[T]) -> Resource[T]:
    """The resource of a kind that the `api` layer defines."""
    info = kind_of(cast("Any", kind))
    return Resource(info.group, info.version, info.plural, info.namespaced, kind, info.kind)


def _segment(text: str) -> str:
    """A name that stays one segment of a path, whatever an object called itself."""
    if text in {".", ".."}:
        raise KubeError(f"{text!r} cannot be part of a request path; rename the object")
    return quote(text, safe=":")
