"""Carries out the desired states of MigConfigurations: the GPU instances of cards in MIG mode.

MIG mode itself belongs to the GPU's own object, and so does the switch of its functions, which
destroys instances; so instances are made only once that object's desired state is met, and vGPUs,
which live in them, only after that. An object exists for every GPU that is in MIG mode, is to be in
it, or has a desired state for instances. It goes with the GPU's own object; one that is lost is
made again, and requests what there is.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from laneway.api import (
    MIG_OUT_OF_SYNC,
    Condition,
    MigConfiguration,
    MigConfigurationStatus,
    SRIOVGPUDevice,
    to_builtins,
)
from laneway.controllers.acting import (
    ActingController,
    Context,
    OperationNames,
    Pending,
    RetryFingerprint,
)
from laneway.controllers.devices import mig
from laneway.controllers.devices.family import Family
from laneway.controllers.devices.outcome import in_words
from laneway.core import names
from laneway.core.decision import Decision
from laneway.core.gpu.modes import Mode
from laneway.core.inventory import Inventory
from laneway.core.mig.desired import DesiredMig, decide, is_complete
from laneway.core.pci import PciAddress
from laneway.core.plan import Satisfied
from laneway.core.refusals import (
    DeviceHeld,
    ExtraInstances,
    NameMismatch,
    UnmanagedInstances,
)
from laneway.core.situation import Situation
from laneway.host.situation import observe
from laneway.kube.client import Client
from laneway.kube.controller import Retry
from laneway.kube.informer import Informer


class MigController(ActingController[MigConfiguration, DesiredMig]):
    """The publisher of MigConfigurations, which also acts on them."""

    def __init__(
        self,
        node: str,
        client: Client,
        informer: Informer[MigConfiguration],
        context: Context,
        *,
        gpus: Informer[SRIOVGPUDevice],
        preparing: Pending,
    ) -> None:
        family = Family(MigConfiguration, self._wanted, mig.status, mig.keep)
        super().__init__(family, node, client, informer, context)
        self._gpus = gpus
        self._preparing = preparing

    async def run(self) -> None:
        self._gpus.follow(self._gpu_changed)
        await super().run()

    def pending(self, address: PciAddress) -> str:
        """What is still to be done about the GPU instances of a GPU, in words; empty when nothing.

        Instances that were not requested are no reason to wait once those are there that
        were.
        """
        stored = self.informer.store.get(names.pci_object_name(self.node, address))
        if stored is None or self.wrong_device(stored):
            return ""
        desired = self.desired(stored, self._shown(stored.metadata.name))
        settled = self.settled(desired)
        if settled is None:
            return "its GPU instances are being changed."
        if isinstance(settled, Satisfied):
            return ""
        if all(isinstance(one, UnmanagedInstances | ExtraInstances) for one in settled):
            return "" if is_complete(desired, self.inventory) else in_words(settled)
        goes = any(isinstance(one, DeviceHeld) for one in settled)
        return in_words(settled) if desired.enabled or goes else ""

    # ------------------------------------------------------------------------ what there is to be

    def _wanted(self, inventory: Inventory, node: str) -> Mapping[str, MigConfiguration]:
        modes = {
            names.pci_object_name(node, gpu): reported for gpu, reported in inventory.modes.items()
        }
        wanted = {}
        for name, shown in mig.shown(inventory, node).items():
            gpu, stored = self._gpus.store.get(name), self.informer.store.get(name)
            chosen = gpu is not None and gpu.spec.mode in (Mode.MIG, Mode.MIG_BACKED)
            if modes[name].mig or chosen or (stored is not None and mig.is_desired_state(stored)):
                wanted[name] = shown
        return wanted

    def _gpu_changed(self, gpu: SRIOVGPUDevice) -> None:
        self.queue.add(gpu.metadata.name)

    async def reconcile(self, name: str) -> Retry | None:
        """Bring one object to what it should be, once there is an owner for a new one."""
        self.wanted = self._wanted(self.inventory, self.node)
        if self.informer.store.get(name) is None and self._gpus.store.get(name) is None:
            return None
        return await super().reconcile(name)

    async def create(self, wanted: MigConfiguration) -> MigConfiguration:
        """Make an object that goes with the GPU's own."""
        gpu = self._gpus.store.get(wanted.metadata.name)
        owners = [mig.owned(gpu)] if gpu is not None else []
        metadata = msgspec.structs.replace(wanted.metadata, owner_references=owners)
        return await super().create(msgspec.structs.replace(wanted, metadata=metadata))

    async def write_labels(
        self, stored: MigConfiguration, wanted: MigConfiguration
    ) -> MigConfiguration:
        """Also the owner: the GPU's object may have been made again."""
        stored = await super().write_labels(stored, wanted)
        gpu = self._gpus.store.get(stored.metadata.name)
        if gpu is None or mig.is_owned(stored, mig.owned(gpu)):
            return stored
        owners = [to_builtins(one) for one in mig.owners(stored, mig.owned(gpu))]
        version = stored.metadata.resource_version
        patch = {"metadata": {"ownerReferences": owners, "resourceVersion": version}}
        patched = await self.client.patch(self.resource, stored.metadata.name, patch)
        self._wrote("patch", patched)
        return patched

    # ------------------------------------------------------------------------------ how it is done

    def wrong_device(self, stored: MigConfiguration) -> NameMismatch | None:
        return mig.wrong_device(stored, self.node)

    def address(self, stored: MigConfiguration) -> str:
        return stored.spec.gpu_address

    def desired(self, stored: MigConfiguration, shown: MigConfiguration) -> DesiredMig:
        return mig.desired(stored, shown)

    def card(self, desired: DesiredMig) -> PciAddress:
        return desired.address

    def retry_fingerprint(self, desired: DesiredMig) -> RetryFingerprint:
        inventory, gpu = self.inventory, desired.address
        vgpus = tuple((one.address, one.configured) for one in inventory.vgpus_of(gpu))
        function = inventory.function(gpu)
        driver = function.driver if function else None
        reported = inventory.modes.get(gpu), inventory.unasked.get(gpu)
        return desired.enabled, desired.requested, driver, reported, vgpus, self._preparing(gpu)

    def decide(self, desired: DesiredMig, situation: Situation) -> Decision:
        return decide(desired, situation, preparing=self._preparing(desired.address))

    async def look(self, desired: DesiredMig) -> Situation:
        return await observe(self.context.hardware, self.node, [desired.address])

    async def plan(self, desired: DesiredMig) -> Decision:
        decision = await super().plan(desired)
        if isinstance(decision, Satisfied):
            # Another caller has been quicker, and the driver reports instances only when asked.
            await self.context.observer.rescan(desired.address)
        return decision

    def operation_names(self, name: str, desired: DesiredMig) -> OperationNames:
        if desired.enabled:
            why = f"MigConfiguration {name} requests GPU instances"
            return OperationNames("configure-mig", "Configured", why)
        return OperationNames("remove-mig", "Removed", f"MigConfiguration {name} is disabled")

    def _shown(self, name: str) -> MigConfiguration:
        """As ever, but a GPU that does not answer keeps what it reported last."""
        there = self.wanted.get(name)
        if there is not None:
            return there
        stored = self.informer.store.get(name)
        unasked = {str(gpu) for gpu in self.inventory.unasked}
        if stored is None or stored.spec.gpu_address not in unasked:
            return self._blank
        last = MigConfigurationStatus(profile_status=stored.status.profile_status)
        return msgspec.structs.replace(self._blank, status=last)

    def _with(self, name: str, condition: Condition) -> MigConfigurationStatus:
        return msgspec.structs.replace(
            self._shown(name).status,
            status=MIG_OUT_OF_SYNC,
            message=condition.message,
            conditions=[condition],
        )
