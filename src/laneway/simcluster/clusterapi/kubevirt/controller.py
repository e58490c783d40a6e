"""KubevirtMachines and KubevirtClusters: a VM for each machine, which is ready once that runs.

No load balancer is made, no key is put into guests, and nothing is asked of them. A VM that is
refused is tried again, as CAPK does.
"""

from __future__ import annotations

from laneway.core.raw import Json
from laneway.kube.client import Client
from laneway.kube.clusterapi import Machine
from laneway.kube.controller import Retry
from laneway.kube.errors import AlreadyExistsError, ApiError
from laneway.kube.informer import Informer
from laneway.kube.kubevirt import VIRTUAL_MACHINES, VirtualMachine
from laneway.kube.queue import WorkQueue
from laneway.kube.resource import Key
from laneway.simcluster.clusterapi.caches import Caches, by_key
from laneway.simcluster.clusterapi.kubevirt.vms import (
    LABEL_MACHINE,
    LABEL_NAMESPACE,
    namespace_of,
    vm,
)
from laneway.simcluster.clusterapi.objects import KUBEVIRT, Infra, condition
from laneway.simcluster.clusterapi.writing import create, hold, let_go, remove, write_status

FINALIZER = "kubevirtmachine.infrastructure.cluster.x-k8s.io"
_AGAIN_SECONDS = 2.0


class KubevirtMachines:
    """Reconciles KubevirtMachines; a KubevirtCluster is there as soon as it is seen."""

    def __init__(self, client: Client, caches: Caches) -> None:
        self.queue: WorkQueue[Key] = WorkQueue(cap=10.0)
        self.vms = Informer(client, VIRTUAL_MACHINES)
        self._client = client
        self._caches = caches
        caches.infra_machines.follow(by_key(self.queue.add))
        caches.infra_clusters.follow(by_key(self.queue.add))
        caches.machines.follow(self._machine_changed)
        self.vms.subscribe(lambda old, new: self._vm_changed(new or old))

    def _machine_changed(self, machine: Machine) -> None:
        """It has user data now."""
        self.queue.add(Key(machine.metadata.namespace, machine.spec.infrastructure_ref.name))

    def _vm_changed(self, found: VirtualMachine | None) -> None:
        labels = {} if found is None else found.metadata.labels
        if name := labels.get(LABEL_MACHINE):
            self.queue.add(Key(labels.get(LABEL_NAMESPACE, ""), name))

    async def reconcile(self, key: Key) -> Retry | None:
        """Do what is next for one machine, and for the cluster of the same name."""
        cluster = self._caches.infra_clusters.store.get(key.name, key.namespace)
        if cluster is not None and not cluster.provisioned:
            done: dict[str, Json] = {"initialization": {"provisioned": True}}
            await write_status(self._client, KUBEVIRT.clusters, cluster, ready=True, **done)
        infra = self._caches.infra_machines.store.get(key.name, key.namespace)
        if infra is None:
            return None
        machine = self._machine(infra)
        found = self.vms.store.get(key.name, namespace_of(infra))
        if infra.metadata.deletion_timestamp:
            if found is not None:
                await remove(self._client, VIRTUAL_MACHINES, found.metadata)
            else:
                await let_go(self._client, KUBEVIRT.machines, infra.metadata, FINALIZER)
            return None
        await hold(self._client, KUBEVIRT.machines, infra.metadata, FINALIZER)
        if machine is None or not machine.spec.bootstrap.data_secret_name:
            return None
        if found is None:
            return await self._create(infra, machine)
        await self._tell(infra, found)
        return None

    def _machine(self, infra: Infra) -> Machine | None:
        name = next(
            (ref.name for ref in infra.metadata.owner_references if ref.kind == "Machine"), ""
        )
        return self._caches.machines.store.get(name, infra.metadata.namespace)

    async def _create(self, infra: Infra, machine: Machine) -> Retry | None:
        try:
            body = vm(infra, machine)
            await create(self._client, VIRTUAL_MACHINES, body, namespace_of(infra))
        except AlreadyExistsError:
            return Retry(_AGAIN_SECONDS)
        except ApiError as error:
            words = f"Failed vm creation: {error}"
            await self._say(infra, ready=False, reason="VMCreateFailed", words=words)
            return Retry(_AGAIN_SECONDS)
        return None

    async def _tell(self, infra: Infra, found: VirtualMachine) -> None:
        name = infra.metadata.name
        if found.status.ready:
            body = {"spec": {"providerID": f"kubevirt://{name}"}}
            if infra.spec.get("providerID") != body["spec"]["providerID"]:
                await self._client.patch(KUBEVIRT.machines, name, body, infra.metadata.namespace)
            done: dict[str, Json] = {"initialization": {"provisioned": True}}
            await self._say(infra, ready=True, reason="VMProvisioned", words="", **done)
            return
        words = f"VM is not ready: {found.status.printable_status}"
        await self._say(infra, ready=False, reason="VMNotReady", words=words)

    async def _say(
        self, infra: Infra, *, ready: bool, reason: str, words: str, **fields: Json
    ) -> None:
        conditions = (condition(kind, ready, reason, words) for kind in ("VMProvisioned", "Ready"))
        await write_status(
            self._client, KUBEVIRT.machines, infra, *conditions, ready=ready, **fields
        )
