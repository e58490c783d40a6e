"""What a move does with a VM: its record, its start and stop, its node, its migration.

The run strategy is put back as it was, and the node to which a VM is pinned for its start is taken
off again: the instance that runs keeps it, and the next start is free.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from laneway.api import ObjectMeta
from laneway.changes import vms, watching
from laneway.changes.errors import ChangeError, OvertakenError
from laneway.changes.moving.work import Work
from laneway.core import allocation, keys
from laneway.core.allocation import Held
from laneway.core.ledger.build import LABEL_HOSTNAME
from laneway.core.raw import Json, items, members
from laneway.kube.client import PatchType
from laneway.kube.errors import ConflictError, NotFoundError, UnreachableError
from laneway.kube.kubevirt import (
    INSTANCES,
    MIGRATIONS,
    VIRTUAL_MACHINES,
    MigrationState,
    VirtualMachine,
    VirtualMachineInstance,
)

ENDED = ("Succeeded", "Failed")
_ATTEMPTS = 5
"""To write to a VM whose status others write meanwhile."""
_STARTS = 3
"""Of a VM whose pod is rejected, as happens while the kubelet or the agent still sees its last."""
STARTABLE = ("", "Always", "RerunOnFailure", "Manual", "Halted")
"""Run strategies with which a VM that was stopped can be started again."""


class Name(NamedTuple):
    """A VM."""

    namespace: str
    name: str

    @property
    def title(self) -> str:
        return f"{self.namespace}/{self.name}"


def name_of(vm: str) -> Name:
    """By the name that a fleet has for it."""
    namespace, _, name = vm.rpartition("/")
    return Name(namespace, name)


class GoneError(ChangeError):
    """The VM was deleted."""


async def get(work: Work, vm: Name) -> VirtualMachine:
    """The VM. Raises GoneError where there is none."""
    try:
        return await work.client.get(VIRTUAL_MACHINES, vm.name, vm.namespace)
    except NotFoundError:
        raise GoneError(f"{vm.title} is not there any more") from None


# ------------------------------------------------------------------------------- its reservation


async def record(work: Work, vm: Name, instead: Mapping[str, Held]) -> None:
    """Keep other vGPUs for a stopped VM. `instead`: by name of the one that it leaves.

    Entries of the VM that have a device's name, as Harvester's clients give them, get the other's.
    Raises OvertakenError where the VM is started meanwhile.
    """
    first = await get(work, vm)
    for attempt in range(_ATTEMPTS):
        stored = await work.client.get(vms.STORED, vm.name, vm.namespace)
        now = await get(work, vm)
        if _runs(now) != _runs(first) or await running(work, vm) is not None:
            break
        body: dict[str, Json] = {
            "metadata": {
                # Who starts it meanwhile has changed it.
                "resourceVersion": stored.metadata.resource_version,
                "annotations": {keys.ANNOTATION_ALLOCATION: _recorded(stored.metadata, instead)},
            },
            **_renamed(stored.spec, {old: new.name for old, new in instead.items()}),
        }
        try:
            await work.client.patch(VIRTUAL_MACHINES, vm.name, body, vm.namespace)
        except ConflictError:
            if attempt == _ATTEMPTS - 1:
                raise
            continue
        return
    raise OvertakenError(f"VM {vm.title} was started by another user meanwhile")


def _recorded(meta: ObjectMeta, instead: Mapping[str, Held]) -> str:
    try:
        before = allocation.devices_of(meta.annotations.get(keys.ANNOTATION_ALLOCATION, ""))
    except ValueError:
        before = []  # It was spoilt by hand.
    kept = (one for one in before if one.name not in instead)
    return allocation.text_of((*kept, *instead.values()))


def _renamed(spec: Json, names: Mapping[str, str]) -> dict[str, Json]:
    """The part of a VM that changes where entries have names of devices."""
    devices = members(spec)
    for key in vms.DEVICES[1:]:
        devices = members(devices.get(key))
    change: Json = {}
    for key in ("hostDevices", "gpus"):
        entries = [members(one) for one in items(devices.get(key))]
        if any(one.get("name") in names for one in entries):
            renamed = [
                {**one, "name": names.get(str(one.get("name")), one.get("name"))} for one in entries
            ]
            change = {**members(change), key: renamed}
    if not change:
        return {}
    for key in reversed(vms.DEVICES):
        change = {key: change}
    return dict(members(change))


# ------------------------------------------------------------------------------------- its node


async def pin(work: Work, vm: Name, node: str) -> None:
    """Have it start on one node only."""
    selector = {"nodeSelector": {LABEL_HOSTNAME: node}}
    body = {"spec": {"template": {"spec": selector}}}
    await work.client.patch(VIRTUAL_MACHINES, vm.name, body, vm.namespace)


async def unpin(work: Work, vm: Name, node: str) -> None:
    """Take that off again, unless it says something else now."""
    path, pinned = "/spec/template/spec/nodeSelector", {LABEL_HOSTNAME: node}
    value: Any = pinned
    try:
        found = (await get(work, vm)).spec.template.spec.node_selector
    except GoneError:
        return
    if found != pinned:  # Others stay. Without any, the VM is as it was: it has no such field.
        path, value = f"{path}/{LABEL_HOSTNAME.replace('/', '~1')}", node
    body = [{"op": "test", "path": path, "value": value}, {"op": "remove", "path": path}]
    if found.get(LABEL_HOSTNAME) == node:
        await work.client.patch(
            VIRTUAL_MACHINES, vm.name, body, vm.namespace, patch_type=PatchType.JSON
        )


# ------------------------------------------------------------------------------ start and stop


async def stop(work: Work, vm: VirtualMachine, name: Name) -> None:
    """Stop it, and wait until its instance is gone."""
    stopping = asyncio.ensure_future(vms.stop(work.client, vm))
    try:
        await asyncio.shield(stopping)
    except asyncio.CancelledError:
        # Whether it is asked to stop has to be known to what starts it again.
        await asyncio.wait({stopping})
        raise
    await _stopped(work, name)


async def halt(work: Work, name: Name) -> None:
    """Have it not run, however far a start or a stop has come.

    What stops need not be waited for: KubeVirt starts it again once that is over.
    """
    vm = await get(work, name)
    if await running(work, name) is not None:
        if not _is_halted(vm):
            await vms.stop(work.client, vm)
    elif (spec := vms.run_spec(vm, start=False)) is not None:
        await work.client.patch(VIRTUAL_MACHINES, name.name, {"spec": spec}, name.namespace)

    def waits_for(instance: VirtualMachineInstance | None) -> str:
        return f"waiting until {name.title} stops" if _is_there(instance) else ""

    await _instance(work, name, waits_for)


def _is_halted(vm: VirtualMachine) -> bool:
    """Whether it is asked to stop already."""
    return vm.spec.running is False or vm.spec.run_strategy == "Halted"


async def _stopped(work: Work, name: Name) -> None:
    def waits_for(instance: VirtualMachineInstance | None) -> str:
        return "" if instance is None else f"waiting until {name.title} has stopped"

    await _instance(work, name, waits_for)


async def running(work: Work, name: Name) -> VirtualMachineInstance | None:
    """Its instance, unless that has ended or is about to."""
    try:
        found = await work.client.get(INSTANCES, name.name, name.namespace)
    except NotFoundError:
        return None
    return found if _is_there(found) else None


def _is_there(instance: VirtualMachineInstance | None) -> bool:
    """Whether there is an instance that runs or is about to, and is not about to end."""
    if instance is None or instance.metadata.deletion_timestamp:
        return False
    return instance.status.phase not in ENDED


async def put_back(work: Work, before: VirtualMachine, uid: str, name: Name, node: str) -> None:
    """Have it run as before a stop, on this node, however far the stop and a start have come.

    `uid`: of its instance before the stop. The run strategy is put back before the stop is over, so
    a VM that stops for longer than the time limit starts again all the same. It is bound to
    the node until `unpin`. Nothing is done where the VM is deleted.
    """
    bound = LABEL_HOSTNAME in before.spec.template.spec.node_selector
    try:
        now, instance = await get(work, name), await running(work, name)
        if instance is not None and instance.metadata.uid == uid and _runs(now) == _runs(before):
            return  # The stop was never begun.
        while True:
            await halt(work, name)
            if not bound:
                await pin(work, name, node)
            instance = await start(work, before, name, "" if bound else node)
            if bound or _bound_to(instance) == node:
                return
            # KubeVirt made it of what the VM said before it was bound.
    except GoneError:
        return


def _runs(vm: VirtualMachine) -> tuple[bool | None, str]:
    """What says whether it is to run."""
    return vm.spec.running, vm.spec.run_strategy


async def start(
    work: Work, before: VirtualMachine, name: Name, node: str = ""
) -> VirtualMachineInstance:
    """Start it as its spec was `before`, and wait until it runs. Raises ChangeError.

    `node`: to which it is bound; an instance that is not is given as soon as it is there.
    """
    now = await get(work, name)
    if _runs(now) != _runs(before):
        running, strategy = _runs(before)
        fields = {"running": running, "runStrategy": strategy or None}
        await work.client.patch(VIRTUAL_MACHINES, name.name, {"spec": fields}, name.namespace)
    else:
        await _stopped(work, name)  # KubeVirt starts it only then.
        await vms.start(work.client, now)
    again = before.spec.running or before.spec.run_strategy in ("Always", "RerunOnFailure")
    failed: set[str] = set()

    def waits_for(instance: VirtualMachineInstance | None) -> str:
        if instance is None:
            return f"waiting until {name.title} runs"
        if instance.metadata.deletion_timestamp:
            return f"waiting until {name.title} has stopped"
        why = _why(instance)
        if instance.status.phase in ENDED:
            failed.add(instance.metadata.uid)
            if instance.status.phase != "Failed" or not again or len(failed) == _STARTS:
                raise ChangeError(f"{name.title} has ended at once: {why}")
            return f"waiting until KubeVirt starts {name.title} again: {why}"
        if instance.status.phase == "Running":
            return ""
        if node not in ("", _bound_to(instance)):
            return ""
        state = ": ".join(part for part in (instance.status.phase, why) if part)
        return f"waiting until {name.title} runs{f' ({state})' if state else ''}"

    found = await _instance(work, name, waits_for)
    if found is None:
        raise AssertionError("a VM that runs has an instance")
    return found


def _bound_to(instance: VirtualMachineInstance) -> str | None:
    return instance.spec.node_selector.get(LABEL_HOSTNAME)


def _why(instance: VirtualMachineInstance) -> str:
    said = (one.message for one in instance.status.conditions if one.status == "False")
    return next((words for words in said if words), "")


async def _instance(
    work: Work, vm: Name, waits_for: Callable[[VirtualMachineInstance | None], str]
) -> VirtualMachineInstance | None:
    """The instance of a VM once nothing is waited for any more."""

    def away(error: UnreachableError) -> None:
        work.listener.progress(f"{error}; asking again")

    found = watching.states(work.client, INSTANCES, away, vm.name, vm.namespace)
    async with contextlib.aclosing(found):
        async for obj in found:
            instance = None if obj is None else INSTANCES.decode(obj)
            if not (words := waits_for(instance)):
                return instance
            work.listener.progress(words)
    raise AssertionError("an endless watch has ended")


# ----------------------------------------------------------------------------------- migration


def new_migration(vm: Name) -> str:
    """A name for a migration of the VM."""
    return f"laneway-move-{vm.name[:200].rstrip('-.')}-{secrets.token_hex(3)}"


async def migrate(work: Work, vm: Name, migration: str, node: str) -> None:
    """Have it migrate to a node, and wait until it is there. Raises ChangeError."""
    body = {
        "apiVersion": MIGRATIONS.api_version,
        "kind": MIGRATIONS.kind,
        "metadata": {"name": migration},
        "spec": {"vmiName": vm.name, "addedNodeSelector": {LABEL_HOSTNAME: node}},
    }
    creating = asyncio.ensure_future(work.client.create(MIGRATIONS, body, vm.namespace))
    try:
        await asyncio.shield(creating)
    except asyncio.CancelledError:
        # What is cancelled next has to be known by its name.
        await asyncio.wait({creating})
        raise

    def away(error: UnreachableError) -> None:
        work.listener.progress(f"{error}; asking again")

    found = watching.states(work.client, MIGRATIONS, away, migration, vm.namespace)
    async with contextlib.aclosing(found):
        async for obj in found:
            if obj is None:
                raise ChangeError(f"the migration of {vm.title} was deleted by another program")
            one = MIGRATIONS.decode(obj)
            if one.status.phase == "Succeeded":
                return
            if one.status.phase == "Failed":
                state = one.status.migration_state or MigrationState()
                why = state.failure_reason or "KubeVirt does not say why"
                raise ChangeError(f"KubeVirt could not migrate {vm.title}: {why}")
            phase = one.status.phase or "not begun"
            work.listener.progress(f"waiting until {vm.title} has migrated ({phase})")


async def cancel_migration(work: Work, vm: Name, migration: str) -> None:
    """End a migration, and wait until it is over: the VM is on one node then."""
    with contextlib.suppress(NotFoundError):
        await work.client.delete(MIGRATIONS, migration, vm.namespace)
    found = watching.states(work.client, MIGRATIONS, lambda _: None, migration, vm.namespace)
    async with contextlib.aclosing(found):
        async for obj in found:
            if obj is None or MIGRATIONS.decode(obj).status.phase in ENDED:
                return
