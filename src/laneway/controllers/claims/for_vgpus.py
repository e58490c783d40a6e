"""Makes the claims through which vGPUs of the vendor's VFIO framework reach VMs.

Such a vGPU is a PCI function to KubeVirt, and Harvester's clients know it by its claim. So once a
vGPU is there as it is desired it gets a claim of its name, owned by the function's PCIDevice and by
the VGPUDevice; it says to leave the driver alone, and under which resource the profile goes. The
claim stays as long as the desired state does, also while a boot has taken the vGPU away. It is
deleted with the desired state, so that the vGPU is not allocated any more; that goes itself when
it has no holder. A claim of that name from another author is taken over.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from laneway.api import OwnerReference, PCIDevice, PCIDeviceClaim, VGPUDevice, to_builtins
from laneway.api.fields import API_VERSION
from laneway.controllers.claims.claim_users import vgpu_of
from laneway.controllers.devices.vgpu import parent_name, wrong_device
from laneway.controllers.metrics import AgentMetrics
from laneway.controllers.written import Written
from laneway.core import keys, names
from laneway.core.raw import Json, JsonObject
from laneway.kube.client import Client
from laneway.kube.controller import Retry, run_workers
from laneway.kube.errors import AlreadyExistsError, ConflictError, NotFoundError
from laneway.kube.informer import Informer
from laneway.kube.queue import WorkQueue
from laneway.kube.resource import KubeObject, served

log = logging.getLogger(__name__)

USER = "admin"
"""As whom Harvester's agent claims vGPUs."""


class VgpuClaims:
    """The claims of one node's vGPUs. Run `run` in a task, with all caches complete."""

    def __init__(
        self,
        node: str,
        client: Client,
        metrics: AgentMetrics,
        *,
        claims: Informer[PCIDeviceClaim],
        vgpus: Informer[VGPUDevice],
        devices: Informer[PCIDevice],
    ) -> None:
        self.node = node
        self.client = client
        self.resource = served(PCIDeviceClaim)
        self.queue: WorkQueue[str] = WorkQueue()
        self.made = asyncio.Event()
        """Set once every vGPU that was there at the start has its claim."""
        self._metrics = metrics
        self._claims = claims
        self._vgpus = vgpus
        self._devices = devices
        self._written = Written()
        self._deleted: dict[str, str] = {}
        """The last version of each claim before its deletion, which the cache may still show."""

    async def run(self) -> None:
        """Keep the claims as they should be until cancelled."""
        for informer in (self._claims, self._vgpus, self._devices):
            informer.subscribe(self._changed)
        for vgpu in self._vgpus.store:
            self.queue.add(vgpu.metadata.name)
        for claim in self._claims.store:
            if claim.spec.node_name == self.node and vgpu_of(claim):
                self.queue.add(claim.metadata.name)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(run_workers(self.queue, self.reconcile))
            await self.queue.join()
            self.made.set()

    def _changed(self, before: KubeObject | None, after: KubeObject | None) -> None:
        if (one := after or before) is None:
            return
        name = one.metadata.name
        if after is None and isinstance(before, PCIDeviceClaim):
            self._written.forget(name)
            self._deleted.pop(name, None)
        if self._vgpus.store.get(name) is not None or isinstance(before, VGPUDevice):
            self.queue.add(name)

    async def reconcile(self, name: str) -> Retry | None:
        """Make, correct or delete the claim of one vGPU."""
        claim, vgpu = self._claims.store.get(name), self._vgpus.store.get(name)
        if lag := self._written.lag(name, claim.metadata if claim is not None else None):
            return Retry(lag)
        if vgpu is None or not self._is_there(vgpu):
            if (
                claim is not None
                and self._is_ours(claim, vgpu)
                and not _desired_states(vgpu, claim)
            ):
                await self._delete(claim)
            return None
        device = self._devices.store.get(name)
        if device is None:
            return None  # Its coming is announced.
        if claim is None:
            await self._create(vgpu, device)
        elif not claim.metadata.deletion_timestamp:
            await self._correct(claim, vgpu, device)
        return None  # One that is being deleted is made again when it is gone.

    def _is_there(self, vgpu: VGPUDevice) -> bool:
        """Whether a vGPU is there as it is desired, and a PCI function to VMs."""
        spec, status = vgpu.spec, vgpu.status
        profile = status.configure_vgpu_type_name
        return (
            wrong_device(vgpu, self.node) is None
            and not vgpu.metadata.deletion_timestamp
            and spec.enabled
            and status.framework == "vendor-vfio"
            and bool(profile)
            and spec.vgpu_type_name in ("", profile)
        )

    def _is_ours(self, claim: PCIDeviceClaim, vgpu: VGPUDevice | None) -> bool:
        """Whether a claim was made for a vGPU, and that of this node's function."""
        return (
            claim.spec.node_name == self.node
            and not claim.metadata.deletion_timestamp
            and bool(vgpu_of(claim))
            and (vgpu is None or wrong_device(vgpu, self.node) is None)
        )

    async def _create(self, vgpu: VGPUDevice, device: PCIDevice) -> None:
        body = {
            "apiVersion": API_VERSION,
            "kind": self.resource.kind,
            "metadata": {
                "name": vgpu.metadata.name,
                "labels": self._labels(vgpu),
                "annotations": _annotations(vgpu),
                "ownerReferences": _owners(vgpu, device),
                # The claim's controller would add it at once, by another request.
                "finalizers": [keys.FINALIZER_PCI_CLAIM],
            },
            "spec": {
                "address": vgpu.spec.address,
                "nodeName": self.node,
                "userName": USER,
            },
        }
        try:
            created = await self.client.create(self.resource, body)
        except AlreadyExistsError:
            return  # The cache will show it.
        self._wrote("create", created)
        log.info("claimed %s for its vGPU", vgpu.metadata.name)

    async def _correct(self, claim: PCIDeviceClaim, vgpu: VGPUDevice, device: PCIDevice) -> None:
        """Have a claim say what it should; what else it says stays."""
        meta = claim.metadata
        patch: dict[str, Json] = {}
        if labels := _missing(self._labels(vgpu), meta.labels):
            patch["labels"] = labels
        if annotations := _missing(_annotations(vgpu), meta.annotations):
            patch["annotations"] = annotations
        owners = _owners(vgpu, device)
        kept = [to_builtins(one) for one in meta.owner_references if one.kind not in _KINDS]
        if [to_builtins(one) for one in meta.owner_references] != [*owners, *kept]:
            patch["ownerReferences"] = [*owners, *kept]
        if not patch:
            return
        # Lists are written as a whole, so they must not have changed since.
        patch["resourceVersion"] = meta.resource_version
        try:
            patched = await self.client.patch(self.resource, meta.name, {"metadata": patch})
        except NotFoundError:
            return
        self._wrote("patch", patched)

    async def _delete(self, claim: PCIDeviceClaim) -> None:
        meta = claim.metadata
        version = meta.resource_version
        if self._deleted.get(meta.name) == version:
            return
        try:
            await self.client.delete(
                self.resource, meta.name, uid=meta.uid, resource_version=version
            )
        except (NotFoundError, ConflictError):
            return  # The cache will show it.
        self._deleted[meta.name] = version
        self._metrics.wrote("delete", self.resource.kind)
        log.info("deleted the claim of %s: its vGPU is not requested any more", meta.name)

    def _labels(self, vgpu: VGPUDevice) -> dict[str, str]:
        parent = parent_name(vgpu, self.node)
        return {keys.LABEL_PARENT_GPU: parent} if parent else {}

    def _wrote(self, verb: str, written: PCIDeviceClaim) -> None:
        self._written.note(written.metadata)
        self._metrics.wrote(verb, self.resource.kind)


