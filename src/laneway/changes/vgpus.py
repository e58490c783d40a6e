"""All vGPUs of one GPU at once.

They are stored in a VGPULayout that selects this GPU alone and has the name of its SRIOVGPUDevice,
so that the next change is made there instead of in one more layout. If another layout configures
the GPU, the change is refused before anything is written: one GPU has one layout.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from laneway.api import NodeSelector, VGPULayout, to_builtins
from laneway.changes import trial
from laneway.changes.errors import OvertakenError, RefusedError
from laneway.changes.gpus import claim_of, unreachable
from laneway.changes.listening import SILENT, Listener
from laneway.changes.writing import Change, Outcome, Waiting, applied, in_force
from laneway.controllers.devices.gpu import profile_names
from laneway.controllers.devices.layout import claimant, claims, selection
from laneway.core.layout.desired import Selection, owner, selects_gpu, selects_node
from laneway.core.refusals import GpuClaimed
from laneway.kube.client import Client
from laneway.kube.errors import AlreadyExistsError
from laneway.kube.resource import served
from laneway.views.answers import entry_of, of_layout
from laneway.views.gpus import Gpu
from laneway.views.vgpus import profiles

_DEFAULTS = {"mode": "", "vgpus": [], "dryRun": False, "whenPossible": False, "takeOver": False}
"""Of a layout's spec, where it does not say."""


class Desired(NamedTuple):
    """The vGPUs that a GPU is to have."""

    vgpus: Mapping[str, int]
    """By profile, in the driver's names."""
    mode: str | None = None
    """None: as it is in the layout."""
    take_over: bool = False
    """Also vGPUs that something else configured."""
    when_possible: bool = False
    """Leave it in the layout where it is refused, for the agent to apply once it is possible."""

    def spec(self, gpu: Gpu) -> dict[str, Any]:
        """The spec of the layout, without the fields that do not change."""
        spec: dict[str, Any] = {} if self.mode is None else {"mode": self.mode}
        spec["gpuSelector"] = {"names": [gpu.name]}
        spec["vgpus"] = [{"profile": name, "count": count} for name, count in self.vgpus.items()]
        return {**spec, "takeOver": True} if self.take_over else spec


def known(gpu: Gpu) -> tuple[set[str], set[str]]:
    """The profiles of a GPU as its driver names them, and as the catalogue does."""
    return profile_names(gpu.device, gpu.pci.status if gpu.pci else None, gpu.vgpus)


def against(gpu: Gpu, layouts: Sequence[VGPULayout], by: str) -> Iterator[str]:
    """Reasons against any change, as far as the objects show them. `by`: as for `own_layout`."""
    if away := unreachable(gpu):
        yield away
    try:
        own_layout(gpu, layouts, by)
    except RefusedError as refused:
        yield from refused.reasons
    yield from claimed(gpu)


def claimed(gpu: Gpu) -> Iterator[str]:
    """The refusal where the whole GPU is claimed."""
    if (claim := claim_of(gpu)) is not None:
        yield GpuClaimed(gpu.address, claim.metadata.name, claim.spec.user_name).words


def own_layout(gpu: Gpu, layouts: Sequence[VGPULayout], by: str) -> VGPULayout | None:
    """The layout of this GPU alone, if it exists. Raises RefusedError where another has the GPU.

    `by`: what refuses, `this command` or `this page`.
    """
    mine = next((layout for layout in layouts if layout.metadata.name == gpu.name), None)
    if mine is not None and not _is_alone(mine, gpu):
        raise RefusedError(
            f"VGPULayout {gpu.name} selects more than {gpu.title}, so {by} does not change it. To "
            f"change it: kubectl edit vgpulayout {gpu.name}"
        )
    rivals = [
        claimant(layout) for layout in layouts if claims(layout) and selects(selection(layout), gpu)
    ]
    first = owner([*rivals, *([claimant(mine)] if mine is not None else [])])
    if first not in ("", gpu.name):
        raise RefusedError(
            f"VGPULayout {first} configures {gpu.title}. Change its vGPUs or its gpuSelector "
            f"(kubectl edit vgpulayout {first}), or delete it (kubectl delete vgpulayout {first})"
        )
    return mine


