"""Parts of cached objects that are equal, kept once.

A large cluster has a hundred thousand devices, and most of what each says is said by its neighbours
too. What is shared must not be changed; it may be forgotten here and kept a second time.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec

from laneway.api import Condition, ObjectMeta

H = TypeVar("H", bound=Hashable)
S = TypeVar("S", bound=msgspec.Struct)

NOTHING: Mapping[str, str] = MappingProxyType({})


@lru_cache(maxsize=1 << 16, typed=True)
def one(value: H) -> H:
    """The first of its type that is equal to this, as long as it was met not too long ago."""
    return value


@lru_cache(maxsize=1 << 14)
def mapping(items: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    """The mapping of these items, in their order."""
    return MappingProxyType(dict(items))


@lru_cache(maxsize=1 << 14)
def dictionary(items: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    """The same for those who write it as JSON."""
    return dict(items)


def parts(whole: S, *own: str) -> S:
    """A part of an object, all of it, with its own parts kept once.

    `own`: fields of texts that no two objects have in common. Its fields are texts, numbers,
    Structs that can be hashed, sequences of these, and maps of texts.
    """
    found = {}
    for name in whole.__struct_fields__:
        value = getattr(whole, name)
        found[name] = value if name in own else _part(value)
    return type(whole)(**found)


def _part(value: Any) -> Any:
    kind = type(value)
    if kind is str:
        return sys.intern(value)
    if kind is list or kind is tuple:
        return one(tuple([_part(each) for each in value]))
    if kind is dict:
        return dictionary(tuple(value.items()))
    if isinstance(value, msgspec.Struct):
        return one(value)
    return value


def metadata(meta: ObjectMeta) -> ObjectMeta:
    """All of an object's metadata; only its name, uid and version are its own."""
    owners = tuple([parts(each, "uid", "name") for each in meta.owner_references])
    return ObjectMeta(
        name=meta.name,
        generate_name=meta.generate_name,
        namespace=sys.intern(meta.namespace),
        uid=meta.uid,
        resource_version=meta.resource_version,
        generation=meta.generation,
        creation_timestamp=sys.intern(meta.creation_timestamp),
        deletion_timestamp=meta.deletion_timestamp,
        labels=dictionary(tuple(meta.labels.items())),
        annotations=dictionary(tuple(meta.annotations.items())),
        finalizers=one(tuple(meta.finalizers)),
        owner_references=owners,
    )


def timeless(conditions: Sequence[Condition]) -> Sequence[Condition]:
    """Conditions without the time of their last change, which makes equal ones differ."""
    found: Sequence[Condition] = one(
        tuple(msgspec.structs.replace(each, last_transition_time="") for each in conditions)
    )
    return found
