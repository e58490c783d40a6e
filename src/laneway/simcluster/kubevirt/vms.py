"""VirtualMachines: an instance for each that is to run, none for the others, and what to show.

An instance that ended is deleted and made again where the desired state says so; one that failed
before it ran waits longer every time. One that the API server refuses stands in the condition
`Failure`, and is tried again with the pauses of client-go's queues.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from laneway.api import Condition, set_condition, timestamp
from laneway.core.raw import Json, JsonObject
from laneway.kube.client import Client
from laneway.kube.controller import Retry
from laneway.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
)
from laneway.kube.events import EventRecorder
from laneway.kube.informer import Informer
from laneway.kube.queue import WorkQueue
from laneway.kube.resource import Key, key_of
from laneway.simcluster.kubevirt.objects import (
    FINALIZER_INSTANCE,
    FINALIZER_VM,
    INSTANCES,
    VMS,
    Instance,
    Vm,
    VmStatus,
    owned_by,
    owner,
)
from laneway.simcluster.kubevirt.strategy import Action, action, left, printable, strategy_of

_FIRST_WAIT, _LONGEST_WAIT = 1.0, 300.0
_NOT_READY = Condition(
    type="Ready", status="False", reason="VMINotExists", message="VMI does not exist"
)


class _Refused(NamedTuple):
    """An instance that the API server does not take."""

    why: str
    generation: int
    """Of the VM; another one is tried at once."""
    pause: float
    until: float


class VmController:
    """Reconciles VirtualMachines; its informers are run by who owns it."""

    def __init__(
        self,
        client: Client,
        recorder: EventRecorder,
        vms: Informer[Vm],
        instances: Informer[Instance],
    ) -> None:
        self.queue: WorkQueue[Key] = WorkQueue(cap=10.0)
        self._client = client
        self._recorder = recorder
        self._vms = vms
        self._instances = instances
        self._failures: dict[str, tuple[int, float]] = {}
        """By uid of the VM: how many instances failed in a row, and until when to wait."""
        self._refused: dict[str, _Refused] = {}
        """By uid of the VM: why its instance could not be made."""
        vms.subscribe(self._vm_changed)
        instances.subscribe(self._instance_changed)

    def _vm_changed(self, old: Vm | None, new: Vm | None) -> None:
        if new is not None:
            self.queue.add(key_of(new))
        elif old is not None:
            self._failures.pop(old.metadata.uid, None)
            self._refused.pop(old.metadata.uid, None)

    def _instance_changed(self, old: Instance | None, new: Instance | None) -> None:
        if (instance := new or old) is None:
            return
        uid = owner(instance.metadata)
        before = "" if old is None else old.status.phase
        if instance.status.phase == "Running":
            self._failures.pop(uid, None)
        elif instance.status.phase == "Failed" != before:
            count = self._failures.get(uid, (0, 0.0))[0] + 1
            wait = min(_FIRST_WAIT * 2.0 ** min(count - 1, 16), _LONGEST_WAIT)
            self._failures[uid] = count, asyncio.get_running_loop().time() + wait
        self.queue.add(key_of(instance))

    async def reconcile(self, key: Key) -> Retry | None:
        """Do the next step for one VM."""
        vm = self._vms.store.get(key.name, key.namespace)
        if vm is None:
            return None
        found = self._instances.store.get(key.name, key.namespace)
        mine = found is not None and owner(found.metadata) == vm.metadata.uid
        instance = found if mine else None
        meta = vm.metadata
        with contextlib.suppress(ConflictError, NotFoundError):
            if meta.deletion_timestamp and instance is None:
                left = [name for name in meta.finalizers if name != FINALIZER_VM]
                if len(left) < len(meta.finalizers):
                    await self._set_finalizers(vm, left)
                return None
            if not meta.deletion_timestamp and FINALIZER_VM not in meta.finalizers:
                await self._set_finalizers(vm, [*meta.finalizers, FINALIZER_VM])
            await self._show(vm, instance)
            return await self._act(vm, instance)
        return None

    async def _act(self, vm: Vm, instance: Instance | None) -> Retry | None:
        meta = vm.metadata
        todo = action(vm, instance)
        if todo is Action.START:
            _, until = self._failures.get(meta.uid, (0, 0.0))
            refused = self._refused.get(meta.uid)
            if refused is not None and refused.generation == meta.generation:
                until = max(until, refused.until)
            wait = until - asyncio.get_running_loop().time()
            if wait > 0:
                return Retry(wait)
            try:
                await self._client.create(INSTANCES, _instance(vm), meta.namespace)
            except AlreadyExistsError:
                return None  # the watch will show it, or whose it is
            except (ForbiddenError, InvalidError) as error:
                return await self._not_created(vm, error.message)
            self._refused.pop(meta.uid, None)
            text = (
                "Started the virtual machine by creating the new virtual machine instance "
                f"{meta.name}"
            )
            self._recorder.record(VMS.ref(vm), "SuccessfulCreate", text)
        elif todo is Action.STOP and instance is not None:
            uid = instance.metadata.uid
            await self._client.delete(INSTANCES, meta.name, meta.namespace, uid=uid)
            text = f"Stopped the virtual machine by deleting the virtual machine instance {uid}"
            self._recorder.record(VMS.ref(vm), "SuccessfulDelete", text)
        return None

    async def _not_created(self, vm: Vm, why: str) -> Retry:
        meta = vm.metadata
        text = f"Error creating virtual machine instance: {why}"
        self._recorder.record(VMS.ref(vm), "FailedCreate", text, warning=True)
        before = self._refused.get(meta.uid)
        pause = min(before.pause * 2, _LONGEST_WAIT) if before else _FIRST_WAIT
        until = asyncio.get_running_loop().time() + pause
        self._refused[meta.uid] = _Refused(why, meta.generation, pause, until)
        await self._show(vm, None)
        return Retry(pause)

    async def _set_finalizers(self, vm: Vm, finalizers: Sequence[str]) -> None:
        meta = vm.metadata
        body = {
            "metadata": {
                "resourceVersion": meta.resource_version,
                "finalizers": list(finalizers) or None,
            }
        }
        await self._client.patch(VMS, meta.name, body, meta.namespace)

    async def _show(self, vm: Vm, instance: Instance | None) -> None:
        meta = vm.metadata
        now = timestamp(datetime.now(UTC))
        reported = [_NOT_READY] if instance is None else [*instance.status.conditions]
        if action(vm, instance) is not Action.START:
            self._refused.pop(meta.uid, None)
        elif refused := self._refused.get(meta.uid):
            reported.append(
                Condition(type="Failure", status="True", reason="FailedCreate", message=refused.why)
            )
        conditions: Sequence[Condition] = [
            one for one in vm.status.conditions if one.type in {other.type for other in reported}
        ]
        for one in reported:
            conditions = set_condition(conditions, one, now)
        status = VmStatus(
            created=instance is not None,
            ready=any(one.type == "Ready" and one.status == "True" for one in conditions),
            printable_status=printable(vm, instance, crashing=meta.uid in self._failures),
            run_strategy=strategy_of(vm),
            observed_generation=meta.generation,
            conditions=conditions,
            state_change_requests=left(vm, instance),
        )
        if status == vm.status:
            return
        said: dict[str, Json] = msgspec.to_builtins(status)
        about: dict[str, Json] = {"uid": meta.uid}
        if status.state_change_requests == vm.status.state_change_requests:
            # There may be newer ones, which are not ours to overwrite.
            del said["stateChangeRequests"]
        else:
            about["resourceVersion"] = meta.resource_version
        body = {"metadata": about, "status": said}
        await self._client.patch(VMS, meta.name, body, meta.namespace, subresource="status")


def _instance(vm: Vm) -> JsonObject:
    template, meta = vm.spec.template, vm.metadata
    return {
        "apiVersion": INSTANCES.api_version,
        "kind": INSTANCES.kind,
        "metadata": {
            "name": meta.name,
            "namespace": meta.namespace,
            "labels": dict(template.metadata.labels),
            "annotations": dict(template.metadata.annotations),
            "finalizers": [FINALIZER_INSTANCE],
            "ownerReferences": owned_by("VirtualMachine", meta),
        },
        "spec": dict(template.spec),
    }
