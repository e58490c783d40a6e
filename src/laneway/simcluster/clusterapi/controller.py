"""Cluster API as a whole: its caches and its controllers, and the guests of its machines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from laneway.kube.client import Client
from laneway.kube.controller import Reconcile, Retry, run_workers
from laneway.kube.errors import ConflictError
from laneway.kube.informer import Informer
from laneway.kube.pods import PODS
from laneway.kube.queue import WorkQueue
from laneway.kube.resource import Key, KubeObject
from laneway.simcluster.clusterapi.caches import Caches
from laneway.simcluster.clusterapi.clusters import ClusterController
from laneway.simcluster.clusterapi.deployments import DeploymentController
from laneway.simcluster.clusterapi.guests import GuestController
from laneway.simcluster.clusterapi.jobs import JOBS, GuestPods, JobController
from laneway.simcluster.clusterapi.kubevirt.controller import KubevirtMachines
from laneway.simcluster.clusterapi.machines import MachineController
from laneway.simcluster.clusterapi.objects import VSPHERE, Provider
from laneway.simcluster.clusterapi.sets import SetController

_WORKERS = 4
"""Of machines, of which each is looked at for itself."""
_CONFLICT_SECONDS = 0.1


class _Controller(Protocol):
    queue: WorkQueue[Key]

    async def reconcile(self, key: Key) -> Retry | None: ...


class ClusterApi:
    """The stand-in. Run `run` in a task; the kinds are to be on the server (see `install`).

    It decides about machines by lists of its own in addition to its caches, so it needs a client of
    its own; pods are placed by whatever schedules the cluster's.
    """

    def __init__(
        self, client: Client, kubeconfig: Callable[[], bytes], provider: Provider = VSPHERE
    ) -> None:
        """`kubeconfig`: by which the workload clusters, all of them this server, are reached."""
        caches = Caches(client, provider)
        self._informers: list[Informer[KubeObject]] = [*caches]
        self._hosts = caches.hosts
        self._controllers: list[tuple[_Controller, int]] = [
            (ClusterController(client, caches, kubeconfig), 1),
            (DeploymentController(client, caches), 1),
            (SetController(client, caches), 1),
            (MachineController(client, caches), _WORKERS),
        ]
        if provider.joins:
            jobs, pods = Informer(client, JOBS), Informer(client, PODS)
            self._informers += [caches.vms, jobs, pods]
            self._controllers += [
                (GuestController(client, caches), _WORKERS),
                (JobController(client, jobs, pods), 1),
                (GuestPods(client, caches.nodes, pods), _WORKERS),
            ]
        else:
            machines = KubevirtMachines(client, caches)
            self._informers.append(machines.vms)
            self._controllers.append((machines, _WORKERS))

    async def run(self) -> None:
        """Reconcile clusters until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._hosts.run())
            for informer in self._informers:
                tasks.create_task(informer.run())
            for informer in self._informers:
                await informer.synced.wait()
            for controller, workers in self._controllers:
                tasks.create_task(run_workers(controller.queue, _again(controller), workers))


def _again(controller: _Controller) -> Reconcile[Key]:
    """Look again at what another client has just changed: that is no failure."""

    async def reconcile(key: Key) -> Retry | None:
        try:
            return await controller.reconcile(key)
        except ConflictError:
            return Retry(_CONFLICT_SECONDS)

    return reconcile
