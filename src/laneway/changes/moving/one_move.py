"""One move: what is done for it in which order, verified, and undone where it does not work out.

First the vGPUs at the target are made, and waited for until VMs can get them. Then the VM moves:

- stopped: its record names the new vGPUs, so they are kept for it.
- migrate: KubeVirt migrates it, to the target node only.
- restart: it stops, is pinned to the target node where it could start elsewhere, starts, and is
  unpinned once it runs. On the same node what it had is removed before it starts, or else the
  kubelet could give it that again.

The move is done once the ledger says so: the VM has vGPUs of the target node and none that it had.
From then on nothing is undone, and the vGPUs that it left are removed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from laneway.changes.errors import ChangeError
from laneway.changes.moving import vgpus, vms
from laneway.changes.moving.undoing import Undo
from laneway.changes.moving.work import Seen, Work, until
from laneway.core.allocation import Held, Part
from laneway.core.fleet import moves_again as again
from laneway.core.fleet.model import Fleet, Framework
from laneway.core.fleet.movable import How
from laneway.core.fleet.moves import Leg, Move
from laneway.core.ledger.build import LABEL_HOSTNAME
from laneway.core.ledger.facts import Phase
from laneway.core.names import vgpu_resource_name


class _Started(NamedTuple):
    """What a move has for its VM."""

    move: Move
    name: vms.Name
    made: Mapping[str, str]
    """The new vGPU by the one that it takes the place of."""
    hostname: str
    """By which pods choose the target node."""


async def carry_out(work: Work, move: Move, clear: tuple[str, ...], undo: Undo) -> frozenset[str]:
    """Do one move; gives the vGPUs that were made for it.

    `clear`: unused vGPUs in its way. Raises ChangeError, KubeError; what was done then is in
    `undo`.
    """
    for name in clear:
        await _removed(work, name, undo)
    made: dict[str, str] = {}
    new: set[str] = set()
    for leg in move.legs:
        there = await _unused(work, leg, made.values())
        made[leg.vgpu] = there or await _made(work, leg, undo)
        if not there:
            new.add(made[leg.vgpu])
    seen = await work.look()
    started = _Started(move, vms.name_of(move.vm), made, _hostname(seen.fleet, move.target))
    _judge_again(seen, move)
    match move.how:
        case How.STOPPED:
            await _reserve(work, started, seen, undo)
        case How.MIGRATE:
            await _migrate(work, started, undo)
        case How.RESTART:
            await _restart(work, started, undo)
    await until(work, lambda now: _unfinished(now, started))
    undo.forget()
    return frozenset(new)


async def clean_up(work: Work, move: Move, new: frozenset[str]) -> None:
    """After a move: remove what the VM left, and what was made for it in vain."""
    seen = await work.look()
    held = again.held(seen.fleet, move.vm)
    for name in (*(leg.vgpu for leg in move.legs), *sorted(new - held.keys())):
        await vgpus.remove(work, name)


# ------------------------------------------------------------------------------------ its vGPUs


async def _unused(work: Work, leg: Leg, taken: Collection[str]) -> str:
    """A vGPU at the target of a leg that is there and free; empty: there is none."""
    seen = await work.look()
    if going := vgpus.going(seen.gpu(leg.target)):
        raise ChangeError(next(iter(going.values())))
    targets = (gpu for gpu in seen.fleet.gpus if gpu.name == leg.target)
    there = (name for gpu in targets for name in again.ready(gpu, leg.profile))
    return next((name for name in there if name not in taken), "")


async def _made(work: Work, leg: Leg, undo: Undo) -> str:
    """A new vGPU at the target of a leg."""
    making = await vgpus.planned(work, leg.target, leg.profile)
    undo.add(f"remove the vGPU that was made on {leg.target}", lambda: vgpus.unmake(work, making))
    return await vgpus.make(work, making)


async def _removed(work: Work, name: str, undo: Undo) -> None:
    """Remove a vGPU, and make it again where the move is undone."""
    seen = await work.look()
    found = next(
        ((gpu.name, one) for gpu in seen.fleet.gpus for one in gpu.vgpus if one.name == name), None
    )
    if found is None:
        return
    gpu, vgpu = found
    if vgpu.holder:
        raise ChangeError(f"VGPUDevice {name} is in the way, and {vgpu.holder} has it now")

    async def back() -> None:
        now = await work.look()
        if any(one.name == name for each in now.fleet.gpus for one in each.vgpus):
            await vgpus.keep(work, gpu, name, vgpu.profile)  # Its removal may be under way.
            return
        await vgpus.make(work, await vgpus.planned(work, gpu, vgpu.profile, name))

    undo.add(f"make VGPUDevice {name} again", back)
    await vgpus.remove(work, name)


# ------------------------------------------------------------------------------------ each kind


async def _reserve(work: Work, started: _Started, seen: Seen, undo: Undo) -> None:
    """Have the new vGPUs kept for a stopped VM instead of those that are kept for it now."""
    gpus = {gpu.name: gpu for gpu in seen.fleet.gpus}
    there: dict[str, Held] = {}
    back: dict[str, Held] = {}
    for leg in started.move.legs:
        new = started.made[leg.vgpu]
        there[leg.vgpu] = _held(gpus[leg.target].framework, leg.profile, new)
        back[new] = _held(gpus[leg.source].framework, leg.profile, leg.vgpu)

    async def keep_as_before() -> None:
        now = await work.look()
        stopped = any(
            vm.name == started.move.vm and vm.phase is Phase.STOPPED for vm in now.fleet.vms
        )
        if stopped:  # The record of one that runs is what it has.
            await vms.record(work, started.name, back)

    undo.add(f"keep for {started.name.title} what was kept before", keep_as_before)
    await vms.record(work, started.name, there)


def _held(framework: Framework, profile: str, name: str) -> Held:
    part = Part.GPUS if framework is Framework.MDEV else Part.HOST_DEVICES
    return Held(part, vgpu_resource_name(profile), name)


async def _migrate(work: Work, started: _Started, undo: Undo) -> None:
    name, migration = started.name, vms.new_migration(started.name)
    undo.add(
        f"cancel the migration of {name.title}",
        lambda: vms.cancel_migration(work, name, migration),
    )
    await vms.migrate(work, name, migration, started.hostname)


async def _restart(work: Work, started: _Started, undo: Undo) -> None:
    name, move = started.name, started.move
    vm, before = await vms.get(work, name), await vms.running(work, name)
    uid = before.metadata.uid if before is not None else ""
    fleet = (await work.look()).fleet
    here, there = _hostname(fleet, move.source), started.hostname
    bound = LABEL_HOSTNAME in vm.spec.template.spec.node_selector

    async def unpin() -> None:
        for node in (here, there):
            await vms.unpin(work, name, node)

    # It runs again before the new vGPUs are removed, which may take long. On the same node it
    # starts when they are gone: the kubelet asks the device plugin for any free vGPU of the
    # profile, and neither the record of the VM nor a name in its spec decides which. It could get
    # the new one, and the undo would then never come to its end.
    undo.add(
        f"start {name.title} again",
        lambda: vms.put_back(work, vm, uid, name, here),
        last=move.source == move.target,
    )
    if not bound:
        undo.add(f"let {name.title} start on any node again", unpin, last=True)
    await vms.stop(work, vm, name)
    if move.source == move.target:
        seen = await until(work, lambda now: _still_has(now, move))
        await _reserve(work, started, seen, undo)
        await until(work, lambda now: _still_has(now, move) or _has_left(now, move))
        for leg in move.legs:
            await _removed(work, leg.vgpu, undo)
    pinned = not bound and again.needs_pin((await work.look()).fleet, move)
    if pinned:
        await vms.pin(work, name, there)
    if move.source == move.target:  # Elsewhere that is a part of starting it again.
        undo.add(f"stop {name.title}", lambda: vms.halt(work, name))
    instance = await vms.start(work, vm, name)
    if instance.status.node_name != move.target:
        raise ChangeError(
            f"{name.title} has started on node {instance.status.node_name}, not on {move.target}"
        )
    if pinned:
        await vms.unpin(work, name, there)


def _still_has(now: Seen, move: Move) -> str:
    """What is waited for until a VM that was stopped has released its vGPUs."""
    vm = next((one for one in now.fleet.vms if one.name == move.vm), None)
    if vm is not None and vm.phase is not Phase.STOPPED:
        return f"waiting until {move.vm} has released its vGPUs"
    return ""


# ----------------------------------------------------------------------------------- judgements


def _judge_again(seen: Seen, move: Move) -> None:
    """That the VM is as it was, now that its new vGPUs are there."""
    now = {vm.name: vm for vm in seen.fleet.vms}.get(move.vm)
    if now is None:
        raise ChangeError(f"{move.vm} is not there any more")
    stopped = now.phase is Phase.STOPPED
    if stopped is not (move.how is How.STOPPED):
        raise ChangeError(
            f"{move.vm} was {'started' if not stopped else 'stopped'} by another user meanwhile"
        )
    if move.how is How.MIGRATE and not now.migratable:
        raise ChangeError(f"{move.vm} cannot be migrated any more")
    has = again.held(seen.fleet, move.vm)
    # What is kept for one that never ran is any vGPU, and may be the new one now.
    if not stopped and has.keys() != {leg.vgpu for leg in move.legs}:
        raise ChangeError(f"{move.vm} has other vGPUs than before: {', '.join(sorted(has))}")


def _unfinished(now: Seen, started: _Started) -> str:
    """What is waited for until the ledger says that the move is done."""
    move = started.move
    if words := _has_left(now, move):
        return words
    has = again.held(now.fleet, move.vm)
    nodes = {gpu.name: gpu.node for gpu in now.fleet.gpus}
    if len(has) < len(move.legs):
        return f"waiting until the agent of {move.target} reports what {move.vm} has"
    if elsewhere := sorted({nodes[gpu] for gpu in has.values()} - {move.target}):
        raise ChangeError(f"{move.vm} has vGPUs of node {elsewhere[0]}, not of {move.target}")
    if move.how is not How.STOPPED:
        vm = next((one for one in now.fleet.vms if one.name == move.vm), None)
        if vm is None or vm.phase is not Phase.RUNNING:
            return f"waiting until {move.vm} runs"
    return ""


def _has_left(now: Seen, move: Move) -> str:
    """What is waited for until a VM has none of the vGPUs that it had."""
    left = again.held(now.fleet, move.vm).keys() & {leg.vgpu for leg in move.legs}
    return f"waiting until {move.vm} has released {', '.join(sorted(left))}" if left else ""


def _hostname(fleet: Fleet, node: str) -> str:
    labels = next((one.labels for one in fleet.nodes if one.name == node), {})
    return labels.get(LABEL_HOSTNAME, node)
