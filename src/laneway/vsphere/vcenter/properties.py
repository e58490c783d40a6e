"""Properties of many objects in one request, and nothing read from objects one by one.

An attribute of a pyVmomi object is a request of its own, and one that a missing permission turns
into an exception; a property that may not be read is simply missing here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from laneway.vsphere.vcenter.pyvmomi import vim, vmodl
from laneway.vsphere.vcenter.stub import Nonsense, Stub

Properties: TypeAlias = dict[str, Any]
Collector = vmodl.query.PropertyCollector

PAGE = 500


def ref_of(ref: Any) -> str:
    """`vm-42`; empty for none."""
    return str(getattr(ref, "_moId", "") or "")


def bound(ref: Any, stub: Stub) -> Any:
    """The same object, to be asked over this thread's connection."""
    return type(ref)(ref._moId, stub)  # noqa: SLF001 - how pyVmomi names a reference


def collector(content: Any, stub: Stub) -> Any:
    """The property collector of the session."""
    return bound(content.propertyCollector, stub)


def properties(kind: Any, paths: Sequence[str]) -> Any:
    """Which properties of objects of a kind to report."""
    return Collector.PropertySpec(type=kind, all=False, pathSet=list(paths))


def in_view(view: Any) -> Any:
    """All objects of a view."""
    walk = Collector.TraversalSpec(name="view", path="view", skip=False, type=type(view))
    return Collector.ObjectSpec(obj=view, skip=True, selectSet=[walk])


def read(
    content: Any, stub: Stub, refs: Iterable[Any], paths: Mapping[Any, Sequence[str]]
) -> dict[str, Properties]:
    """Properties of objects by ref. Objects that are no more are left out."""
    left = {ref_of(ref): ref for ref in refs}
    while left:
        specs = [Collector.ObjectSpec(obj=ref, skip=False) for ref in left.values()]
        try:
            return retrieve(content, stub, specs, paths)
        except vmodl.fault.ManagedObjectNotFound as error:
            if left.pop(ref_of(error.obj), None) is None:
                raise
    return {}


def read_view(
    content: Any, stub: Stub, container: Any, paths: Mapping[Any, Sequence[str]]
) -> dict[str, Properties]:
    """Properties of all objects of some kinds below a container."""
    manager = bound(content.viewManager, stub)
    view = manager.CreateContainerView(bound(container, stub), list(paths), True)
    try:
        return retrieve(content, stub, [in_view(view)], paths)
    finally:
        view.DestroyView()


def retrieve(
    content: Any, stub: Stub, objects: list[Any], paths: Mapping[Any, Sequence[str]]
) -> dict[str, Properties]:
    """Page by page. Each object's properties hold the object itself under the empty name."""
    spec = Collector.FilterSpec(
        objectSet=objects, propSet=[properties(kind, some) for kind, some in paths.items()]
    )
    request = collector(content, stub)
    page = request.RetrievePropertiesEx(
        specSet=[spec], options=Collector.RetrieveOptions(maxObjects=PAGE)
    )
    found: dict[str, Properties] = {}
    while page is not None:
        for item in page.objects:
            props = found.setdefault(ref_of(item.obj), {"": item.obj})
            props.update({each.name: each.val for each in item.propSet})
            for missing in item.missingSet:
                if isinstance(missing.fault, vim.fault.NotAuthenticated):
                    raise missing.fault
        if not page.token:
            break
        page = request.ContinueRetrievePropertiesEx(page.token)
    if "" in found:
        raise Nonsense("an object without a reference")
    return found
