"""SRIOVGPUDevices: whether a GPU is shared, and in which mode.

A GPU that stops being shared, or changes its mode, loses its vGPUs. So first no VM or pod may have
or name any of them, and none may be enabled. Of the latter the agent is not asked again: it knows
better, and sooner, what there is.
"""

from __future__ import annotations

from laneway.admission.rules import workloads
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
from laneway.admission.world import PARENT, World
from laneway.api import SRIOVGPUDevice, SRIOVGPUDeviceSpec
from laneway.core.gpu.desired import effective
from laneway.core.gpu.modes import Mode, mode_named
from laneway.core.refusals import (
    GpuClaimed,
    GpuObjectShared,
    MigConfigurationEnabled,
    ModeInvalid,
    ModeWithoutVfs,
    VgpusEnabled,
)

KIND = "sriovgpudevice"


def _node_of(gpu: SRIOVGPUDevice, _world: World) -> str:
    return gpu.spec.node_name


def _create(case: Case[SRIOVGPUDevice], new: SRIOVGPUDevice) -> Findings:
    wrong = place(case.name, new.spec.address, new.spec.node_name)
    if wrong is not None:
        yield wrong
        return
    yield from there(case.world, case.name)
    yield from _odd(case, new.spec)
    if new.spec.enabled:
        yield from _shared(case, new)


def _update(case: Case[SRIOVGPUDevice], old: SRIOVGPUDevice, new: SRIOVGPUDevice) -> Findings:
    before, after = old.spec, new.spec
    yield from fixed(
        KIND,
        case.name,
        (
            ("address", "spec.address", before.address, after.address),
            ("nodeName", "spec.nodeName", before.node_name, after.node_name),
        ),
    )
    yield from workloads.changed(case, old, new, before.node_name)
    if (before.enabled, before.mode) == (after.enabled, after.mode):
        return
    if not case.trusted and (owned := tuple(owned_by_layout(case.world, case.name))):
        yield from owned
        return
    yield from _odd(case, after)
    if _loses_vgpus(case, old, after):
        yield from in_use(case.world, vgpus_of(case.world, case.name, old))
        if not case.trusted:
            if enabled := enabled_vgpus(case.world, case.name):
                yield VgpusEnabled(case.name, enabled)
            yield from _mig_kept(case, old, after)
    if after.enabled and not before.enabled:
        yield from _shared(case, new)


def _odd(case: Case[SRIOVGPUDevice], spec: SRIOVGPUDeviceSpec) -> Findings:
    """What contradicts itself on any card."""
    mode = mode_named(spec.mode)
    if spec.mode and mode is None:
        yield ModeInvalid(spec.mode)
    elif mode is not None and spec.enabled and not mode.has_vfs:
        yield ModeWithoutVfs(case.name, mode)


def _loses_vgpus(
    case: Case[SRIOVGPUDevice], old: SRIOVGPUDevice, after: SRIOVGPUDeviceSpec
) -> bool:
    """Whether a desired state takes the vGPUs away that the GPU has."""
    if old.spec.enabled and not after.enabled:
        return True
    wanted, now = effective(after.mode, after.enabled, mig_desired=False), _mode(case, old)
    return after.mode != old.spec.mode and None not in (wanted, now) and wanted is not now


def _mig_kept(
    case: Case[SRIOVGPUDevice], old: SRIOVGPUDevice, after: SRIOVGPUDeviceSpec
) -> Findings:
    """That GPU instances are requested on a GPU that is to leave MIG mode."""
    wanted, now = effective(after.mode, after.enabled, mig_desired=False), _mode(case, old)
    asked = case.world.migs.get(case.name)
    if wanted is None or wanted.has_mig or now is None or not now.has_mig or asked is None:
        return
    if asked.spec.enabled and any(one.requested > 0 for one in asked.spec.profile_spec):
        yield MigConfigurationEnabled(case.name)


def _mode(case: Case[SRIOVGPUDevice], old: SRIOVGPUDevice) -> Mode | None:
    """The mode that the GPU is in, as far as is known."""
    return mode_named((case.world.gpus.get(case.name) or old).status.mode)


def _shared(case: Case[SRIOVGPUDevice], new: SRIOVGPUDevice) -> Findings:
    """What there is to say of a GPU that is to be shared."""
    node = new.spec.node_name
    if not case.trusted:
        serves = workloads.of_card(case.world, case.name, node, new)
        yield from workloads.against(case.world, case.name, node, serves)
    claim = case.world.claims.get(case.name)
    if claim is not None:
        yield GpuClaimed(new.spec.address, case.name, "").words


def _delete(case: Case[SRIOVGPUDevice], old: SRIOVGPUDevice) -> Findings:
    if old.spec.enabled:
        yield GpuObjectShared(case.name)
    elif case.world.pci_devices.get(case.name) is not None:
        yield (f"As long as the GPU is in the node, the agent creates {KIND} {case.name} again.")


# --------------------------------------------------------------------------------- look-ups


def vgpus_of(world: World, name: str, old: SRIOVGPUDevice | None = None) -> list[str]:
    """The names of a GPU's VGPUDevices."""
    known = world.gpus.get(name) or old
    reported = known.status.vgpu_devices if known is not None else ()
    return sorted({*reported, *(one.metadata.name for one in world.vgpus.by(PARENT, name))})


def enabled_vgpus(world: World, name: str) -> tuple[str, ...]:
    """Those of them on which a vGPU is desired."""
    found = (one for one in world.vgpus.by(PARENT, name) if one.spec.enabled)
    return tuple(sorted(one.metadata.name for one in found))


RULES = rules(Parts(node_of=_node_of, create=_create, update=_update, delete=_delete))
