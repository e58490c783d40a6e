"""The controllers of one node, family by family: what each is built from."""

from __future__ import annotations

from typing import Any

from laneway.controllers.acting import Context
from laneway.controllers.cards import NetworkController
from laneway.controllers.claims.for_vgpus import VgpuClaims
from laneway.controllers.claims.orphans import OrphanKeeper
from laneway.controllers.claims.pci import PciClaimController
from laneway.controllers.claims.usb import UsbClaimController
from laneway.controllers.device_plugin.controller import DevicePluginController
from laneway.controllers.device_plugin.pci_devices import PciPublisher
from laneway.controllers.devices.usb import UsbPublisher
from laneway.controllers.gpu_workloads import GpuWorkloads
from laneway.controllers.layouts.controller import LayoutController
from laneway.controllers.layouts.lower_objects import LowerObjects
from laneway.controllers.layouts.owners import Owners
from laneway.controllers.measuring.ecc import EccModes
from laneway.controllers.node_publisher import NodePublisher
from laneway.controllers.publisher import Publisher
from laneway.controllers.sharing.gpus import GpuController
from laneway.controllers.sharing.migs import MigController
from laneway.controllers.sharing.renumbering import Renumberer
from laneway.controllers.sharing.vgpus import VgpuController
from laneway.core.renumbering import Kind
from laneway.kube.client import Client
from laneway.kube.informer import Informer
from laneway.kube.resource import KubeObject
from laneway.roles.node_caches import NodeCaches


class Families:
    """Builds the controllers of one node from what they share."""

    def __init__(
        self,
        node: str,
        client: Client,
        caches: NodeCaches,
        context: Context,
        device_plugin: DevicePluginController,
        *,
        ecc: EccModes,
    ) -> None:
        self._ecc = ecc
        self.workloads = GpuWorkloads(
            node, nodes=caches.nodes, gpus=caches.gpus, pcis=caches.pcis, pods=caches.pods
        )
        self._node = node
        self._client = client
        self._caches = caches
        self._context = context
        self._device_plugin = device_plugin

    def publishers(self, owners: Owners) -> list[Publisher[Any]]:
        """Those that show hardware in objects; most of them also act on what objects request."""
        return [*self._observed(), *self._shared_gpus(owners), *self._claims()]

    def _observed(self) -> list[Publisher[Any]]:
        """The node, its PCI and USB devices, and its network cards."""
        node, client, caches = self._node, self._client, self._caches
        metrics = self._context.metrics
        return [
            NodePublisher(
                node,
                client,
                caches.device_nodes,
                metrics,
                nodes=caches.nodes,
                observer=self._context.observer,
                workloads=self.workloads,
                hardware=self._context.hardware,
            ),
            PciPublisher(node, client, caches.pcis, metrics, claims=caches.claims),
            UsbPublisher(node, client, caches.usb, metrics, claims=caches.usb_claims),
            NetworkController(node, client, caches.cards, self._context),
        ]

    def _shared_gpus(self, owners: Owners) -> list[Publisher[Any]]:
        """GPUs that several VMs share: the GPU comes first, then its instances, then vGPUs."""
        node, client, caches, context = self._node, self._client, self._caches, self._context
        gpus = GpuController(
            node,
            client,
            caches.gpus,
            context,
            vgpus=caches.vgpus,
            migs=caches.migs,
            claims=caches.claims,
            pcis=caches.pcis,
            owners=owners,
            workloads=self.workloads,
            ecc=self._ecc,
        )
        migs = MigController(
            node, client, caches.migs, context, gpus=caches.gpus, preparing=gpus.pending
        )
        vgpus = VgpuController(
            node,
            client,
            caches.vgpus,
            context,
            gpus=caches.gpus,
            migs=caches.migs,
            device_plugin=self._device_plugin,
            owners=owners,
            workloads=self.workloads,
            pending=lambda gpu: gpus.pending(gpu) or migs.pending(gpu),
        )
        return [gpus, migs, vgpus]

    def _claims(self) -> list[Publisher[Any]]:
        node, client, caches, context = self._node, self._client, self._caches, self._context
        return [
            PciClaimController(
                node,
                client,
                caches.claims,
                context,
                device_plugin=self._device_plugin,
                usb=caches.usb_claims,
                workloads=self.workloads,
            ),
            UsbClaimController(
                node,
                client,
                caches.usb_claims,
                context,
                device_plugin=self._device_plugin,
                devices=caches.usb,
            ),
        ]

    def vgpu_claims(self) -> VgpuClaims:
        """Claims of Laneway's own, for vGPUs that are PCI functions."""
        return VgpuClaims(
            self._node,
            self._client,
            self._context.metrics,
            claims=self._caches.claims,
            vgpus=self._caches.vgpus,
            devices=self._caches.pcis,
        )

    def orphans(self) -> OrphanKeeper:
        """What releases devices whose claim is gone."""
        return OrphanKeeper(
            self._node,
            self._context,
            device_plugin=self._device_plugin,
            claims=self._caches.claims,
            usb=self._caches.usb_claims,
        )

    def renumberer(self) -> Renumberer:
        """What has desired states follow their cards to other addresses."""
        caches = self._caches
        followed: dict[Kind, Informer[KubeObject]] = {
            "SRIOVGPUDevice": caches.gpus,
            "VGPUDevice": caches.vgpus,
            "MigConfiguration": caches.migs,
        }
        return Renumberer(self._node, self._client, self._context, followed)

    def layouts(self) -> LayoutController:
        """What writes the objects of GPUs for whole layouts."""
        node, client, caches, context = self._node, self._client, self._caches, self._context
        lower = LowerObjects(
            node, client, context, gpus=caches.gpus, vgpus=caches.vgpus, migs=caches.migs
        )
        return LayoutController(
            node,
            client,
            context,
            lower,
            layouts=caches.layouts,
            nodes=caches.nodes,
            claims=caches.claims,
        )
