"""Which changes of an object are news: those of all but its state, which is ours to write."""

from __future__ import annotations

from laneway.api import ObjectMeta
from laneway.kube.capv import VSphereMachine, VSphereVM


def generation_of(obj: VSphereMachine | VSphereVM) -> tuple[int, bool]:
    """What changes with the spec, and when it is to be deleted."""
    return obj.metadata.generation, obj.metadata.deletion_timestamp is not None


def needs_reconcile(
    before: VSphereMachine | VSphereVM | None, after: VSphereMachine | VSphereVM | None
) -> bool:
    """Whether the spec has changed, or the object was created or deleted."""
    if before is None or after is None or generation_of(before) != generation_of(after):
        return True
    return not is_same(before, after)


def is_same(before: VSphereMachine | VSphereVM, after: VSphereMachine | VSphereVM) -> bool:
    """Whether they differ in spec and state alone."""
    return _about(before.metadata) == _about(after.metadata)


def _about(meta: ObjectMeta) -> object:
    return meta.uid, meta.annotations, meta.labels, meta.owner_references
