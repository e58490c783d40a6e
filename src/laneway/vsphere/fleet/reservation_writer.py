"""Writing reservations: each write is entered in the book with the server's answer.

A finalizer keeps a reservation when its VSphereVM goes and Kubernetes collects what belonged to it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import datetime
from typing import Any

from laneway.api import Condition, ObjectMeta, OwnerReference, set_condition, timestamp
from laneway.api.patch import merge_patch
from laneway.api.vsphere import (
    VSphereReservation,
    VSphereReservationSpec,
    VSphereReservationStatus,
)
from laneway.kube.capv import VSPHERE_VMS, VSphereVM
from laneway.kube.client import Client
from laneway.kube.clusterapi import LABEL_CLUSTER
from laneway.kube.errors import AlreadyExistsError, ConflictError, NotFoundError
from laneway.kube.resource import key_of
from laneway.vsphere.fleet.device_status import DevicesStatus
from laneway.vsphere.fleet.metrics import FleetMetrics
from laneway.vsphere.fleet.reservation_cache import RESERVATIONS, ReservationCache

FINALIZER = "devices.harvesterhci.io/vsphere-reservation"
READY = "Ready"
OWNER = "VSphereVM"


class ReservationWriter:
    """The one writer of them."""

    def __init__(
        self,
        client: Client,
        book: ReservationCache,
        metrics: FleetMetrics,
        clock: Callable[[], datetime],
    ) -> None:
        self._client = client
        self._known = book
        self._metrics = metrics
        self._clock = clock

    async def write(self, vm: VSphereVM, spec: VSphereReservationSpec) -> None:
        """Have a machine's reservation say this. Raises KubeError."""
        meta = vm.metadata
        found = self._known.get(key_of(vm))
        if found is not None:
            try:
                await self._respecify(found, spec)
            except ConflictError:
                now = await self._client.get(RESERVATIONS, meta.name, meta.namespace)
                self._known.put(now)
                if now.metadata.uid != found.metadata.uid or now.spec != found.spec:
                    raise  # Another manager leads, and has decided otherwise.
                # Its status was written in this moment.
                await self._respecify(now, spec)
            return
        body = _object(vm, spec)
        try:
            written = await self._client.create(RESERVATIONS, body, meta.namespace)
        except AlreadyExistsError:
            # Not ours, as we know ours; it is read the next time.
            self._known.put(await self._client.get(RESERVATIONS, meta.name, meta.namespace))
            raise
        self._metrics.wrote("create")
        self._known.put(written)

    async def _respecify(self, found: VSphereReservation, spec: VSphereReservationSpec) -> None:
        if patch := merge_patch(found.spec, spec):
            await self._patch(found, {"spec": patch})

    async def call(self, found: VSphereReservation, vcenter: str) -> None:
        """Have it name its vCenter as that is called now. Raises KubeError."""
        await self._patch(found, {"spec": {"vCenter": vcenter}})

    async def say(self, found: VSphereReservation, devices: DevicesStatus, ref: str) -> None:
        """Have its status say how it stands; `ref`: the VM, if it is known. Raises KubeError."""
        generation = found.metadata.generation
        condition = Condition(
            type=READY,
            status="True" if devices.ready else "False",
            reason=devices.reason,
            message=devices.message,
            observed_generation=generation,
        )
        now = timestamp(self._clock())
        status = VSphereReservationStatus(
            observed_generation=generation,
            conditions=set_condition(found.status.conditions, condition, now),
            vm=ref or found.status.vm,
            devices=list(devices.devices),
        )
        if patch := merge_patch(found.status, status):
            await self._patch(found, {"status": patch}, "status")

    async def remove(self, found: VSphereReservation) -> None:
        """Take it away for good. Raises KubeError."""
        meta = found.metadata
        with contextlib.suppress(NotFoundError):
            if FINALIZER in meta.finalizers:
                rest = [one for one in meta.finalizers if one != FINALIZER]
                await self._patch(found, {"metadata": {"finalizers": rest}})
            await self._client.delete(RESERVATIONS, meta.name, meta.namespace, uid=meta.uid)
            self._metrics.wrote("delete")
        self._known.removed(found)

    async def _patch(
        self, found: VSphereReservation, patch: dict[str, Any], subresource: str = ""
    ) -> None:
        """Only if it has not changed since."""
        meta = found.metadata
        known = {"resourceVersion": meta.resource_version}
        body = patch | {"metadata": known | patch.get("metadata", {})}
        try:
            written = await self._client.patch(
                RESERVATIONS, meta.name, body, meta.namespace, subresource=subresource
            )
        except NotFoundError:
            self._known.removed(found)
            raise
        self._metrics.wrote("patch")
        self._known.put(written)


def owner_uid(found: VSphereReservation) -> str:
    """Of the VSphereVM; it is the instance UUID of its VM, too."""
    owners = found.metadata.owner_references
    return next((one.uid for one in owners if one.kind == OWNER), "")


def is_owned(found: VSphereReservation, vm: VSphereVM | None) -> bool:
    """Whether a VSphereVM is the one that it was made for."""
    return vm is not None and vm.metadata.uid == owner_uid(found)


def _object(vm: VSphereVM, spec: VSphereReservationSpec) -> VSphereReservation:
    meta = vm.metadata
    owner = OwnerReference(
        api_version=VSPHERE_VMS.api_version, kind=OWNER, name=meta.name, uid=meta.uid
    )
    return VSphereReservation(
        metadata=ObjectMeta(
            name=meta.name,
            namespace=meta.namespace,
            labels={key: value for key, value in meta.labels.items() if key == LABEL_CLUSTER},
            finalizers=[FINALIZER],
            owner_references=[owner],
        ),
        spec=spec,
    )
