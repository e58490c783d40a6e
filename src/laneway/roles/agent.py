"""The agent: everything that reads or writes one node's hardware.

It watches only objects of its own node. Its caches are complete before the first object is written,
so that a restart changes nothing that is already right, and the first scan is complete before the
first object is judged gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging

from laneway.controllers.acting import ACTOR, ActingController, Context
from laneway.controllers.device_plugin.controller import DevicePluginController
from laneway.controllers.dra import Slices
from laneway.controllers.gpu_locks import GpuLocks
from laneway.controllers.hardware_changes import HardwareChanges
from laneway.controllers.layouts.owners import Owners
from laneway.controllers.measuring.ecc import EccModes
from laneway.controllers.measuring.gpus import Measuring, Sources, reports
from laneway.controllers.measuring.metrics import Measurements
from laneway.controllers.metrics import AgentMetrics, MetricFamilies
from laneway.controllers.node_labels import NodeLabels
from laneway.controllers.observing.observer import Observer
from laneway.controllers.observing.silent import SilentChanges
from laneway.controllers.preparation.agent import Preparing
from laneway.controllers.restoring import restored
from laneway.controllers.sharing.identity import CardIdentity
from laneway.controllers.sharing.mig_labels import MigLabels
from laneway.controllers.timing import Timing
from laneway.controllers.tracing import plan_spans
from laneway.core.tracing import Tracer
from laneway.host.hardware import Hardware
from laneway.host.plans.audit import Ended
from laneway.host.plans.files import StateError
from laneway.host.plans.recover import recover
from laneway.host.plans.state import BusyError
from laneway.kube.client import Client
from laneway.kube.events import EventRecorder
from laneway.roles.families import Families
from laneway.roles.node_caches import NodeCaches

log = logging.getLogger(__name__)

COMPONENT = "laneway-agent"
ALONE_SECONDS = 1.0
"""How often a second agent of a node looks whether the first has ended."""


class Agent:
    """The agent of one node. Run `run` in a task.

    `ready` says that all devices are published, `restored` that all desired states are met that can
    be: nothing is to be advertised before.
    """

    def __init__(
        self,
        node: str,
        hardware: Hardware,
        client: Client,
        families: MetricFamilies,
        kubelet: str = "",
        *,
        files: Hardware | None = None,
        dra: bool = False,
        timing: Timing = Timing(),  # noqa: B008 - frozen
        tracer: Tracer | None = None,
    ) -> None:
        """`kubelet`: the folder of the node's kubelet; empty where it has none.

        `files`: the node with its own files and programs, to prepare it; None where the agent does
        not reach them.

        `dra`: say in ResourceSlices what is advertised.

        `tracer`: what takes the spans of changes.
        """
        self.node = node
        self.ready = asyncio.Event()
        self.restored = asyncio.Event()
        caches = self.caches = NodeCaches(client, node, has_kubelet=bool(kubelet))
        metrics = self._metrics = AgentMetrics(families, node, desired_vgpus=caches.desired_vgpus)
        self.changes = HardwareChanges(client, COMPONENT, node)
        self._tracer = tracer
        hardware = self.hardware = hardware._replace(workloads=caches.workload, ended=self._ended)
        locks = GpuLocks()
        self.observer = Observer(hardware, locks, metrics)
        self.silent = SilentChanges(hardware.host, self.observer, locks)
        self.recorder = EventRecorder(client, COMPONENT, node)
        identity = CardIdentity(node, gpus=caches.gpus, vgpus=caches.vgpus, migs=caches.migs)
        context = Context(
            hardware, self.observer, self.recorder, metrics, locks, identity, timing, tracer
        )
        self._slices = Slices(node, client, caches.nodes, metrics, publish=dra)
        self._device_plugin = DevicePluginController(
            node,
            hardware,
            client,
            caches.for_device_plugin(),
            kubelet,
            metrics=metrics,
            slices=self._slices,
        )
        self._ecc = EccModes()
        self.measuring = Measuring(
            node,
            hardware.executor,
            locks,
            Sources(lambda: self.observer.inventory, self._device_plugin.device_status),
            self._measured,
            seconds=timing.measure,
        )
        metrics.counts_reports(lambda: reports(self.observer.inventory, self._device_plugin.xids))
        self._owners = Owners(node, caches.layouts)
        built = Families(node, client, caches, context, self._device_plugin, ecc=self._ecc)
        self.publishers = built.publishers(self._owners)
        self._renumberer = built.renumberer()
        self.vgpu_claims = built.vgpu_claims()
        self._orphans = built.orphans()
        self.layout = built.layouts()
        self._preparing = Preparing(
            node,
            client,
            files and files._replace(workloads=caches.workload, ended=self._ended),
            caches.preparations,
            lambda: self.observer.inventory,
            metrics=metrics,
            recorder=self.recorder,
        )
        self._mig_labels = MigLabels(node, client, caches.unlabelled_migs, metrics)
        self._labels = NodeLabels(
            node, client, caches.nodes, caches.gpus, workloads=built.workloads, metrics=metrics
        )

    def _measured(self, measurements: Measurements) -> None:
        self._metrics.measured(measurements)
        self._ecc.measured(measurements)

    def _ended(self, ended: Ended) -> None:
        self.changes.tell(ended)
        if self._tracer is not None:
            for span in plan_spans(self.node, ended):
                self._tracer(span)

    async def run(self) -> None:
        """Keep the node's objects and hardware in step until cancelled.

        Two agents would advertise the same devices, and one would undo what the other does: a
        second one waits until the first has ended.
        """
        with contextlib.ExitStack() as stack:
            await self._be_alone(stack)
            await self._run()

    async def _be_alone(self, stack: contextlib.ExitStack) -> None:
        waiting = False
        while True:
            try:
                stack.enter_context(self.hardware.state.serving(ACTOR))
            except BusyError as error:
                if not waiting:
                    log.warning(
                        "node %s already has an agent: %s. This one waits until that ends, and "
                        "changes nothing",
                        self.node,
                        error.refusal.holder,
                    )
                waiting = True
                await asyncio.sleep(ALONE_SECONDS)
            except OSError as error:
                # Without its folder it changes nothing, either, and says so; it still publishes.
                log.warning(
                    "cannot determine whether node %s has another agent: %s", self.node, error
                )
                return
            else:
                return

    async def _run(self) -> None:
        began = asyncio.get_running_loop().time()
        await self._recover()
        async with asyncio.TaskGroup() as tasks:
            for informer in self.caches.waited_for:
                tasks.create_task(informer.run())
            tasks.create_task(self.recorder.run())
            tasks.create_task(self.changes.run())
            for informer in self.caches.waited_for:
                await informer.synced.wait()
            tasks.create_task(self.observer.run())
            await self.observer.scanned.wait()
            # Before anything else, so that pods get devices again that were there all the time.
            self.observer.subscribe(self._device_plugin.observed)
            tasks.create_task(self._device_plugin.run())
            tasks.create_task(self._slices.run())
            await self._device_plugin.settle()
            self.observer.subscribe(self._renumberer.observed)
            await self._renumberer.settle()
            tasks.create_task(self._renumberer.run())
            self.observer.subscribe(self._labels.observed)
            for publisher in self.publishers:
                self.observer.subscribe(publisher.observed)
                tasks.create_task(publisher.run())
            tasks.create_task(self._labels.run())
            tasks.create_task(self._mig_labels.run())
            tasks.create_task(self.caches.preparations.run())
            tasks.create_task(self._preparing.run())
            tasks.create_task(self.silent.run())
            tasks.create_task(self.measuring.run())
            tasks.create_task(self._restore(began))
            for publisher in self.publishers:
                await publisher.published.wait()
            tasks.create_task(self.vgpu_claims.run())
            tasks.create_task(self._orphans.run())
            self.observer.subscribe(self.layout.observed)
            tasks.create_task(self.caches.layouts.run())
            tasks.create_task(self._owners.run())
            tasks.create_task(self.layout.run())
            self.ready.set()
            log.info("the devices of node %s are published", self.node)

    async def _restore(self, began: float) -> None:
        """Tell when everything is again as it was desired before the start."""
        await self.vgpu_claims.made.wait()
        await restored([one for one in self.publishers if isinstance(one, ActingController)])
        seconds = asyncio.get_running_loop().time() - began
        self._metrics.restored(seconds)
        log.info(
            "node %s is in its desired state, as far as possible, after %.1f s",
            self.node,
            seconds,
            extra={"seconds": round(seconds, 3)},
        )
        self.restored.set()

    async def _recover(self) -> None:
        """End what an agent began that was killed, before anything is observed or decided.

        Where that cannot be, no plan is carried out either and each says why; to publish the
        node's devices needs neither.
        """
        try:
            await recover(self.hardware, actor=ACTOR)
        except StateError as error:
            log.error("interrupted plans cannot be recovered: %s", error)  # noqa: TRY400 - its text says it all
        except BusyError as error:
            log.warning("%s", error.refusal.words)
