"""MigConfigurations: into which GPU instances a GPU is divided.

Harvester lets a division change only while it is disabled. Here the GPU is brought from any
division to any other one, with as few instances destroyed as possible and none that a vGPU is in,
so another division is a desired state like any other, with a warning of its effects. What
cannot be is refused: more instances than a GPU can have, and those that do not fit together, for
which the driver's list of profiles and the sizes in their names are enough. Where exactly each can
be placed the API does not tell, so what passes here may still be refused by the agent.
"""

from __future__ import annotations

from collections import Counter

from laneway.admission.rules import gpus
from laneway.admission.rules.common import (
    Case,
    Findings,
    Parts,
    fixed,
    in_use,
    place,
    rules,
    there,
)
from laneway.admission.rules.owning import owned_by_layout
from laneway.admission.users import users_of
from laneway.admission.world import World
from laneway.api import (
    MIG_OUT_OF_SYNC,
    MIG_SYNCED,
    MigConfiguration,
    MigConfigurationSpec,
    MigConfigurationStatus,
)
from laneway.core.gpu.modes import mode_named
from laneway.core.mig.fitting import misfit
from laneway.core.mig.profiles import bare_name, display_name
from laneway.core.refusals import (
    DuplicateProfile,
    InstanceCountInvalid,
    InstancesDoNotFit,
    InstancesUnavailable,
    MigModeDisabled,
    MigVgpusEnabled,
    ProfileNotListed,
    Refusal,
    TooManyInstances,
)

KIND = "migconfiguration"
MOST = 7
"""GPU instances on any GPU."""


def _node_of(mig: MigConfiguration, _world: World) -> str:
    return mig.spec.node_name


def _create(case: Case[MigConfiguration], new: MigConfiguration) -> Findings:
    wrong = place(case.name, new.spec.gpu_address, new.spec.node_name)
    if wrong is not None:
        yield wrong
        return
    yield from there(case.world, case.name)
    yield from _countable(case, new.spec)


def _update(case: Case[MigConfiguration], old: MigConfiguration, new: MigConfiguration) -> Findings:
    before, after = old.spec, new.spec
    yield from fixed(
        KIND,
        case.name,
        (
            ("gpuAddress", "spec.gpuAddress", before.gpu_address, after.gpu_address),
            ("nodeName", "spec.nodeName", before.node_name, after.node_name),
        ),
    )
    divided = _requested(before) != _requested(after)
    if before.enabled == after.enabled and not divided:
        return
    if not case.trusted and (owned := tuple(owned_by_layout(case.world, case.name))):
        yield from owned
        return
    known = (case.world.migs.get(case.name) or old).status
    odd = tuple(_countable(case, after))
    yield from odd
    if before.enabled and not after.enabled:
        yield from _disabled(case)
    elif after.enabled and not odd:
        if not case.trusted:
            yield from _unfitting(case, after, known)
            yield from _warnings(case, known, divided=divided and before.enabled)
        yield from _lost(case, after, known)


def _requested(spec: MigConfigurationSpec) -> Counter[str]:
    counts: Counter[str] = Counter()
    for one in spec.profile_spec:
        counts[bare_name(one.name)] += one.requested
    return counts


# --------------------------------------------------------------------------------- what can be


def _countable(case: Case[MigConfiguration], spec: MigConfigurationSpec) -> Findings:
    """What is wrong with the numbers on any GPU, whether they are to be made now or not."""
    seen = set()
    for one in spec.profile_spec:
        name = bare_name(one.name)
        if one.requested < 0:
            yield InstanceCountInvalid(one.name, one.requested)
        elif one.requested and name in seen:
            yield DuplicateProfile(display_name(name))
        if one.requested:
            seen.add(name)
    count = sum(max(0, one.requested) for one in spec.profile_spec)
    if count > MOST:
        yield TooManyInstances(case.name, count, MOST)


def _unfitting(
    case: Case[MigConfiguration], spec: MigConfigurationSpec, known: MigConfigurationStatus
) -> Findings:
    """What the GPU cannot have, even if none of it were in use."""
    totals = {bare_name(one.name): one.total for one in known.profile_status}
    if not totals:
        return  # The driver has not reported yet.
    wanted = {name: count for name, count in _requested(spec).items() if count > 0}
    single: list[Refusal] = []
    for name, count in sorted(wanted.items()):
        if name not in totals:
            offered = tuple(sorted(map(display_name, totals)))
            single.append(ProfileNotListed(display_name(name), offered))
        elif count > totals[name]:
            single.append(InstancesUnavailable(case.name, display_name(name), count, totals[name]))
    yield from single
    if not single and (obstacle := misfit(totals, wanted)):
        asked = tuple(f"{count} x {display_name(name)}" for name, count in sorted(wanted.items()))
        yield InstancesDoNotFit(case.name, asked, obstacle)


def _warnings(
    case: Case[MigConfiguration], known: MigConfigurationStatus, *, divided: bool
) -> Findings:
    """What a new division means."""
    if divided and known.status in (MIG_SYNCED, MIG_OUT_OF_SYNC):
        yield (
            f"MIGConfiguration {case.name} is {known.status}: Laneway destroys its GPU instances "
            "that are no longer requested, except those with vGPUs."
        )
    gpu = case.world.gpus.get(case.name)
    mode = mode_named(gpu.spec.mode) if gpu is not None else None
    if mode is not None and not mode.has_mig:
        yield MigModeDisabled(case.name, case.name).words


# ------------------------------------------------------------------------------- who loses what


def _disabled(case: Case[MigConfiguration]) -> Findings:
    """The vGPUs that sit in the GPU instances."""
    yield from in_use(case.world, gpus.vgpus_of(case.world, case.name))
    if not case.trusted and (enabled := gpus.enabled_vgpus(case.world, case.name)):
        yield MigVgpusEnabled(case.name, enabled)


def _lost(
    case: Case[MigConfiguration], spec: MigConfigurationSpec, known: MigConfigurationStatus
) -> Findings:
    """VGPUs in use for which a new division has no GPU instance."""
    instances = {
        number: bare_name(one.name) for one in known.profile_status for number in one.vgpu_ids
    }
    taken: dict[str, dict[str, list[str]]] = {}
    for name in gpus.vgpus_of(case.world, case.name):
        vgpu = case.world.vgpus.get(name)
        number = str(vgpu.status.gpu_instance) if vgpu is not None else ""
        if number in instances and users_of(case.world, name):
            taken.setdefault(instances[number], {}).setdefault(number, []).append(name)
    wanted = _requested(spec)
    for profile, by_instance in taken.items():
        if len(by_instance) > wanted[profile]:
            yield from in_use(case.world, [one for some in by_instance.values() for one in some])


def _delete(case: Case[MigConfiguration], _old: MigConfiguration) -> Findings:
    if case.world.gpus.get(case.name) is not None:
        yield (
            f"The GPU instances of {KIND} {case.name} stay, and the agent creates the object again."
        )


RULES = rules(Parts(node_of=_node_of, create=_create, update=_update, delete=_delete))
