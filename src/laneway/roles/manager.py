"""The manager: what concerns the whole cluster and must have one writer.

Any number of managers may run; one leads. All of them keep the caches, so that the next leader
knows everything already. A manager is ready once it knows the objects of Laneway, leading or not;
the kinds of KubeVirt are no part of that, because a cluster need not have them. Each part of the
manager waits for itself for what it must know.

Before all that, a manager that starts brings the definitions of Laneway's kinds up to date: it
alone has the right, so an upgrade needs no other. Agents and webhooks wait for what it makes. The
leader looks at them again: a manager of the version before may have started in the middle of an
upgrade, and written its own.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from prometheus_client import CollectorRegistry

from laneway.controllers.cluster.allocation import Allocating
from laneway.controllers.cluster.caches import Caches
from laneway.controllers.cluster.certificates import WebhookCertificates
from laneway.controllers.cluster.cleanup import Cleanup
from laneway.controllers.cluster.leading import Leading
from laneway.controllers.cluster.machine_capacity import MachineCapacity
from laneway.controllers.cluster.metrics import ManagerMetrics
from laneway.controllers.cluster.permitting import MANAGER, Permitting
from laneway.controllers.cluster.unchecked import UncheckedCollector
from laneway.controllers.cluster.unmatched_claims import Unanswered
from laneway.controllers.ledger.metrics import LedgerCollector
from laneway.controllers.ledger.source import LedgerSource
from laneway.controllers.rollout.drivers import Drivers
from laneway.controllers.rollout.nodes import Rollouts
from laneway.controllers.rollout.reports import Reports
from laneway.controllers.rollout.settings import Switches
from laneway.core.ledger.ledger import Ledger
from laneway.core.tracing import Tracer
from laneway.kube.client import Client
from laneway.kube.errors import ForbiddenError, KubeError, pause_after
from laneway.kube.events import EventRecorder
from laneway.kube.informer import Informer
from laneway.kube.leader import Clock, Election, Timing
from laneway.kube.resource import KubeObject
from laneway.roles.install import Stored, install_crds

if TYPE_CHECKING:
    from laneway.roles.vsphere import Vsphere

log = logging.getLogger(__name__)

VsphereMode = Literal["none", "alongside", "standalone"]

LEASE = "laneway-manager"
INSTALL_SECONDS = 5.0
"""How soon to try again to bring the definitions of our kinds up to date."""
DEFINITIONS_SECONDS = 300.0
"""How often the leader looks whether they still are."""
NAMESPACE = "harvester-system"


def own_identity() -> str:
    """A name for this process that no other has, which tells people where it runs."""
    return f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4()}"


class Manager:
    """One manager. Run `run` in a task.

    What else is to be counted of the caches is registered with `registry`; as only one manager may
    tell it, ask `leading`.
    """

    def __init__(
        self,
        client: Client,
        registry: CollectorRegistry,
        *,
        identity: str = "",
        namespace: str = NAMESPACE,
        timing: Timing | None = None,
        clock: Clock | None = None,
        certificates: bool = False,
        drivers: bool = False,
        machine_capacity: bool = False,
        vsphere: VsphereMode = "none",
        check_nodes: bool = False,
        check_image: str = "",
        tracer: Tracer | None = None,
    ) -> None:
        """`certificates`: make and change that of the webhook in the same namespace.

        `drivers`: replace the pods of the driver toolkit there, once it is to install another.

        `machine_capacity`: say of CAPK's machines what the cluster autoscaler wants to know.

        `vsphere`: manage the GPUs of vCenters, alongside CAPV or in its place; `check_nodes`:
        look at the nodes of its VMs, too, and add vectors there by `check_image`.

        `tracer`: what takes the spans of changes.
        """
        self.ready = asyncio.Event()
        """Everything that decisions need is known."""
        self._client = client
        self.caches = Caches.of(client)
        self.registry = registry
        self.ledger = LedgerSource(self.caches)
        self._metrics = ManagerMetrics(registry)
        registry.register(LedgerCollector(self._reported, lambda: self.ledger.build_seconds))
        registry.register(UncheckedCollector(self.caches.vms, lambda: self.leading))
        self.recorder = EventRecorder(client, MANAGER)
        self._stored_crds: Stored = {}
        self._election = Election(
            client.unwaiting(),
            namespace,
            LEASE,
            identity or own_identity(),
            timing=timing,
            clock=clock,
        )
        self.parts: Sequence[Leading[Any]] = [
            Permitting(client, self.caches, self._metrics, self.recorder),
            Allocating(client, self.caches, self._metrics),
            Cleanup(client, self.caches, self._metrics),
            Unanswered(client, self.caches, self._metrics),
            Rollouts(client, self.caches, self._metrics, self.recorder, tracer=tracer),
            Reports(client, self.caches, self._metrics),
            Switches(client, self.caches, self._metrics),
        ]
        if certificates:
            keeper = WebhookCertificates(client, namespace, self._metrics, self.recorder)
            self.parts = [*self.parts, keeper]
        if drivers:
            upgrades = Drivers(client, namespace, self.caches, self._metrics, self.recorder)
            self.parts = [*self.parts, upgrades]
        self._machine_capacity: MachineCapacity | None = None
        if machine_capacity:
            self._machine_capacity = MachineCapacity(client, self._metrics)
            self.parts = [*self.parts, self._machine_capacity]
        self.vsphere: Vsphere | None = None
        if vsphere != "none":
            from laneway.roles.vsphere import Vsphere  # noqa: PLC0415 - large and slow to load

            self.vsphere = Vsphere(
                client,
                registry,
                self.recorder,
                standalone=vsphere == "standalone",
                check_nodes=check_nodes,
                check_image=check_image,
            )
            self.parts = [*self.parts, *self.vsphere.parts]

    @property
    def leading(self) -> bool:
        """Whether this manager leads now."""
        return self._election.leading

    def _reported(self) -> Ledger | None:
        """The ledger, where it is for this manager to tell it."""
        return self.ledger.ledger if self.leading else None

    def waiting_for(self) -> list[str]:
        """The kinds of which not everything is known yet."""
        return [name for name, cache in self._needed().items() if not cache.synced.is_set()]

    def _needed(self) -> dict[str, Informer[KubeObject]]:
        own = ("claims", "device_nodes", "nodes", "usb_claims", "vgpus")
        needed = {name: self.caches.all[name] for name in own}
        return needed if self.vsphere is None else needed | dict(self.vsphere.needed)

    def _informers(self) -> list[Informer[KubeObject]]:
        found = [*self.caches.all.values()]
        if self._machine_capacity is not None:
            found += self._machine_capacity.informers
        if self.vsphere is not None:
            found += self.vsphere.caches.all.values()
        return found

    async def run(self) -> None:
        """Keep the caches, and lead whenever it is our turn, until cancelled."""
        await self._install()
        async with asyncio.TaskGroup() as tasks:
            for informer in self._informers():
                tasks.create_task(informer.run())
            tasks.create_task(self.ledger.run())
            tasks.create_task(self.recorder.run())
            tasks.create_task(self._election.run(self._lead))
            for informer in self._needed().values():
                await informer.synced.wait()
            self.ready.set()
            log.info("the manager knows its cluster")

    async def _install(self) -> None:
        """Have the kinds served as this version needs them; agents and webhooks wait for that."""
        while True:
            try:
                await install_crds(self._client, self._stored_crds)
            except ForbiddenError as error:
                log.error(  # noqa: TRY400 - its text says it all
                    "the definitions of Laneway's kinds stay as they are: %s; give the manager its "
                    "ClusterRole, or have an administrator apply what 'laneway crds' prints",
                    error,
                )
                return
            except KubeError as error:
                seconds = pause_after(error, INSTALL_SECONDS)
                log.warning(
                    "the definitions of Laneway's kinds are not up to date: %s; retrying in %.0f s",
                    error,
                    seconds,
                )
                await asyncio.sleep(seconds)
            else:
                return

    async def _keep_definitions(self) -> None:
        while True:
            await self._install()
            await asyncio.sleep(DEFINITIONS_SECONDS)

    async def _lead(self) -> None:
        self._metrics.leading(True)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._keep_definitions())
                for part in self.parts:
                    tasks.create_task(part.run())
        finally:
            self._metrics.leading(False)
