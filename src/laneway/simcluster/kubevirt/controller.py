"""KubeVirt as a whole: its caches and its controllers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from laneway.kube.client import Client
from laneway.kube.controller import run_workers
from laneway.kube.events import EventRecorder
from laneway.kube.informer import Informer
from laneway.kube.kubevirt import KUBEVIRTS, LABEL_CREATED_BY, MIGRATIONS
from laneway.kube.pods import PODS
from laneway.kube.resource import KubeObject
from laneway.simcluster.kubevirt.evacuation import EvacuationController
from laneway.simcluster.kubevirt.instances import InstanceController
from laneway.simcluster.kubevirt.migrating import subject
from laneway.simcluster.kubevirt.migrations import MigrationController
from laneway.simcluster.kubevirt.objects import INSTANCES, LABEL_LAUNCHER, VMS
from laneway.simcluster.kubevirt.vms import VmController
from laneway.simcluster.runtime import Runtime

_WORKERS = 2


class KubeVirt:
    """The stand-in. Run `run` in a task; the kinds are to be on the server (see `install`)."""

    def __init__(self, client: Client, runtimes: Mapping[str, Runtime]) -> None:
        """`runtimes`: what runs on each node; looked up when it is needed."""
        self._recorder = EventRecorder(client, "virtualmachine-controller")
        vms = Informer(client, VMS)
        instances = Informer(client, INSTANCES, indexers={"uid": lambda one: [one.metadata.uid]})
        pods = Informer(
            client,
            PODS,
            label_selector=f"{LABEL_LAUNCHER}=virt-launcher",
            indexers={"instance": lambda pod: [pod.metadata.labels.get(LABEL_CREATED_BY, "")]},
        )
        migrations = Informer(client, MIGRATIONS, indexers={"instance": lambda one: [subject(one)]})
        installations = Informer(client, KUBEVIRTS)
        self._informers: list[Informer[KubeObject]] = [
            vms,
            instances,
            pods,
            migrations,
            installations,
        ]
        self._vms = VmController(client, self._recorder, vms, instances)
        self._instances = InstanceController(
            client,
            self._recorder,
            runtimes,
            instances=instances,
            pods=pods,
            installations=installations,
        )

        self._migrations = MigrationController(
            client,
            self._recorder,
            runtimes,
            migrations=migrations,
            instances=instances,
            pods=pods,
        )
        self._evacuation = EvacuationController(
            client,
            self._recorder,
            instances=instances,
            migrations=migrations,
            installations=installations,
        )

    async def run(self) -> None:
        """Run VMs until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._recorder.run())
            for informer in self._informers:
                tasks.create_task(informer.run())
            for informer in self._informers:
                await informer.synced.wait()
            for controller in (self._vms, self._instances, self._migrations, self._evacuation):
                tasks.create_task(run_workers(controller.queue, controller.reconcile, _WORKERS))
