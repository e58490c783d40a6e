"""What speaks against moves before the first change: rights that lack, and GPUs and VMs in the way.

Whether the user has a right is asked of the API server, which decides again at each write. What
cannot be asked is not taken for a no.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from laneway.api import MigConfiguration, VGPUDevice, VGPULayout
from laneway.changes.errors import ChangeError
from laneway.changes.moving import lock, vgpus, vms
from laneway.changes.moving.work import Seen, Work
from laneway.core.fleet.fitting import in_instances
from laneway.core.fleet.movable import How
from laneway.core.fleet.moves import Moves
from laneway.kube.access import Right, may
from laneway.kube.errors import KubeError, UnauthorizedError
from laneway.kube.kubevirt import MIGRATIONS, VIRTUAL_MACHINES
from laneway.kube.leader import LEASES
from laneway.kube.resource import Resource, served


def unreadable(seen: Seen) -> str:
    """Why nothing can be planned: what cannot be seen may hold what the moves need."""
    parts = "; ".join(seen.fleet.unreadable)
    return f"the cluster cannot be read completely: {parts}" if parts else ""


async def against(work: Work, seen: Seen, found: Moves) -> tuple[str, ...]:
    """Every reason, a whole text each; none: the moves can begin."""
    reasons = [*_of_gpus(seen, found), *await _of_vms(work, found)]
    lacking = await _lacking(work, seen, found)
    return tuple(dict.fromkeys((*lacking, *reasons)))


def _gpus(seen: Seen, found: Moves) -> Sequence[str]:
    """Those whose vGPUs change."""
    legs = [leg for move in found.moves for leg in move.legs]
    cleared = [
        gpu.name
        for gpu in seen.fleet.gpus
        if any(one.name in found.in_the_way for one in gpu.vgpus)
    ]
    return [*dict.fromkeys((*(gpu for leg in legs for gpu in (leg.target, leg.source)), *cleared))]


def _of_gpus(seen: Seen, found: Moves) -> Iterator[str]:
    for name in _gpus(seen, found):
        gpu = seen.gpu(name)
        if why := vgpus.against(gpu):
            yield why
        # A vGPU that goes is no room yet, and none to be used.
        yield from vgpus.going(gpu).values()


async def _of_vms(work: Work, found: Moves) -> list[str]:
    reasons = []
    for move in found.moves:
        if move.how is How.MIGRATE:
            continue
        try:
            vm = await vms.get(work, vms.name_of(move.vm))
        except ChangeError as error:
            reasons.append(f"{move.vm} cannot be moved: {error}")
            continue
        strategy = vm.spec.run_strategy
        if move.how is How.RESTART and strategy not in vms.STARTABLE:
            reasons.append(
                f"{move.vm} cannot be restarted: with the run strategy {strategy} KubeVirt starts "
                "it no second time"
            )
    return reasons


async def _lacking(work: Work, seen: Seen, found: Moves) -> list[str]:
    lacking = []
    for right in dict.fromkeys(_rights(seen, found)):
        try:
            if not await may(work.client, right):
                lacking.append(f"you may not {right.words}")
        except UnauthorizedError:
            raise
        except KubeError as error:
            work.listener.warning(f"whether you may {right.words} is not known: {error}")
    return lacking


def _rights(seen: Seen, found: Moves) -> Iterator[Right]:
    targets = {leg.target for move in found.moves for leg in move.legs}
    divided = {one.name for one in seen.fleet.gpus if one.name in targets and in_instances(one)}
    for name in _gpus(seen, found):
        if (gpu := seen.gpus.get(name)) is None or vgpus.against(gpu):
            continue
        kind: type[VGPUDevice | VGPULayout] = VGPUDevice
        if vgpus.own_layout(gpu) is not None:
            kind = VGPULayout
        yield _right("patch", served(kind))
        if kind is VGPUDevice and name in divided:
            yield _right("patch", served(MigConfiguration))
    for move in found.moves:
        namespace = vms.name_of(move.vm).namespace
        if move.how is How.MIGRATE:
            yield _right("create", MIGRATIONS, namespace)
            yield _right("delete", MIGRATIONS, namespace)
        else:
            yield _right("patch", VIRTUAL_MACHINES, namespace)
    for verb in ("create", "get", "patch"):
        yield _right(verb, LEASES, lock.NAMESPACE)


def _right(verb: str, resource: Resource[Any], namespace: str = "") -> Right:
    """To do this to objects of a resource."""
    return Right(verb, resource.group, resource.plural, namespace)
