"""Carries out the specs of SRIOVGPUDevices: the virtual functions and the mode of each GPU.

A GPU keeps its virtual functions and its mode as long as a vGPU is desired on it, whether or not
there is room for it now. A MigConfiguration that requests GPU instances speaks for the mode where
the GPU's own object leaves it open. A GPU that is claimed as a whole PCI device is not shared:
the first use counts, and the hardware shows which that was.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from msgspec.structs import replace

from laneway.api import (
    MigConfiguration,
    PCIDevice,
    PCIDeviceClaim,
    SRIOVGPUDevice,
    SRIOVGPUDeviceStatus,
    Status,
    VGPUDevice,
    find_condition,
)
from laneway.controllers.acting import ACTOR, Context, OperationNames, RetryFingerprint
from laneway.controllers.cards import CardController
from laneway.controllers.devices import gpu, mig
from laneway.controllers.devices.family import Family
from laneway.controllers.devices.vgpu import parent_name
from laneway.controllers.gpu_workloads import GpuWorkloads
from laneway.controllers.layouts.owners import Owners
from laneway.controllers.measuring.ecc import EccModes
from laneway.core import keys, names
from laneway.core.decision import Decision, conclude, refusals_of
from laneway.core.gpu.desired import DesiredMode, decide, pending
from laneway.core.gpu.modes import Mode
from laneway.core.inventory import Inventory
from laneway.core.passthrough.usability import ReasonKind
from laneway.core.pci import PciAddress
from laneway.core.plan import Plan, Satisfied
from laneway.core.refusals import GpuClaimed, NoGpuInstances, NoSriov, Refusal, VgpusEnabled
from laneway.core.situation import Situation
from laneway.core.sriov.desired import incomplete
from laneway.core.sriov.vfs import vf_count
from laneway.core.vgpu.offer import lacking
from laneway.host.plans.files import StateError
from laneway.host.plans.state import BusyError
from laneway.kube.client import Client
from laneway.kube.controller import Retry
from laneway.kube.informer import Informer

log = logging.getLogger(__name__)


class GpuController(CardController[SRIOVGPUDevice, DesiredMode]):
    """The publisher of SRIOVGPUDevices, which also acts on them."""

    def __init__(
        self,
        node: str,
        client: Client,
        informer: Informer[SRIOVGPUDevice],
        context: Context,
        *,
        vgpus: Informer[VGPUDevice],
        migs: Informer[MigConfiguration],
        claims: Informer[PCIDeviceClaim],
        pcis: Informer[PCIDevice],
        owners: Owners,
        workloads: GpuWorkloads,
        ecc: EccModes,
    ) -> None:
        family = Family(SRIOVGPUDevice, self._wanted, self._status, self._keep)
        super().__init__(family, node, client, informer, context)
        self._vgpus = vgpus
        self._migs = migs
        self._claims = claims
        self._pcis = pcis
        self._owners = owners
        self._workloads = workloads
        self._ecc = ecc
        self._facts: gpu.Facts | None = None
        """What `wanted` was made from."""
        self._settled: set[PciAddress] = set()
        """GPUs that have been as desired since the boot."""

    async def run(self) -> None:
        self._vgpus.subscribe(self._vgpu_changed)
        self._migs.subscribe(self._mig_changed)
        self._claims.subscribe(self._claim_changed)
        self._pcis.subscribe(self._pci_changed)
        self._owners.subscribe(self._owner_changed)
        self._workloads.subscribe(self.ask_again)
        self._ecc.subscribe(self._ecc_changed)
        await super().run()

    def _wanted(self, inventory: Inventory, node: str) -> Mapping[str, SRIOVGPUDevice]:
        before, self._facts = self._facts, gpu.facts(inventory)
        return self.wanted if self._facts == before else gpu.wanted(inventory, node)

    def pending(self, address: PciAddress) -> str:
        """What is still to be done for a GPU's own spec, in words; empty when nothing is."""
        name = self._name(address)
        stored = self.informer.store.get(name)
        if stored is None or name not in self.wanted or self.wrong_device(stored):
            return ""
        return pending(self.desired(stored, self.wanted[name]), self.inventory)

    def _keep(self, stored: SRIOVGPUDevice, inventory: Inventory) -> bool:
        return gpu.keep(stored, inventory) or self.context.identity.awaits(stored)

    def _status(self, stored: SRIOVGPUDevice, shown: SRIOVGPUDevice) -> SRIOVGPUDeviceStatus:
        name = stored.metadata.name
        vgpus = {
            one.metadata.name: one
            for one in self._vgpus.store
            if parent_name(one, self.node) == name
        }
        answered = {key for key, one in vgpus.items() if one.status.observed_generation}
        card = self._pcis.store.get(name)
        claimable = find_condition(card.status.conditions, "Claimable") if card else None
        # A VGPUDevice that requests a vGPU outlives its function.
        left = (
            any(not one.spec.enabled for one in vgpus.values())
            or any(_parent(one) == name for one in self._pcis.store)
            or (claimable is not None and claimable.reason == ReasonKind.VFS_ENABLED)
        )
        complete = answered.issuperset(shown.status.vgpu_devices)
        return gpu.status(stored, shown, complete=complete, left=left)

    async def write_status(
        self, stored: SRIOVGPUDevice, status: Status, *, unchanged: bool = False
    ) -> SRIOVGPUDevice:
        """Send what is different, for which card the spec is, who configures its vGPUs, and ECC."""
        if isinstance(status, SRIOVGPUDeviceStatus):
            name, single = stored.metadata.name, bool(self._enabled(stored.metadata.name))
            owner = self._owners.words(name, single=single, stored=stored.status.owner)
            card = self.context.identity.card(stored)
            ecc = self._ecc_mode(stored, card)
            status = replace(status, gpu_uuid=card, owner=owner, ecc_mode=ecc)
        return await super().write_status(stored, status, unchanged=unchanged)

    # ------------------------------------------------------------------------- what is requested

    async def reconcile(self, name: str) -> Retry | None:
        """A GPU that is claimed as a whole is not offered, unless it was before."""
        wanted = self.wanted.get(name)
        if (
            wanted is not None
            and self.informer.store.get(name) is None
            and self._claim(PciAddress.parse(wanted.spec.address))
        ):
            return None
        return await super().reconcile(name)

    async def report(self, stored: SRIOVGPUDevice) -> Retry | None:
        if stored.metadata.name not in self.wanted and gpu.without_sriov(stored, self.inventory):
            await self._record_result(stored, (NoSriov(stored.spec.address),))
            return None
        retry = await super().report(stored)
        name = stored.metadata.name
        if name in self.wanted and not self.wrong_device(stored):
            desired = self.desired(stored, self.wanted[name])
            if isinstance(decide(desired, self.glance(desired)), Satisfied):
                self._remember(desired.address)
        return retry

    def desired(self, stored: SRIOVGPUDevice, shown: SRIOVGPUDevice) -> DesiredMode:
        configuration = self._migs.store.get(stored.metadata.name)
        modes = self.inventory.modes.get(PciAddress.parse(shown.spec.address))
        # A request for GPU instances of a card without MIG is answered on that object.
        able = modes is None or modes.mig is not None
        desired = configuration is not None and _desired_states(configuration, shown.spec.address)
        mig_desired = able and desired
        as_booted = self._is_as_booted(PciAddress.parse(shown.spec.address))
        return gpu.desired(stored, shown, mig_desired=mig_desired, as_booted=as_booted)

    def _is_as_booted(self, address: PciAddress) -> bool:
        if address in self._settled:
            return False
        try:
            return self.context.hardware.state.is_as_booted(address)
        except StateError:
            return False  # Whether the node was booted is not known; plans say why.

    def _remember(self, address: PciAddress) -> None:
        """Remember that a GPU is as it was desired, in this boot."""
        if address not in self._settled:
            state = self.context.hardware.state
            try:
                with state.lock(ACTOR):
                    state.settle(address)
            except (BusyError, StateError, OSError) as error:
                log.debug("%s: cannot store yet that it is settled: %s", address, error)
                return
            self._settled.add(address)

    def retry_fingerprint(self, desired: DesiredMode) -> RetryFingerprint:
        return *super().retry_fingerprint(desired), self._enabled(self._name(desired.address))

    # ----------------------------------------------------------------------------- what is done

    def decide(self, desired: DesiredMode, situation: Situation) -> Decision:
        claimed = self._claim(desired.address)
        if claimed is not None and (desired.enabled or desired.mode != Mode.PASSTHROUGH):
            return (claimed,)
        decision = decide(desired, situation)
        if desired.enabled and isinstance(decision, Plan):
            kept = self._workloads.refusal([desired.address], situation.inventory)
            if kept is not None:
                return (kept,)
        if situation.at_a_glance and isinstance(decision, Satisfied):
            wrong = incomplete(desired.address, self.inventory) or self._lacking(desired)
            return (wrong,) if wrong else decision
        if situation.at_a_glance or isinstance(decision, Satisfied):
            return decision
        # Without functions there is nothing that vGPUs could lose, and what was lost comes back.
        name = self._name(desired.address)
        enabled = self._enabled(name) if desired.explicit and self._shared(desired) else ()
        if not enabled:
            return decision
        # What the functions of these carry is not read again; who uses them is.
        decision = decide(desired, self._without(enabled, situation))
        against = (VgpusEnabled(str(desired.address), enabled), *refusals_of(decision))
        return conclude(against, ())

    def operation_names(self, name: str, desired: DesiredMode) -> OperationNames:
        if desired.enabled == self._shared(desired):
            wanted = desired.mode or "that its MigConfiguration needs"
            return OperationNames(
                "set-gpu-mode", "ModeChanged", f"SRIOVGPUDevice {name} requests mode {wanted}"
            )
        if desired.enabled:
            return OperationNames("enable-gpu", "Enabled", f"SRIOVGPUDevice {name} is enabled")
        return OperationNames("disable-gpu", "Disabled", f"SRIOVGPUDevice {name} is disabled")

    # -------------------------------------------------------------------------- what is known

    def _ecc_mode(self, stored: SRIOVGPUDevice, card: str) -> str:
        """As the driver told it last, also to an earlier agent, unless that was of another card."""
        try:
            told = self._ecc.of(PciAddress.parse(stored.spec.address))
        except ValueError:
            return ""
        return told or (stored.status.ecc_mode if stored.status.gpu_uuid == card else "")

    def _name(self, address: PciAddress) -> str:
        return names.pci_object_name(self.node, address)

    def _shared(self, desired: DesiredMode) -> bool:
        """Whether the GPU has virtual functions."""
        function = self.inventory.function(desired.address)
        return function is not None and bool(vf_count(function))

    def _without(self, desired: Collection[str], situation: Situation) -> Situation:
        """The situation without the vGPUs on the functions of these VGPUDevices."""
        vgpus = tuple(
            replace(one, configured=None) if self._name(one.address) in desired else one
            for one in situation.inventory.vgpus
        )
        return replace(situation, inventory=replace(situation.inventory, vgpus=vgpus))

    def _lacking(self, desired: DesiredMode) -> Refusal | None:
        """Why the GPU has nothing to offer although it is as desired."""
        function, inventory = self.inventory.function(desired.address), self.inventory
        if function is None:
            return None
        found = lacking(
            function,
            inventory.vgpus_of(desired.address),
            inventory.modes.get(desired.address),
            inventory.nvidia_driver,
        )
        # Its MigConfiguration tells what it makes, and what it cannot.
        return None if isinstance(found, NoGpuInstances) and desired.mig_desired else found

    def _claim(self, address: PciAddress) -> GpuClaimed | None:
        """Who has claimed a GPU that is not shared."""
        function = self.inventory.function(address)
        if function is None:
            return None
        return gpu.claimed_whole(self._claims.store, self.node, function)

    def _enabled(self, name: str) -> tuple[str, ...]:
        """The VGPUDevices of a GPU on which a vGPU is desired."""
        stored = (one for one in self._vgpus.store if one.spec.enabled)
        return tuple(
            sorted(one.metadata.name for one in stored if parent_name(one, self.node) == name)
        )

    # -------------------------------------------------------------------------- what others change

    def _vgpu_changed(self, before: VGPUDevice | None, after: VGPUDevice | None) -> None:
        if (before is not None and before.spec.enabled) != (
            after is not None and after.spec.enabled
        ):
            self.ask_again()
        if _counts(before) != _counts(after):
            parents = (parent_name(one, self.node) for one in (before, after) if one is not None)
            for name in self.wanted.keys() & set(parents):
                self.queue.add(name)

    def _pci_changed(self, before: PCIDevice | None, after: PCIDevice | None) -> None:
        for one in (before, after):
            if one is not None and (name := _parent(one) or one.metadata.name) in self.wanted:
                stored = self.informer.store.get(name)
                if stored is not None and not stored.spec.enabled:
                    self.queue.add(name)

    def _owner_changed(self, gpu_name: str) -> None:
        for name in self.wanted:
            if gpu_name in ("", name):
                self.queue.add(name)

    def _ecc_changed(self, address: PciAddress) -> None:
        if (name := self._name(address)) in self.wanted:
            self.queue.add(name)

    def _mig_changed(self, before: MigConfiguration | None, after: MigConfiguration | None) -> None:
        for one in (before, after):
            if one is not None:
                self.queue.add(one.metadata.name)

    def _claim_changed(self, before: PCIDeviceClaim | None, after: PCIDeviceClaim | None) -> None:
        claimed = {
            one.spec.address
            for one in (before, after)
            if one is not None and one.spec.node_name == self.node
        }
        for name, wanted in self.wanted.items():
            if wanted.spec.address in claimed:
                self.queue.add(name)


def _parent(function: PCIDevice) -> str:
    """The GPU's object, of a virtual function."""
    return function.metadata.labels.get(keys.LABEL_PARENT_GPU, "")


def _counts(vgpu: VGPUDevice | None) -> tuple[bool, bool] | None:
    """What its GPU's object shows of a VGPUDevice."""
    return (vgpu.spec.enabled, vgpu.status.observed_generation > 0) if vgpu else None


def _desired_states(configuration: MigConfiguration, address: str) -> bool:
    """Whether a MigConfiguration requests GPU instances on this GPU."""
    return mig.asks(configuration) and configuration.spec.gpu_address == address
