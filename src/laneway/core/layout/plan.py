"""A GPU's whole desired state, and the way there in the only order that the driver allows.

vGPUs that go, then the modes of the card, its virtual functions, GPU instances, mixed sizes, new
vGPUs, their parameters. What is as desired already stays where it is, and what is in use is
never touched: where that stands in the way, the answer is a refusal. Everything that can be
refused is, together and before the first write.

Two things are not known before `sriov-manage` and a change of MIG mode are done: on which framework
the driver will serve the functions, and which GPU instances and types it will list. So a desired
state that needs either is reached in stages: the first plan ends with the functions on, and
`Plan.then` says in words what is left, which is judged by the catalogue until then. A caller that
carries a plan with `then` out observes again and calls `plan_layout` again with the same desired
state, until a plan comes without, or Satisfied. It takes `MOST_STAGES` at the most; more means that
something else is changing the card too.
"""

from __future__ import annotations

import re

from laneway.core.decision import Decision, conclude
from laneway.core.gpu.transition import transition, unserved
from laneway.core.layout import mig as layout_mig
from laneway.core.layout import sliced as layout_sliced
from laneway.core.layout.view import (
    DesiredGpu,
    View,
    is_known,
    lists_all,
    losses,
    offered_names,
    removals,
    view_of,
    words,
)
from laneway.core.passthrough.fitness import unfit
from laneway.core.pci import PciAddress
from laneway.core.plan import Step
from laneway.core.refusals import (
    CountInvalid,
    DriverMissing,
    MigUnsupported,
    MixedSizeUnsupported,
    ParametersInvalid,
    ProfileNotListed,
    ProfilesConflict,
    Refusal,
    TooFewVfs,
)
from laneway.core.situation import Situation
from laneway.core.sriov.vfs import VGPU_DRIVER, emptied, vf_count, vgpu_card
from laneway.core.vgpu.profiles import by_sharing

__all__ = ["MOST_STAGES", "DesiredGpu", "plan_layout", "plan_whole"]

MOST_STAGES = 4
"""Functions on, GPU instances, vGPUs, and one for what changed in between."""

_PARAMETERS = re.compile(r"\s*[a-z0-9_]+=[\w.+-]+\s*(,\s*[a-z0-9_]+=[\w.+-]+\s*)*", re.ASCII)
_LONGEST_PARAMETERS = 1023


def plan_layout(desired: DesiredGpu, situation: Situation) -> Decision:
    """Have a GPU carry exactly what the desired state says."""
    gpu = vgpu_card(desired.address, situation)
    if isinstance(gpu, tuple):
        return gpu
    view = view_of(desired, gpu, situation)
    against: list[Refusal] = [*unfit(desired.address, situation), *unserved(gpu, situation)]
    served = not against
    mig = _wants_mig(view)
    staged = not vf_count(gpu) or bool(view.modes.mig) != mig
    against += _unreasonable(view, staged=staged, modes_known=desired.address in situation.gpus)
    steps: list[Step] = []
    then: tuple[str, ...] = ()
    if staged:
        if served:
            more, steps = _switched(view, functions=True, mig=mig)
            against += more
        if view.wanted and not _is_odd(against):
            against += layout_mig.unfitting(view) if mig else layout_sliced.unfitting(view)
        then = _then(view, mig=mig)
    elif not against and not view.functions:
        against.append(DriverMissing(view.device, gpu.driver, f"{VGPU_DRIVER} for its functions"))
    elif not against:
        if mig and view.wanted:
            found, steps, then = layout_mig.plan_mig(view)
        else:
            found, steps = layout_sliced.plan_sliced(view)
        against += found
    return conclude(against, steps, then)


def plan_whole(address: PciAddress, situation: Situation, *, mig: bool) -> Decision:
    """Have a GPU carry no vGPU and no virtual function, in MIG mode or not in it.

    GPU instances stay where they can, which is where functions and MIG mode are as desired.
    """
    gpu = vgpu_card(address, situation)
    if isinstance(gpu, tuple):
        return gpu
    view = view_of(DesiredGpu(address, ()), gpu, situation)
    against: list[Refusal] = [*unfit(address, situation), *unserved(gpu, situation)]
    if against:
        return conclude(against, ())
    if mig and view.modes.mig is None:
        return (MigUnsupported(view.device),)
    found, steps = _switched(view, functions=False, mig=mig)
    return conclude(found, steps)


def _wants_mig(view: View) -> bool:
    """The mode that is requested or that the profiles imply; a spec for none leaves it as it is."""
    if view.desired.mig is not None:
        return view.desired.mig
    sliced, backed = by_sharing(view.wanted)
    return bool(backed) if sliced or backed else bool(view.modes.mig)


# ---------------------------------------------------------------------------- what can be refused


def _unreasonable(view: View, *, staged: bool, modes_known: bool) -> list[Refusal]:
    """What is wrong with the desired state itself, on this card."""
    found: list[Refusal] = [
        CountInvalid(name, count) for name, count in view.desired.vgpus if count < 1
    ]
    parameters = view.desired.parameters
    if parameters and (
        len(parameters) > _LONGEST_PARAMETERS or not _PARAMETERS.fullmatch(parameters)
    ):
        found.append(ParametersInvalid(parameters[:_LONGEST_PARAMETERS]))
    sliced, backed = by_sharing(view.wanted)
    if backed and sliced:
        found.append(ProfilesConflict(view.device, sliced, backed))
    for name in view.wanted:
        complete = not staged and name not in backed and lists_all(view)
        if not is_known(view, name, complete=complete):
            found.append(ProfileNotListed(name, offered_names(view)))
    if modes_known and (backed or view.desired.mig) and view.modes.mig is None:
        found.append(MigUnsupported(view.device))
    if view.desired.mixed_size and (
        backed or (modes_known and not staged and view.modes.mixed_size is None)
    ):
        found.append(MixedSizeUnsupported(view.device))
    count = sum(count for _, count in view.desired.vgpus)
    functions = len(view.functions) if vf_count(view.gpu) else view.gpu.total_vfs or 0
    if count > functions and (view.functions or not vf_count(view.gpu)):
        found.append(TooFewVfs(view.device, count, functions))
    return found


def _is_odd(against: list[Refusal]) -> bool:
    """Whether the desired state is such that the question of room makes no sense."""
    odd = CountInvalid | ProfileNotListed | ProfilesConflict | MigUnsupported | MixedSizeUnsupported
    return any(isinstance(refusal, odd) for refusal in against)


# ------------------------------------------------------------------------------------ first stage


def _switched(view: View, *, functions: bool, mig: bool) -> tuple[list[Refusal], list[Step]]:
    """Everything away where that is needed, MIG mode as it should be, functions on or off.

    What switching the functions would clear silently (GPU instances, mixed sizes) goes in steps of
    its own, so that it comes back when a later step fails.
    """
    empty = emptied(view.gpu.address, view.situation)
    against, steps = transition(view.gpu, view.modes, empty, functions=functions, mig=mig)
    if not against and not steps:
        return [], []
    removed = tuple(function for function, _ in view.carried)
    return [*losses(view, removed), *against], [*removals(removed), *steps]


def _then(view: View, *, mig: bool) -> tuple[str, ...]:
    if not view.wanted:
        return ()
    before: tuple[str, ...] = ()
    if mig:
        before = layout_mig.instance_words(view)
    elif view.desired.mixed_size:
        before = ("allow vGPUs of mixed sizes",)
    return (*before, *words(view, view.wanted))
