"""Carries out PCIDeviceClaims: whole IOMMU groups go to vfio-pci, and back with the last claim."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing

import msgspec
from msgspec.structs import replace

from laneway.api import (
    Condition,
    PCIDeviceClaim,
    PCIDeviceClaimStatus,
    USBDeviceClaim,
    find_condition,
)
from laneway.controllers.acting import Context, OperationNames, RetryFingerprint
from laneway.controllers.claims.claim_users import vgpu_of
from laneway.controllers.claims.conditions import NOWHERE, bound_condition, conditions, is_passed
from laneway.controllers.claims.controller import ClaimController
from laneway.controllers.device_plugin.controller import DevicePluginController
from laneway.controllers.device_plugin.status import NOT_READY, DeviceStatus
from laneway.controllers.devices.family import read_failed
from laneway.controllers.devices.usb import seats
from laneway.controllers.gpu_workloads import GpuWorkloads
from laneway.core import keys, names
from laneway.core.claims.pci import (
    DesiredClaim,
    DeviceIdentity,
    decide,
    group_of,
    identity,
    misplaced,
    other_claims_in_group,
    places,
)
from laneway.core.decision import Decision
from laneway.core.passthrough.usability import VFIO_DRIVER
from laneway.core.pci import PciAddress, PciFunction
from laneway.core.plan import Plan, Satisfied
from laneway.core.refusals import DeviceNeeded, Refusal, UsbDevicesClaimed, reason_of
from laneway.core.situation import Situation
from laneway.host.plans.files import StateError
from laneway.host.situation import observe
from laneway.kube.client import Client
from laneway.kube.controller import Retry
from laneway.kube.informer import Informer
from laneway.kube.narrowed import list_narrowed

_ENOUGH = 20
"""Of claims, to find one that needs the same as another: a cluster may have thousands."""


class PciClaimController(ClaimController[PCIDeviceClaim, DesiredClaim]):
    """Carries out the claims of one node's PCI devices. The cache may have others' as well."""

    claim = PCIDeviceClaim
    finalizer = keys.FINALIZER_PCI_CLAIM
    device_kind = "PCIDevice"

    def __init__(
        self,
        node: str,
        client: Client,
        informer: Informer[PCIDeviceClaim],
        context: Context,
        *,
        device_plugin: DevicePluginController,
        usb: Informer[USBDeviceClaim],
        workloads: GpuWorkloads,
    ) -> None:
        super().__init__(node, client, informer, context, device_plugin=device_plugin)
        self._usb = usb
        self._workloads = workloads

    async def run(self) -> None:
        self._usb.subscribe(self._usb_changed)
        self._workloads.subscribe(self.ask_again)
        await super().run()

    def concerns(self, stored: PCIDeviceClaim) -> bool:
        return stored.spec.node_name == self.node

    # ------------------------------------------------------------------------------------- the
    # desired state

    def wrong_device(self, stored: PCIDeviceClaim) -> Refusal | None:
        name, spec = stored.metadata.name, stored.spec
        wrong = misplaced(name, spec.address, spec.node_name, ())
        if wrong is None:
            return None
        others = [(one.metadata.name, one.spec.address) for one in self._of_node()]
        return misplaced(name, spec.address, spec.node_name, others)

    def unreadable(self, stored: PCIDeviceClaim) -> str:
        return read_failed(self.inventory, PciAddress.parse(stored.spec.address))

    def is_gone(self, stored: PCIDeviceClaim) -> bool:
        return self.inventory.function(PciAddress.parse(stored.spec.address)) is None

    def desired(self, stored: PCIDeviceClaim, _shown: PCIDeviceClaim) -> DesiredClaim:
        address = PciAddress.parse(stored.spec.address)
        known = stored.status
        claimed = stored.metadata.deletion_timestamp is None
        other_claims: tuple[str, ...] = ()
        if not claimed:
            active = (
                (one.metadata.name, PciAddress.parse(one.spec.address))
                for one in self._of_node()
                if one.metadata.deletion_timestamp is None and self.wrong_device(one) is None
            )
            other_claims = other_claims_in_group(
                stored.metadata.name, address, self.inventory, active, known.iommu_group
            )
        return DesiredClaim(
            address=address,
            claimed=claimed,
            binds=keys.ANNOTATION_SKIP_BINDING not in stored.metadata.annotations,
            identity=DeviceIdentity(
                vendor=known.vendor_id, device=known.device_id, card=known.gpu_uuid
            ),
            group=known.iommu_group,
            refused=_refused_as_needed(stored),
            # The name is written when the device is first on vfio-pci, and kept.
            was_bound=bool(known.resource_name),
            vgpu=vgpu_of(stored),
            other_claims=other_claims,
        )

    def card(self, desired: DesiredClaim) -> PciAddress:
        return self._card_of(desired.address)

    def cards(self, desired: DesiredClaim) -> tuple[PciAddress, ...]:
        return tuple(
            sorted({self._card_of(one) for one in (desired.address, *self._places(desired))})
        )

    def retry_fingerprint(self, desired: DesiredClaim) -> RetryFingerprint:
        there = tuple(self.inventory.function(one) for one in self._places(desired))
        needed = tuple(self.inventory.critical.get(one, ()) for one in self._places(desired))
        device_status = self.device_plugin.device_status(
            self.device_kind, self._name(desired.address)
        )
        # What the claim has learnt of its device by the attempt changes nothing about it.
        asked = replace(desired, identity=DeviceIdentity(), group="")
        return asked, there, needed, device_status.owner

    def decide(self, desired: DesiredClaim, situation: Situation) -> Decision:
        decision = decide(desired, situation)
        if desired.claimed and isinstance(decision, Plan):
            if kept := self._workloads.refusal(self._places(desired), situation.inventory):
                return (kept,)
            if situation.at_a_glance:
                return self._on_controller(desired) or decision
        return decision

    def glance(self, desired: DesiredClaim) -> Situation:
        seen = super().glance(desired)
        if desired.claimed:
            return seen
        # What a claim that ends leaves behind shows in what the node remembers of it. A claim that
        # lasts does not request that: no event says that a quarantine has been lifted.
        try:
            quarantined = self.context.hardware.state.quarantined
        except StateError:
            quarantined = {}
        return replace(seen, originals=dict(self._originals()), quarantined=dict(quarantined))

    def _on_controller(self, desired: DesiredClaim) -> tuple[UsbDevicesClaimed] | None:
        """That a desired state would take USB devices which are claimed by themselves."""
        around = self._places(desired)
        seated = seats(self.inventory, self.node, self._usb.store)
        claimed = sorted(
            name
            for name, device in seated.devices.items()
            if name in seated.claimed and device.controller in around
        )
        return (UsbDevicesClaimed(str(desired.address), tuple(claimed)),) if claimed else None

    def _usb_changed(self, before: USBDeviceClaim | None, after: USBDeviceClaim | None) -> None:
        if before is None or after is None:
            self.ask_again()

    async def look(self, desired: DesiredClaim) -> Situation:
        around = {desired.address, *self._places(desired)}
        return await observe(self.context.hardware, self.node, sorted(around))

    async def plan(self, desired: DesiredClaim) -> Decision:
        decision = await super().plan(desired)
        if _needed(decision):
            # The node has begun to use the device, which makes no event: all are to see it.
            await self.context.observer.rescan()
        return decision

    async def _stand(self, stored: PCIDeviceClaim) -> Retry | None:
        if not _refused_as_needed(stored) and self._is_needed(stored):
            # No event tells of the end of that use either, so it may be over by now.
            await self.context.observer.rescan()
        retry = await super()._stand(stored)
        if not self._is_needed(stored):
            return retry
        self.context.observer.want()
        return Retry(self.context.timing.retry)

    def _is_needed(self, stored: PCIDeviceClaim) -> bool:
        return _needed(self.settled(self.desired(stored, stored)))

    def operation_names(self, name: str, desired: DesiredClaim) -> OperationNames:
        if desired.claimed:
            return OperationNames(
                "bind-device", "Bound", f"PCIDeviceClaim {name} claims {desired.address}"
            )
        return OperationNames("release-device", "Released", f"PCIDeviceClaim {name} is deleted")

    def shares(self, desired: DesiredClaim) -> tuple[str, ...]:
        if desired.other_claims or not desired.binds:
            return ()
        return tuple(map(self._name, self._places(desired)))

    async def needed_by_others(self, resource: str, stored: PCIDeviceClaim) -> bool:
        # Those of other nodes count as well, which the cache need not have.
        named = f"status.resourceName={resource}"
        chosen = list_narrowed(self.client, self.resource, named, limit=_ENOUGH)
        async with aclosing(chosen) as pages:
            async for page in pages:
                if any(self._is_needed_for(raw, resource, stored) for raw in page.items):
                    return True
        return False

    def _is_needed_for(self, raw: msgspec.Raw, resource: str, stored: PCIDeviceClaim) -> bool:
        try:
            one = self.resource.decode(raw)
        except (msgspec.DecodeError, ValueError):
            return False  # What cannot be read is permitted nothing, either.
        return (
            one.status.resource_name == resource
            and one.metadata.name != stored.metadata.name
            and one.metadata.deletion_timestamp is None
        )

    def taken(self, desired: DesiredClaim) -> tuple[str, ...]:
        return tuple(sorted({str(one) for one in (desired.address, *self._places(desired))}))

    def device_status(self, stored: PCIDeviceClaim) -> DeviceStatus:
        vgpu = self.inventory.vgpu(PciAddress.parse(stored.spec.address))
        if vgpu is not None and vgpu.framework == "mdev":
            return NOT_READY  # Of this name is the mediated device, which no claim is about.
        return super().device_status(stored)

    def forget(self, desired: DesiredClaim) -> None:
        if self.inventory.function(desired.address) is None:
            self.context.hardware.state.forget(desired.address)

    # -------------------------------------------------------------------------------------- answers

    def status(self, stored: PCIDeviceClaim, answer: Condition | None) -> PCIDeviceClaimStatus:
        if self.wrong_device(stored):
            bound = bound_condition(answer, holds=False, words="")
            return PCIDeviceClaimStatus(conditions=conditions(bound, NOWHERE, answer))
        desired = replace(self.desired(stored, stored), claimed=True)
        function = self.inventory.function(desired.address)
        holds = isinstance(self.settled(desired), Satisfied)
        device_status = self.device_status(stored)
        bound = bound_condition(answer, holds=holds, words=_words(function, desired))
        found = identity(desired.address, self.inventory)
        return PCIDeviceClaimStatus(
            kernel_driver_to_unbind=self._original(function),
            passthrough_enabled=is_passed(bound, device_status),
            resource_name=device_status.resource,
            vendor_id=found.vendor,
            device_id=found.device,
            gpu_uuid=found.card,
            iommu_group=_group(function),
            allocation=device_status.owner,
            conditions=conditions(bound, device_status, answer),
        )

    def remembering(
        self, stored: PCIDeviceClaim, status: PCIDeviceClaimStatus
    ) -> PCIDeviceClaimStatus:
        known = stored.status
        before = known.kernel_driver_to_unbind
        return replace(
            status,
            kernel_driver_to_unbind=status.kernel_driver_to_unbind
            or ("" if before == VFIO_DRIVER else before),
            # A boot must not end a stopped VM's reservation.
            resource_name=status.resource_name or known.resource_name,
            vendor_id=known.vendor_id or status.vendor_id,
            device_id=known.device_id or status.device_id,
            gpu_uuid=known.gpu_uuid or status.gpu_uuid,
            iommu_group=status.iommu_group or known.iommu_group,
        )

    # ------------------------------------------------------------------------------------- look-ups

    def _of_node(self) -> list[PCIDeviceClaim]:
        return [one for one in self.informer.store if self.concerns(one)]

    def _name(self, address: PciAddress) -> str:
        return names.pci_object_name(self.node, address)

    def _places(self, desired: DesiredClaim) -> tuple[PciAddress, ...]:
        return places(desired, self.inventory, self._originals())

    def _card_of(self, address: PciAddress) -> PciAddress:
        function = self.inventory.function(address)
        return address if function is None else function.physfn or address

    def _originals(self) -> Mapping[PciAddress, str]:
        try:
            return self.context.hardware.state.originals
        except StateError:
            return {}  # Every plan says why.

    def _original(self, function: PciFunction | None) -> str:
        """The driver that a device has when nothing takes it."""
        if function is None:
            return ""
        known = self._originals().get(function.address, "")
        return known or ("" if function.driver == VFIO_DRIVER else function.driver)


def _refused_as_needed(stored: PCIDeviceClaim) -> bool:
    """Whether this very claim has been refused because the node uses the device."""
    said = find_condition(stored.status.conditions, "Bound")
    return (
        said is not None
        and said.reason == reason_of(DeviceNeeded)
        and said.observed_generation == stored.metadata.generation
    )


def _needed(decision: Decision | None) -> bool:
    """Whether a claim is refused because the node uses the device now."""
    return isinstance(decision, tuple) and any(
        isinstance(one, DeviceNeeded) and one.reasons for one in decision
    )


def _group(function: PciFunction | None) -> str:
    return "" if function is None else group_of(function)


def _words(function: PciFunction | None, desired: DesiredClaim) -> str:
    """What it means that the claim is carried out as far as hardware goes."""
    if function is None or not desired.binds:
        return "VMs can use the device as it is; its driver was left alone."
    return f"{VFIO_DRIVER} is bound to the device, with its IOMMU group {_group(function)}."