def _is_alone(layout: VGPULayout, gpu: Gpu) -> bool:
    spec = layout.spec
    alone = list(spec.gpu_selector.names) == [gpu.name] and not spec.gpu_selector.device_ids
    return alone and spec.node_selector == NodeSelector()


def selects(selected: Selection, gpu: Gpu) -> bool:
    """As the agents decide it, as far as the objects tell what they know."""
    device = gpu.pci.status.device_id if gpu.pci is not None else ""
    return selects_node(selected, gpu.node, gpu.labels) and selects_gpu(selected, gpu.name, device)


def trial_spec(gpu: Gpu, desired: Desired, own: VGPULayout | None) -> dict[str, Any]:
    """The layout to ask the agent about. `own`: the GPU's own layout, if it has one."""
    # What is not named stays as it is in the layout, so the trial has to name it.
    kept = {} if own is None else {"mode": own.spec.mode}
    return {**kept, **desired.spec(gpu)}


def change_of(gpu: Gpu, desired: Desired, own: VGPULayout | None) -> Change:
    """The change of the layout, with the way back."""
    was, written = _specs(gpu, desired, own)
    return Change(
        resource=served(VGPULayout),
        plural="vgpulayout",
        name=gpu.name,
        gpu=gpu,
        before=None if own is None else _before(gpu, own, was, written),
        changes=own is None or not _same(written, was),
    )


async def write(client: Client, gpu: Gpu, desired: Desired, own: VGPULayout | None) -> VGPULayout:
    """Store it in the GPU's own layout, which is made where there is none."""
    _, written = _specs(gpu, desired, own)
    if own is not None:
        return await client.patch(served(VGPULayout), gpu.name, {"spec": written})
    try:
        return await trial.make(client, gpu.name, written)
    except AlreadyExistsError:
        raise OvertakenError(
            f"VGPULayout {gpu.name} was created by another program meanwhile"
        ) from None


async def configured(
    client: Client,
    gpu: Gpu,
    desired: Desired,
    own: VGPULayout | None,
    *,
    waiting: Waiting,
    listener: Listener = SILENT,
) -> Outcome:
    """Store the change and wait until the agent has applied it."""
    return await applied(
        client,
        change_of(gpu, desired, own),
        lambda: write(client, gpu, desired, own),
        lambda layout, generation: of_layout(entry_of(layout, gpu.name, generation)),
        waiting=waiting,
        listener=listener,
    )


def _specs(
    gpu: Gpu, desired: Desired, own: VGPULayout | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The spec of the layout as it was, and the fields that are written."""
    was = _DEFAULTS if own is None else {**_DEFAULTS, **to_builtins(own.spec)}
    written = {**desired.spec(gpu), "dryRun": False, "whenPossible": desired.when_possible}
    if own is not None and _refused(own, gpu) and _same(written, was):
        # An agent judges a refused layout again only once its spec is another one.
        written["whenPossible"] = True
    return was, written


def _before(
    gpu: Gpu, own: VGPULayout, was: Mapping[str, Any], written: Mapping[str, Any]
) -> dict[str, Any]:
    """The fields that are written, as they were in force until now."""
    carried, _ = profiles(gpu)
    vgpus = [{"profile": name, "count": count} for name, count in sorted(carried.items())]
    return in_force(
        {key: was[key] for key in written},
        found={**was, "mode": "", "vgpus": vgpus},
        refused=_refused(own, gpu) and not was["whenPossible"],
    )


def _refused(layout: VGPULayout, gpu: Gpu) -> bool:
    entry = entry_of(layout, gpu.name, layout.metadata.generation)
    return of_layout(entry).kind == "refused"


def _same(written: Mapping[str, Any], was: Mapping[str, Any]) -> bool:
    return all(was[key] == value for key, value in written.items())
