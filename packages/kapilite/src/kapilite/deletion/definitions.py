"""A CustomResourceDefinition goes after its objects.

Deleting one adds a finalizer and the condition Terminating. Its objects are deleted first, none
can be created meanwhile, and when the last is gone the finalizer is taken away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapilite import metadata
from kapilite.deletion.conditions import set_condition
from kapilite.errors import ApiError

if TYPE_CHECKING:
    from kapilite.kinds import Kind
    from kapilite.writes.objects import Object

CLEANUP = "customresourcecleanup.apiextensions.k8s.io"


def mark(obj: Object) -> None:
    """What the first deletion makes of a definition."""
    meta = obj["metadata"]
    meta["deletionTimestamp"] = metadata.now()
    finalizers = meta.setdefault("finalizers", [])
    if CLEANUP not in finalizers:
        finalizers.append(CLEANUP)
    text = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
    set_condition(obj, "Terminating", "True", "InstanceDeletionPending", text)


def begin(obj: Object) -> None:
    text = "CustomResource deletion is in progress"
    set_condition(obj, "Terminating", "True", "InstanceDeletionInProgress", text)


def fail(obj: Object, error: str) -> None:
    text = f"could not issue all deletes: {error}"
    set_condition(obj, "Terminating", "True", "InstanceDeletionFailed", text)


def end(obj: Object) -> None:
    """All objects are gone."""
    text = "removed all instances"
    set_condition(obj, "Terminating", "False", "InstanceDeletionCompleted", text)
    meta = obj["metadata"]
    meta["finalizers"] = [name for name in meta["finalizers"] if name != CLEANUP]
    if not meta["finalizers"]:
        del meta["finalizers"]


def is_pending(obj: Object) -> bool:
    """Whether the objects of this definition are still to be deleted."""
    meta = obj["metadata"]
    return "deletionTimestamp" in meta and CLEANUP in meta.get("finalizers", ())


def refused(kind: Kind) -> ApiError:
    """The answer to the creation of an object whose definition is being deleted."""
    text = "create not allowed while custom resource definition is terminating"
    return ApiError(405, "MethodNotAllowed", text, group=kind.group, kind=kind.plural)
