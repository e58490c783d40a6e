"""The objects below a layout: those of one GPU, its GPU instances and its functions.

Their controllers carry them out. A layout only changes what they request, each by a merge patch
that holds only if the object has not changed since it was decided about, and notes who requested
the layout. Admission judges it
like the desired state of a person: a VM that does not run may name a device that would go, which
the node does not show.
"""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from laneway.api import MigConfiguration, SRIOVGPUDevice, VGPUDevice, VGPULayout
from laneway.controllers.acting import ACTOR, Context
from laneway.controllers.devices import layout as projection
from laneway.controllers.devices.vgpu import parent_name
from laneway.controllers.tracing import tell
from laneway.controllers.written import Written
from laneway.core import keys
from laneway.core.layout.objects import Objects
from laneway.core.layout.stages import Stage
from laneway.core.raw import Json, JsonObject
from laneway.core.refusals import UpdateRejected
from laneway.core.requested import Origin
from laneway.core.tracing import SpanId, root
from laneway.kube.client import Client
from laneway.kube.errors import ForbiddenError, InvalidError
from laneway.kube.informer import Informer
from laneway.kube.resource import served

Lower: TypeAlias = VGPUDevice | SRIOVGPUDevice | MigConfiguration
Patches = Sequence[tuple[Lower, JsonObject]]
"""Objects, and what to change in the spec of each."""

_RELAYED = re.compile(r'^admission webhook "[^"]*" denied the request: ')


def origin_of(layout: VGPULayout) -> Origin:
    """A layout, as what it leads to names it."""
    meta = layout.metadata
    return Origin("VGPULayout", meta.name, meta.uid, generation=meta.generation)


class Stored(NamedTuple):
    """The objects of one GPU as the caches have them."""

    gpu: SRIOVGPUDevice | None
    mig: MigConfiguration | None
    vgpus: Mapping[str, VGPUDevice]


class LowerObjects:
    """All of one node."""

    def __init__(
        self,
        node: str,
        client: Client,
        context: Context,
        *,
        gpus: Informer[SRIOVGPUDevice],
        vgpus: Informer[VGPUDevice],
        migs: Informer[MigConfiguration],
    ) -> None:
        self.gpus = gpus
        self.vgpus = vgpus
        self.migs = migs
        self._node = node
        self._client = client
        self._context = context
        self._written: defaultdict[type[Lower], Written] = defaultdict(Written)

    def stored(self, gpu: str) -> Stored:
        vgpus = {
            one.metadata.name: one
            for one in self.vgpus.store
            if parent_name(one, self._node) == gpu
        }
        return Stored(self.gpus.store.get(gpu), self.migs.store.get(gpu), vgpus)

    def desired_states(self, stored: Stored) -> Objects:
        """What they request."""
        return projection.objects(self._node, stored.gpu, stored.mig, stored.vgpus.values())

    def lag(self, stored: Stored) -> float:
        """For how many seconds the caches should be given time to show what was written."""
        every = (stored.gpu, stored.mig, *stored.vgpus.values())
        return max(
            (self._written[type(one)].lag(one.metadata.name, one.metadata) for one in every if one),
            default=0.0,
        )

    def patches(self, stored: Stored, stage: Stage, ids: Mapping[str, int]) -> Patches:
        """The desired states of a stage in the order in which they are to be written.

        `ids`: of GPU instance profiles.
        """
        desired_states: list[tuple[Lower, JsonObject]] = [
            (stored.vgpus[name], projection.vgpu_patch(profile)) for name, profile in stage.vgpus
        ]
        if stage.gpu is not None and stored.gpu is not None:
            desired_states.append((stored.gpu, projection.gpu_patch(stage.gpu)))
        if stage.mig is not None and stored.mig is not None:
            desired_states.append((stored.mig, projection.mig_patch(stored.mig, stage.mig, ids)))
        return desired_states

    async def write(
        self, patches: Patches, layout: VGPULayout, *, is_back: bool = False, dry_run: bool = False
    ) -> UpdateRejected | None:
        """Write the desired states of a layout one after the other; why one was refused.

        `is_back`: whether they are put back. `dry_run`: only ask whether they would be refused.
        """
        began, links = time.time_ns(), list[SpanId]()
        refusal = None
        for one, spec in patches:
            try:
                patched = await self._desired(one, spec, layout, dry_run=dry_run)
            except (ForbiddenError, InvalidError) as error:
                kind = served(type(one)).kind
                refusal = UpdateRejected(
                    f"{kind} {one.metadata.name}", _RELAYED.sub("", error.message)
                )
                break
            links.append(root(patched.metadata.uid, patched.metadata.generation))
            if is_back and not dry_run:
                self._say_reverted(patched, layout)
        if not dry_run:
            self._trace(layout, began, links, refusal)
        return refusal

    def _trace(
        self,
        layout: VGPULayout,
        began: int,
        links: Sequence[SpanId],
        refusal: UpdateRejected | None,
    ) -> None:
        error = refusal.words if refusal is not None else ""
        tracer, origin = self._context.tracer, origin_of(layout)
        tell(tracer, "write objects", origin, self._node, began, links=tuple(links), error=error)

    async def _desired(
        self, stored: Lower, spec: JsonObject, layout: VGPULayout, *, dry_run: bool
    ) -> Lower:
        resource = served(type(stored))
        metadata: dict[str, Json] = {"resourceVersion": stored.metadata.resource_version}
        key = keys.ANNOTATION_REQUESTED_BY
        note = layout.metadata.annotations.get(key)
        if note != stored.metadata.annotations.get(key):
            metadata["annotations"] = {key: note}
        body = {"metadata": metadata, "spec": spec}
        name = stored.metadata.name
        patched = await self._client.patch(resource, name, body, dry_run=dry_run)
        if not dry_run:
            self._written[type(stored)].note(patched.metadata)
            self._context.metrics.wrote("patch", resource.kind)
        return patched

    def _say_reverted(self, patched: Lower, layout: VGPULayout) -> None:
        text = (
            f"Reverted by {ACTOR}, because VGPULayout {layout.metadata.name} configures it. To "
            "change it, change that layout, or delete the layout, which changes no vGPU."
        )
        self._context.recorder.record(served(type(patched)).ref(patched), "Reverted", text)
