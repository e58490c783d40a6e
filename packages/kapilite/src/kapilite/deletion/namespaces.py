"""A namespace goes after its content, and says in its conditions what it waits for.

The finalizer `kubernetes` in its spec holds it until everything in it is gone. Others may add
finalizers of their own there through the subresource `finalize`.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from kapilite.deletion.conditions import set_condition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kapilite.kinds import Kind
    from kapilite.writes.objects import Object

KUBERNETES = "kubernetes"


class Remains(msgspec.Struct):
    """What is left of the content of a namespace."""

    instances: Counter[str] = msgspec.field(default_factory=Counter)
    finalizers: Counter[str] = msgspec.field(default_factory=Counter)
    errors: list[str] = msgspec.field(default_factory=list)

    def add(self, kind: Kind, meta: Mapping[str, Any]) -> None:
        self.instances[f"{kind.plural}.{kind.group}"] += 1
        self.finalizers.update(meta.get("finalizers") or ())


def is_pending(obj: Object) -> bool:
    """Whether the content of this namespace is still to be deleted."""
    finalizers = (obj.get("spec") or {}).get("finalizers") or ()
    return "deletionTimestamp" in obj["metadata"] and KUBERNETES in finalizers


def report(obj: Object, remains: Remains) -> None:
    """Write into the status what is left."""
    obj.setdefault("status", {})["phase"] = "Terminating"
    text = "All resources successfully discovered"
    set_condition(obj, "NamespaceDeletionDiscoveryFailure", "False", "ResourcesDiscovered", text)
    text = "All legacy kube types successfully parsed"
    set_condition(
        obj, "NamespaceDeletionGroupVersionParsingFailure", "False", "ParsedGroupVersions", text
    )
    failed = "NamespaceDeletionContentFailure"
    if remains.errors:
        text = f"Failed to delete all resource types, {len(remains.errors)} remaining: "
        text += ", ".join(sorted(remains.errors))
        set_condition(obj, failed, "True", "ContentDeletionFailed", text)
    else:
        text = "All content successfully deleted, may be waiting on finalization"
        set_condition(obj, failed, "False", "ContentDeleted", text)
    left = "NamespaceContentRemaining"
    if remains.instances:
        found = sorted(
            f"{name} has {n} resource instances" for name, n in remains.instances.items()
        )
        text = f"Some resources are remaining: {', '.join(found)}"
        set_condition(obj, left, "True", "SomeResourcesRemain", text)
    else:
        set_condition(obj, left, "False", "ContentRemoved", "All content successfully removed")
    held = "NamespaceFinalizersRemaining"
    if remains.finalizers:
        found = sorted(
            f"{name} in {n} resource instances" for name, n in remains.finalizers.items()
        )
        text = f"Some content in the namespace has finalizers remaining: {', '.join(found)}"
        set_condition(obj, held, "True", "SomeFinalizersRemain", text)
    else:
        text = "All content-preserving finalizers finished"
        set_condition(obj, held, "False", "ContentHasNoFinalizers", text)


def finalize(obj: Object) -> None:
    """The content is gone: take our own finalizer away."""
    spec = obj["spec"]
    spec["finalizers"] = [name for name in spec["finalizers"] if name != KUBERNETES]
    if not spec["finalizers"]:
        del spec["finalizers"]
