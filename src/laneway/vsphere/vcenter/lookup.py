"""Where a VM is to be, and which VM is its template, as objects of vCenter.

The names of an inventory change rarely and machines come in dozens, so the names are kept for a
minute. An order that fails because of a name that changed meanwhile is repeated by its caller.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from laneway.vsphere.port import NotFoundInVCenterError, Place
from laneway.vsphere.vcenter.escaping import escaped, parts, same
from laneway.vsphere.vcenter.inventory_paths import Entity, Names, only
from laneway.vsphere.vcenter.properties import bound, read, read_view, ref_of
from laneway.vsphere.vcenter.pyvmomi import vim
from laneway.vsphere.vcenter.stub import Stub

KEPT_S = 60.0

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


class Target(NamedTuple):
    """A place, resolved."""

    folder: Any
    pool: Any
    datastore: Any
    host: Any
    networks: tuple[Any, ...]


class Places:
    """For all threads of one vCenter; the objects it gives are bound to the asking thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._names: Names | None = None
        self._read = 0.0

    def names(self, content: Any, stub: Stub) -> Names:
        """Read by one thread for all."""
        with self._lock:
            if self._names is None or time.monotonic() - self._read > KEPT_S:
                self._names = Names.read(content, stub)
                self._read = time.monotonic()
            return self._names

    def forget(self) -> None:
        """Something was not where it was."""
        with self._lock:
            self._names = None

    def target(self, content: Any, stub: Stub, place: Place, networks: Sequence[str]) -> Target:
        """Everything that a clone needs to know of its place."""
        names = self.names(content, stub)
        center = _datacenter(names, place.datacenter)
        under = center.ref if center else ""
        host = names.get(place.host, called="host") if place.host else None
        datastore = place.datastore and names.find(
            vim.Datastore, place.datastore, called="datastore", under=under
        )
        return Target(
            folder=bound(_folder(names, center, place.folder), stub),
            pool=bound(_pool(names, place, host, under), stub),
            datastore=bound(datastore.obj, stub) if datastore else None,
            host=bound(host.obj, stub) if host else None,
            networks=tuple(
                bound(names.find(vim.Network, each, called="network", under=under).obj, stub)
                for each in networks
            ),
        )

    def folder(self, content: Any, stub: Stub, place: Place) -> Any:
        """The folder of a VM."""
        names = self.names(content, stub)
        return bound(_folder(names, _datacenter(names, place.datacenter), place.folder), stub)

    def cluster(self, content: Any, stub: Stub, desired: str) -> Any:
        """By reference, name or path."""
        names = self.names(content, stub)
        return bound(names.find(vim.ClusterComputeResource, desired, called="cluster").obj, stub)

    def cluster_of_pool(self, content: Any, stub: Stub, place: Place) -> str:
        """The ref of the compute resource that the desired resource pool is of."""
        names = self.names(content, stub)
        center = _datacenter(names, place.datacenter)
        pool = named_pool(names, place.resource_pool, center.ref if center else "")
        compute = names.above(pool, vim.ComputeResource)
        if compute is None:
            raise NotFoundInVCenterError(f"the resource pool {names.path(pool)} is of no cluster")
        return compute.ref

    def pool_to_move_to(self, content: Any, stub: Stub, vm: str, host: str) -> Any:
        """The root pool of a host's cluster; None: the VM is in it already, and keeps its pool."""
        names = self.names(content, stub)
        to = names.get(host, called="host")
        paths = {vim.VirtualMachine: ["runtime.host"]}
        at = read(content, stub, [vim.VirtualMachine(vm, stub)], paths)
        before = ref_of(at.get(vm, {}).get("runtime.host"))
        if before and names.get(before, called="host").parent == to.parent:
            return None
        return bound(_root_pool(names, to), stub)

    def template(self, content: Any, stub: Stub, desired: str, datacenter: str) -> Any:
        """By UUID, by path, or by a name that is unique in its datacenter."""
        search = bound(content.searchIndex, stub)
        if _UUID.fullmatch(desired):
            for instance in (True, False):
                found = search.FindByUuid(None, desired.lower(), True, instance)
                if isinstance(found, vim.VirtualMachine):
                    return found
        names = self.names(content, stub)
        center = _datacenter(names, datacenter)
        for path in _template_paths(desired, names.path(center) if center else ""):
            found = search.FindByInventoryPath(path)
            if isinstance(found, vim.VirtualMachine):
                return found
        container = center.obj if center else content.rootFolder
        there = read_view(content, stub, container, {vim.VirtualMachine: ["name"]})
        called = {ref: props.get("name", "") for ref, props in there.items()}
        fitting = [ref for ref, name in called.items() if same(desired, name)]
        where = f"template {desired!r}" + (f" in {center.name}" if center else "")
        ref = only(fitting, [f"{called[ref]} ({ref})" for ref in fitting], [], where)
        return vim.VirtualMachine(ref, stub)


def _template_paths(desired: str, center: str) -> list[str]:
    """Paths, from the root and escaped, that a name may mean."""
    steps = "/".join(escaped(part) for part in parts(desired))
    if desired.startswith("/"):
        return [steps]
    return [
        path.lstrip("/") for path in (f"{center}/vm/{steps}", f"{center}/vm/{escaped(desired)}")
    ]


def _datacenter(names: Names, desired: str) -> Entity | None:
    """None: there are several, and the spec does not say which."""
    if desired and desired != "*":
        return names.find(vim.Datacenter, desired, called="datacenter")
    try:
        return names.only(vim.Datacenter, called="datacenter")
    except NotFoundInVCenterError:
        return None


def _folder(names: Names, center: Entity | None, desired: str) -> Any:
    if desired:
        under = center.ref if center else ""
        return names.find(vim.Folder, desired, called="folder", under=under).obj
    if center is None:
        center = names.only(vim.Datacenter, called="datacenter")
    return center.props["vmFolder"]


def _pool(names: Names, place: Place, host: Entity | None, under: str) -> Any:
    if place.cluster:
        cluster = names.find(vim.ComputeResource, place.cluster, called="cluster", under=under)
        under = cluster.ref
    if place.resource_pool:
        return named_pool(names, place.resource_pool, under).obj
    if host is not None:
        return _root_pool(names, host)
    if not place.cluster:
        cluster = names.only(vim.ComputeResource, called="cluster", under=under)
    return cluster.props["resourcePool"]


def named_pool(names: Names, desired: str, under: str) -> Entity:
    """A resource pool; a cluster stands for its root pool, as for CAPV, where no pool fits."""
    what = "resource pool"
    if not names.fitting(vim.ResourcePool, desired, under=under) and names.fitting(
        vim.ComputeResource, desired, under=under
    ):
        cluster = names.find(vim.ComputeResource, desired, called=what, under=under)
        return names.get(ref_of(cluster.props.get("resourcePool")), called=what)
    return names.find(vim.ResourcePool, desired, called=what, under=under)


def _root_pool(names: Names, host: Entity) -> Any:
    compute = names.above(host, vim.ComputeResource)
    pool = compute and compute.props.get("resourcePool")
    if pool is None:
        raise NotFoundInVCenterError(f"the host {host.name} is in no cluster that has a pool")
    return pool
