"""What kapilite makes of an object that is written, in process: the steps of a write."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

from kapilite import builtin, metadata
from kapilite.builtin.kinds import KINDS
from kapilite.definitions import crds
from kapilite.errors import ApiError
from kapilite.kinds import Kind
from kapilite.registry import Registry
from kapilite.storage.store import Store
from kapilite.writes import objects, subresources

Object = dict[str, Any]

DEFINITIONS = next(kind for kind in KINDS if kind.resource == builtin.CRDS)
_REGISTRY = Registry(Store(":memory:"))
_OPTIONS = objects.Options()


class Judged(NamedTuple):
    """How a write ends."""

    is_readable: bool = True
    errors: frozenset[tuple[str, str]] = frozenset()
    """The reason and the field of each."""
    unknown: tuple[str, ...] = ()
    stored: Object | None = None
    """Without what the server decides; none where it is refused."""


def written(kind: Kind, sent: Object, old: Object | None = None) -> Judged:
    """What becomes of an object that is created, or put in the place of `old`."""
    unknown: tuple[str, ...] = ()
    try:
        obj = objects.take_in(kind, _namespace(kind), copy.deepcopy(sent))
        if old is None:
            metadata.for_create(obj["metadata"], generation=objects.has_generation(kind))
            if kind.has_status:
                obj.pop("status", None)
        else:
            obj = subresources.itself(kind).merge(copy.deepcopy(old), obj)
        unknown = objects.complete(kind, obj, _OPTIONS)
        if old is not None:
            metadata.for_update(obj["metadata"], old["metadata"])
        objects.check(kind, obj, old, _REGISTRY)
        objects.settle(kind, obj, old, _REGISTRY)
    except ApiError as error:
        if error.code == 400:
            return Judged(is_readable=False)
        causes = error.details["causes"]
        errors = frozenset((cause["reason"], cause["field"]) for cause in causes)
        return Judged(errors=errors, unknown=unknown)
    return Judged(unknown=unknown, stored=obj)


def kept(kind: Kind, sent: Object) -> Object | None:
    """An object as the store has it, valid or not; None where it cannot be read."""
    try:
        obj = objects.take_in(kind, _namespace(kind), copy.deepcopy(sent))
        metadata.for_create(obj["metadata"], generation=objects.has_generation(kind))
        objects.complete(kind, obj, _OPTIONS)
    except ApiError:
        return None
    return obj


def kinds_of(crd: Object) -> dict[str, Kind]:
    """The kinds that a stored definition makes, by version."""
    return {kind.version: kind for kind in crds.kinds(crd)}


def _namespace(kind: Kind) -> str:
    return "default" if kind.namespaced else ""
