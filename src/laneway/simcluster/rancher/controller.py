"""Guest clusters: as many VMs for each pool as desired, replaced as Cluster API replaces machines.

Between a pool and a VM there is an infrastructure object, a copy of the configuration, and nothing
else. What the other objects of the real ones hold is in labels and in an annotation of the VM.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from laneway.api import ObjectMeta
from laneway.core.machine_pools.device_info import DeviceInfoError
from laneway.kube.client import Client
from laneway.kube.controller import Retry, run_workers
from laneway.kube.errors import ApiError
from laneway.kube.informer import Informer
from laneway.kube.kubevirt import VIRTUAL_MACHINES, VirtualMachine
from laneway.kube.queue import WorkQueue
from laneway.kube.rancher import (
    CONFIGS,
    GUEST_CLUSTERS,
    INFRA_MACHINES,
    LABEL_CLUSTER_NAME,
    LABEL_GUEST_CLUSTER,
    LABEL_POOL,
    GuestCluster,
    MachinePool,
    RollingUpdate,
    options,
)
from laneway.kube.resource import Key, Resource, key_of
from laneway.simcluster.clusterapi.rollout import SetSize, limits, resized
from laneway.simcluster.clusterapi.writing import create, hold, let_go, remove
from laneway.simcluster.rancher.machines import ANNOTATION_TEMPLATE, template_of, vm

log = logging.getLogger(__name__)

FINALIZER = "provisioning.cattle.io/simulated"
ANNOTATION_CLUSTER = "laneway-simulation/guest-cluster"
"""On a VM: namespace and name of its cluster's object."""
_AGAIN_SECONDS = 2.0
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