_KINDS = ("PCIDevice", "VGPUDevice")


def _desired_states(vgpu: VGPUDevice | None, claim: PCIDeviceClaim) -> bool:
    """Whether what a claim offers is desired, though it may not be there now."""
    if vgpu is None or vgpu.metadata.deletion_timestamp or not vgpu.spec.enabled:
        return False
    profile = vgpu.spec.vgpu_type_name
    offered = claim.metadata.annotations.get(keys.ANNOTATION_RESOURCE_NAME, "")
    return not profile or names.vgpu_resource_name(profile) == offered


def _annotations(vgpu: VGPUDevice) -> dict[str, str]:
    return {
        keys.ANNOTATION_SKIP_BINDING: "true",
        keys.ANNOTATION_RESOURCE_NAME: names.vgpu_resource_name(
            vgpu.status.configure_vgpu_type_name
        ),
    }


def _owners(vgpu: VGPUDevice, device: PCIDevice) -> list[JsonObject]:
    """First the function, as clients expect; the vGPU is what the claim is there for."""
    both = (
        OwnerReference(
            api_version=API_VERSION,
            kind="PCIDevice",
            name=device.metadata.name,
            uid=device.metadata.uid,
        ),
        OwnerReference(
            api_version=API_VERSION,
            kind="VGPUDevice",
            name=vgpu.metadata.name,
            uid=vgpu.metadata.uid,
            controller=True,
        ),
    )
    return [to_builtins(one) for one in both]


def _missing(wanted: Mapping[str, str], stored: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in wanted.items() if stored.get(key) != value}
