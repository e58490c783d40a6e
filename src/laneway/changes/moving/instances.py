"""A GPU instance for a new vGPU, on a GPU whose vGPUs are configured one by one.

A layout has its agent make the GPU instances that its vGPUs need. A VGPUDevice gets a vGPU only in
an instance that exists, and the GPU's MigConfiguration says which do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from laneway.api import MIG_DISABLED, MIG_SYNCED, MigConfiguration, to_builtins
from laneway.changes import instances, specs
from laneway.changes.errors import ChangeError
from laneway.changes.moving.work import Forwarding, Seen, Work, judge, waiting
from laneway.changes.writing import Change, applied
from laneway.core.fleet import fitting
from laneway.core.phrases import short_name
from laneway.kube.resource import served
from laneway.views.answers import answer_of


class Division(NamedTuple):
    """Fields of a MigConfiguration's spec: which GPU instances there are to be."""

    gpu: str
    before: dict[str, Any]
    after: dict[str, Any]


def needed(seen: Seen, name: str, profile: str) -> Division | None:
    """What is to be divided otherwise for one more vGPU on a GPU. Raises ChangeError.

    None: nothing, for its vGPUs are in no GPU instances, or one that there is has room.
    """
    gpu, planned = seen.gpu(name), next(one for one in seen.fleet.gpus if one.name == name)
    if not fitting.in_instances(planned):
        return None
    counts = fitting.instances_with(planned, profile)
    if counts is None:
        raise ChangeError(
            f"{gpu.title} has no place for the GPU instance that {short_name(profile)} needs"
        )
    if counts == fitting.instances_of(planned):
        return None
    if gpu.mig is None:
        raise ChangeError(f"{gpu.title} has no MigConfiguration that could request GPU instances")
    if gpu.mig.status.status not in (MIG_SYNCED, MIG_DISABLED):
        # What it requests and what there is would both be changed.
        message = gpu.mig.status.message.rstrip(".") or "its agent has not answered yet"
        raise ChangeError(
            f"MigConfiguration {name} is not applied: {message}. To change it: kubectl edit "
            f"migconfiguration {name}"
        )
    spec = to_builtins(gpu.mig.spec)
    after = instances.fields(gpu.mig, counts)
    return Division(name, {key: spec[key] for key in after}, dict(after))


async def divide(work: Work, division: Division) -> None:
    """Have the agent make the GPU instance. Raises ChangeError."""
    await _write(work, division, division.after, f"the GPU instances of {division.gpu}")


async def unite(work: Work, division: Division) -> None:
    """Go back to what there was before, unless that has been done. Raises ChangeError."""
    gpu = (await work.look()).gpu(division.gpu)
    now = _asks(to_builtins(gpu.mig.spec)) if gpu.mig else None
    if now == _asks(division.before):
        return
    if now != _asks(division.after):
        raise ChangeError(f"another program changed MigConfiguration {division.gpu} meanwhile")
    await _write(work, division, division.before, f"to restore the instances of {division.gpu}")


def _asks(spec: Mapping[str, Any]) -> tuple[bool, dict[str, int]]:
    """Whether GPU instances are requested, and how many by profile."""
    counts = {one["name"]: one.get("requested", 0) for one in spec.get("profileSpec", ())}
    return bool(spec.get("enabled")), {name: count for name, count in counts.items() if count}


async def _write(work: Work, division: Division, fields: dict[str, Any], what: str) -> None:
    gpu = (await work.look()).gpu(division.gpu)
    change = Change(
        resource=served(MigConfiguration),
        plural="migconfiguration",
        name=division.gpu,
        gpu=gpu,
        before=division.before,
    )
    outcome = await applied(
        work.client,
        change,
        lambda: specs.write(work.client, served(MigConfiguration), division.gpu, fields),
        lambda one, generation: answer_of(one.status, generation),
        waiting=waiting(work, division.gpu),
        listener=Forwarding(work.listener),
    )
    judge(outcome, what)