class _Plain(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration, of which all fields count."""

    metadata: ObjectMeta = ObjectMeta()
    fields: Mapping[str, Any] = {}


def _whole(_: type[_Plain], raw: bytes | msgspec.Raw) -> _Plain:
    fields = msgspec.json.decode(raw, type=dict[str, Any])
    return _Plain(metadata=msgspec.convert(fields.get("metadata"), ObjectMeta), fields=fields)


_CONFIGS = {
    kind: Resource(one.group, one.version, one.plural, True, _Plain, kind, decoder=_whole)
    for kind, one in CONFIGS.items()
}


class SimulatedRancher:
    """The stand-in. Run `run` in a task; the kinds are to be on the server (see `install`)."""

    def __init__(self, management: Client, harvester: Client) -> None:
        self.queue: WorkQueue[Key] = WorkQueue(cap=10.0)
        self._management = management
        self._harvester = harvester
        self._clusters = Informer(management, GUEST_CLUSTERS)
        self._configs = {kind: Informer(management, one) for kind, one in _CONFIGS.items()}
        self._vms = Informer(harvester, VIRTUAL_MACHINES)

    async def run(self) -> None:
        """Make machines until cancelled."""
        self._clusters.subscribe(lambda old, new: self._ask(new or old))
        for configs in self._configs.values():
            configs.subscribe(lambda _old, _new: self._ask_all())
        self._vms.subscribe(lambda old, new: self._vm_changed(new or old))
        async with asyncio.TaskGroup() as tasks:
            informers: list[Informer[Any]] = [self._clusters, self._vms, *self._configs.values()]
            for informer in informers:
                tasks.create_task(informer.run())
            for informer in informers:
                await informer.synced.wait()
            await run_workers(self.queue, self._reconcile)

    def _ask(self, cluster: GuestCluster | None) -> None:
        if cluster is not None:
            self.queue.add(key_of(cluster))

    def _ask_all(self) -> None:
        for cluster in self._clusters.store:
            self._ask(cluster)

    def _vm_changed(self, found: VirtualMachine | None) -> None:
        if found is not None and (text := found.metadata.annotations.get(ANNOTATION_CLUSTER)):
            namespace, _, name = text.partition("/")
            self.queue.add(Key(namespace, name))

    async def _reconcile(self, key: Key) -> Retry | None:
        cluster = self._clusters.store.get(key.name, key.namespace)
        if cluster is None or cluster.spec.rke_config is None:
            return None
        machines = await self._machines(cluster)
        await self._forget(cluster, {one.metadata.name for one in machines})
        if cluster.metadata.deletion_timestamp:
            for one in machines:
                await remove(self._harvester, VIRTUAL_MACHINES, one.metadata)
            if not machines:
                await let_go(self._management, GUEST_CLUSTERS, cluster.metadata, FINALIZER)
            return None
        await hold(self._management, GUEST_CLUSTERS, cluster.metadata, FINALIZER)
        pools = {pool.name: pool for pool in cluster.pools}
        for one in machines:
            if one.metadata.labels.get(LABEL_POOL) not in pools:
                await remove(self._harvester, VIRTUAL_MACHINES, one.metadata)
        again = False
        for name, pool in pools.items():
            own = [one for one in machines if one.metadata.labels.get(LABEL_POOL) == name]
            again |= not await self._pool(cluster, pool, own)
        return Retry(_AGAIN_SECONDS) if again else None

    async def _machines(self, cluster: GuestCluster) -> list[VirtualMachine]:
        """As the server has them now: those that were just made count."""
        selector = f"{LABEL_GUEST_CLUSTER}={cluster.metadata.name}"
        pages = self._harvester.list(VIRTUAL_MACHINES, label_selector=selector)
        return [VIRTUAL_MACHINES.decode(item) async for page in pages for item in page.items]

    async def _forget(self, cluster: GuestCluster, names: set[str]) -> None:
        """Delete the infrastructure objects of VMs that are gone."""
        meta = cluster.metadata
        for resource in INFRA_MACHINES.values():
            selector = f"{LABEL_CLUSTER_NAME}={meta.name}"
            pages = self._management.list(resource, meta.namespace, label_selector=selector)
            async for page in pages:
                for one in map(resource.decode, page.items):
                    if one.metadata.name not in names:
                        await remove(self._management, resource, one.metadata)

    async def _pool(
        self, cluster: GuestCluster, pool: MachinePool, machines: Sequence[VirtualMachine]
    ) -> bool:
        """Do what is next for one pool. Whether nothing was refused."""
        if pool.paused or pool.machine_config_ref.kind not in self._configs:
            return True
        store = self._configs[pool.machine_config_ref.kind].store
        config = store.get(pool.machine_config_ref.name, cluster.metadata.namespace)
        if config is None:
            return False
        there = [one for one in machines if not one.metadata.deletion_timestamp]
        template = template_of(config.fields)
        new = [
            one for one in there if one.metadata.annotations.get(ANNOTATION_TEMPLATE) == template
        ]
        old = [one for one in there if one not in new]
        done = True
        for found, count in targets(pool, new, old):
            for one in _oldest(found)[: max(len(found) - count, 0)]:
                await remove(self._harvester, VIRTUAL_MACHINES, one.metadata)
            for _ in range(count - len(found)):
                done = done and await self._create(cluster, pool, config.fields)
        return done

    async def _create(
        self, cluster: GuestCluster, pool: MachinePool, config: Mapping[str, Any]
    ) -> bool:
        suffix = "".join(secrets.choice(_LETTERS) for _ in range(5))
        meta, kind = cluster.metadata, pool.machine_config_ref.kind
        name = f"{meta.name}-{pool.name}-{suffix}"
        infra: Any = {
            "metadata": {"name": name, "labels": {LABEL_CLUSTER_NAME: meta.name}},
            "spec": {**options(config), "common": {}},
        }
        try:
            body: Any = vm(meta.name, pool.name, name, config)
            body["metadata"]["annotations"][ANNOTATION_CLUSTER] = f"{meta.namespace}/{meta.name}"
            namespace = str(config.get("vmNamespace") or "default")
            await create(self._harvester, VIRTUAL_MACHINES, body, namespace)
            await create(self._management, INFRA_MACHINES[kind], infra, meta.namespace)
        except (ApiError, DeviceInfoError) as error:  # Rancher tries it again and again
            log.warning("pool %s of %s: no machine is created: %s", pool.name, meta.name, error)
            return False
        return True


def targets(
    pool: MachinePool, new: Sequence[VirtualMachine], old: Sequence[VirtualMachine]
) -> list[tuple[Sequence[VirtualMachine], int]]:
    """How many of the new machines there are to be, and how many of the old ones.

    As with Cluster API, a new machine counts from when it is desired: an old one that may be
    missing goes even if there is no room for the new one yet.
    """
    desired = pool.desired
    rolling = pool.rolling_update or RollingUpdate()
    surge, unavailable = limits(desired, rolling.max_surge, rolling.max_unavailable)
    size, sizes = SetSize("new", len(new), _ready(new)), [SetSize("old", len(old), _ready(old))]
    step = partial(resized, desired, old=sizes, surge=surge, unavailable=unavailable)
    grown = step(size).get("new", len(new))
    return [(new, grown), (old, step(size._replace(replicas=grown)).get("old", len(old)))]


def _ready(machines: Sequence[VirtualMachine]) -> int:
    return sum(one.status.ready for one in machines)


def _oldest(machines: Sequence[VirtualMachine]) -> list[VirtualMachine]:
    """The order in which Cluster API deletes them: what does not work, then by age."""
    return sorted(
        machines,
        key=lambda one: (one.status.ready, one.metadata.creation_timestamp, one.metadata.name),
    )
