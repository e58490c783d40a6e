"""The agent: everything that reads or writes one node's hardware.

It watches only objects of its own node. Its caches are complete before the first object is written,
so that a restart changes nothing that is already right, and the first scan is complete before the
first object is judged gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from typing import Any, TypeVar

from laneway.api import (
    CoreNode,
    DeviceNode,
    MigConfiguration,
    PCIDevice,
    PCIDeviceClaim,
    SRIOVGPUDevice,
    SRIOVNetworkDevice,
    USBDevice,
    USBDeviceClaim,
    VGPUDevice,
    VGPULayout,
)
from laneway.controllers.acting import ACTOR, ActingController, Context
from laneway.controllers.cards import NetworkController
from laneway.controllers.claims.for_vgpus import VgpuClaims
from laneway.controllers.claims.orphans import OrphanKeeper
from laneway.controllers.claims.pci import PciClaimController
from laneway.controllers.claims.usb import UsbClaimController
from laneway.controllers.device_plugin.controller import Caches, DevicePluginController
from laneway.controllers.device_plugin.pci_devices import PciPublisher
from laneway.controllers.devices import node as node_device
from laneway.controllers.devices.family import Family
from laneway.controllers.devices.usb import UsbPublisher
from laneway.controllers.dra import Slices
from laneway.controllers.driver_label import DriverLabel
from laneway.controllers.gpu_locks import GpuLocks
from laneway.controllers.layouts.controller import LayoutController
from laneway.controllers.layouts.lower_objects import LowerObjects
from laneway.controllers.layouts.owners import Owners
from laneway.controllers.metrics import AgentMetrics, MetricFamilies
from laneway.controllers.observing.observer import Observer
from laneway.controllers.observing.silent import SilentChanges
from laneway.controllers.publisher import Publisher
from laneway.controllers.restoring import restored
from laneway.controllers.sharing.gpus import GpuController
from laneway.controllers.sharing.identity import Identity
from laneway.controllers.sharing.mig_labels import UNLABELLED, MigLabels
from laneway.controllers.sharing.migs import MigController
from laneway.controllers.sharing.renumbering import Renumberer
from laneway.controllers.sharing.vgpus import VgpuController
from laneway.core import keys
from laneway.core.inventory import Inventory
from laneway.core.workload import Workload
from laneway.host.hardware import Hardware
from laneway.host.plans.files import StateError
from laneway.host.plans.recover import recover
from laneway.host.plans.state import BusyError
from laneway.kube.client import Client
from laneway.kube.events import EventRecorder
from laneway.kube.informer import Informer
from laneway.kube.kubevirt import vm_of
from laneway.kube.pods import PODS
from laneway.kube.resource import served

log = logging.getLogger(__name__)

COMPONENT = "laneway-agent"
ALONE_SECONDS = 1.0
"""How often a second agent of a node looks whether the first has ended."""

T = TypeVar(
    "T",
    MigConfiguration,
    PCIDevice,
    SRIOVGPUDevice,
    SRIOVNetworkDevice,
    USBDevice,
    VGPUDevice,
)


class Agent:
    """The agent of one node. Run `run` in a task.

    `ready` says that all devices are published, `restored` that all desired states are met that can
    be: nothing is to be handed out before.
    """

    def __init__(
        self,
        node: str,
        hardware: Hardware,
        client: Client,
        families: MetricFamilies,
        kubelet: str = "",
        *,
        dra: bool = False,
    ) -> None:
        """`kubelet`: the folder of the node's kubelet; empty where it has none.

        `dra`: say in ResourceSlices what is handed out.
        """
        self.node = node
        self.ready = asyncio.Event()
        self.restored = asyncio.Event()
        self._client = client
        self._metrics = AgentMetrics(families, node)
        self._pods = Informer(client, PODS, field_selector=f"spec.nodeName={node}")
        self._hardware = hardware = hardware._replace(workloads=self._workload)
        locks = GpuLocks()
        self._observer = Observer(hardware, locks, self._metrics)
        self._silent = SilentChanges(hardware.host, self._observer, locks)
        self._recorder = EventRecorder(client, COMPONENT, node)
        self._informers: list[Informer[Any]] = []
        gpus, vgpus = self._of_node(SRIOVGPUDevice), self._of_node(VGPUDevice)
        self._metrics.desired_states = lambda: {
            one.spec.address: one.spec.vgpu_type_name for one in vgpus.store if one.spec.enabled
        }
        cards, migs = self._of_node(SRIOVNetworkDevice), self._of_node(MigConfiguration)
        identity = Identity(node, gpus=gpus, vgpus=vgpus, migs=migs)
        context = Context(hardware, self._observer, self._recorder, self._metrics, locks, identity)
        self._renumberer = Renumberer(
            node,
            client,
            context,
            {"SRIOVGPUDevice": gpus, "VGPUDevice": vgpus, "MigConfiguration": migs},
        )
        claims = self._informer(PCIDeviceClaim)  # They carry no label, so those of all nodes.
        pcis = self._of_node(PCIDevice)
        if kubelet:
            self._informers.append(self._pods)
        usb, usb_claims = self._of_node(USBDevice), self._informer(USBDeviceClaim)
        caches = Caches(claims, usb_claims, vgpus, pcis, self._pods)
        self._device_plugin = device_plugin = DevicePluginController(
            node, hardware, client, caches, kubelet
        )
        self._metrics.hands_out(device_plugin.counts)
        # Nobody waits for their cache: a cluster may lack this kind, which Harvester does not have.
        self._layouts = Informer(client, served(VGPULayout))
        self._owners = owners = Owners(node, self._layouts)
        switches = GpuController(
            node,
            client,
            gpus,
            context,
            vgpus=vgpus,
            migs=migs,
            claims=claims,
            pcis=pcis,
            owners=owners,
        )
        instances = MigController(
            node, client, migs, context, gpus=gpus, preparing=switches.pending
        )
        carried = VgpuController(
            node,
            client,
            vgpus,
            context,
            gpus=gpus,
            device_plugin=device_plugin,
            owners=owners,
            pending=lambda gpu: switches.pending(gpu) or instances.pending(gpu),
        )
        migs.subscribe(carried.gpu_changed)
        nodes = self._by_name(CoreNode)
        marker = self._publisher(self._device_node(nodes), self._by_name(DeviceNode))
        nodes.subscribe(lambda _before, _after: marker.again())
        self._publishers: list[Publisher[Any]] = [
            marker,
            PciPublisher(node, client, pcis, self._metrics, claims=claims),
            UsbPublisher(node, client, usb, self._metrics, claims=usb_claims),
            NetworkController(node, client, cards, context),
            switches,
            instances,
            carried,
            PciClaimController(
                node, client, claims, context, device_plugin=device_plugin, usb=usb_claims
            ),
            UsbClaimController(
                node, client, usb_claims, context, device_plugin=device_plugin, devices=usb
            ),
        ]
        self._vgpu_claims = VgpuClaims(
            node, client, self._metrics, claims=claims, vgpus=vgpus, devices=pcis
        )
        self._orphans = OrphanKeeper(
            node, context, device_plugin=device_plugin, claims=claims, usb=usb_claims
        )
        unlabelled = self._informer(MigConfiguration, label_selector=UNLABELLED)
        self._mig_labels = MigLabels(node, client, unlabelled, self._metrics)
        self._label = DriverLabel(node, client, nodes, self._metrics)
        self._slices = Slices(node, client, nodes, self._metrics, publish=dra)
        device_plugin.publish(self._slices)
        self._slices.subscribe(device_plugin.poke)
        lower = LowerObjects(node, client, context, gpus=gpus, vgpus=vgpus, migs=migs)
        self._layout = LayoutController(
            node, client, context, lower, layouts=self._layouts, nodes=nodes, claims=claims
        )

    async def run(self) -> None:
        """Keep the node's objects and hardware in step until cancelled.

        Two agents would hand out the same devices, and one would undo what the other does: a second
        one waits until the first has ended.
        """
        with contextlib.ExitStack() as stack:
            await self._be_alone(stack)
            await self._run()

    async def _be_alone(self, stack: contextlib.ExitStack) -> None:
        waiting = False
        while True:
            try:
                stack.enter_context(self._hardware.state.serving(ACTOR))
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
            for informer in self._informers:
                tasks.create_task(informer.run())
            tasks.create_task(self._recorder.run())
            for informer in self._informers:
                await informer.synced.wait()
            tasks.create_task(self._observer.run())
            await self._observer.scanned.wait()
            # Before anything else, so that pods get devices again that were there all the time.
            self._observer.subscribe(self._device_plugin.observed)
            tasks.create_task(self._device_plugin.run())
            tasks.create_task(self._slices.run())
            await self._device_plugin.settle()
            self._observer.subscribe(self._renumberer.observed)
            await self._renumberer.settle()
            tasks.create_task(self._renumberer.run())
            self._observer.subscribe(self._label.observed)
            for publisher in self._publishers:
                self._observer.subscribe(publisher.observed)
                tasks.create_task(publisher.run())
            tasks.create_task(self._label.run())
            tasks.create_task(self._mig_labels.run())
            tasks.create_task(self._silent.run())
            tasks.create_task(self._restore(began))
            for publisher in self._publishers:
                await publisher.published.wait()
            tasks.create_task(self._vgpu_claims.run())
            tasks.create_task(self._orphans.run())
            self._observer.subscribe(self._layout.observed)
            tasks.create_task(self._layouts.run())
            tasks.create_task(self._owners.run())
            tasks.create_task(self._layout.run())
            self.ready.set()
            log.info("the devices of node %s are published", self.node)

    async def _restore(self, began: float) -> None:
        """Tell when everything is again as it was desired before the start."""
        await self._vgpu_claims.made.wait()
        await restored([one for one in self._publishers if isinstance(one, ActingController)])
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
            await recover(self._hardware, actor=ACTOR)
        except StateError as error:
            log.error("interrupted plans cannot be recovered: %s", error)  # noqa: TRY400 - its text says it all
        except BusyError as error:
            log.warning("%s", error.refusal.words)

    def _workload(self, uid: str) -> Workload | None:
        """The pod of the node with this uid."""
        for pod in self._pods.store:
            metadata = pod.metadata
            if metadata.uid == uid:
                return Workload(metadata.namespace, metadata.name, vm_of(metadata))
        return None

    def _of_node(self, cls: type[T]) -> Informer[T]:
        return self._informer(cls, label_selector=f"{keys.LABEL_NODE}={self.node}")

    def _by_name(self, cls: type[Any]) -> Informer[Any]:
        return self._informer(cls, field_selector=f"metadata.name={self.node}")

    def _informer(
        self, cls: type[Any], *, label_selector: str = "", field_selector: str = ""
    ) -> Informer[Any]:
        informer = Informer(
            self._client,
            served(cls),
            label_selector=label_selector,
            field_selector=field_selector,
        )
        self._informers.append(informer)
        return informer

    def _publisher(self, family: Family[Any], informer: Informer[Any]) -> Publisher[Any]:
        return Publisher(family, self.node, self._client, informer, self._metrics)

    def _device_node(self, nodes: Informer[CoreNode]) -> Family[DeviceNode]:
        def wanted(inventory: Inventory, name: str) -> Mapping[str, DeviceNode]:
            found = nodes.store.get(name)
            uid = found.metadata.uid if found is not None else ""
            return node_device.wanted(inventory, name, self._observer.uevents_unavailable, uid)

        return Family(DeviceNode, wanted, lambda _stored, wanted: wanted.status)
