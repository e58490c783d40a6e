"""VGPULayout: which vGPUs many GPUs are to carry, as one wish instead of one per virtual function.

Every agent answers for the GPUs of its own node, in an entry of its own, so that agents never write
over each other; `Ready` sums all entries up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta, field

from laneway.api.fields import API_VERSION
from laneway.api.gpu import OWNER, mode_of
from laneway.api.meta import ObjectMeta, Status

LAYOUT_PLANNED = "Planned"
LAYOUT_IN_PROGRESS = "InProgress"
LAYOUT_DONE = "Done"
LAYOUT_REFUSED = "Refused"


class LayoutGpuSelector(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False
):
    """Which GPUs of the selected nodes are meant: those that everything named here fits."""

    names: Annotated[Sequence[str], Meta(description="Names of SRIOVGPUDevices.")] = []
    device_ids: Annotated[
        Sequence[str], Meta(description="PCI device ids, four lower-case hex digits.")
    ] = field(default_factory=list, name="deviceIDs")


class LayoutNodeSelector(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False
):
    """Which nodes are meant; all, where nothing is named."""

    match_labels: Annotated[
        Mapping[str, str], Meta(description="Labels of the Kubernetes node, all of them.")
    ] = {}
    names: Annotated[Sequence[str], Meta(description="Names of nodes.")] = []


class LayoutVgpus(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False
):
    """How many vGPUs of one profile every selected GPU shall carry."""

    profile: Annotated[
        str, Meta(description="Profile: as the driver prints it, NVIDIA A2-4Q, or short, A2-4Q.")
    ] = ""
    count: Annotated[
        int, Meta(description="vGPUs per GPU.", extra_json_schema={"minimum": 1, "maximum": 64})
    ] = field(default_factory=int)


class VGPULayoutSpec(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False
):
    """Everything that the selected GPUs are to carry: what is not named goes, unless it is used."""

    node_selector: Annotated[
        LayoutNodeSelector,
        Meta(description="Nodes whose GPUs the layout configures. If empty: all nodes."),
    ] = LayoutNodeSelector()
    gpu_selector: Annotated[
        LayoutGpuSelector,
        Meta(description="Which GPUs of these nodes the layout configures. If empty: all GPUs."),
    ] = LayoutGpuSelector()
    mode: Annotated[
        str,
        mode_of(
            "Empty: as the profiles need it, MIGBacked or SameSize, which may switch MIG mode on "
            "or off; without vgpus, left as it is."
        ),
    ] = ""
    vgpus: Annotated[
        Sequence[LayoutVgpus], Meta(description="What every GPU is to carry; none: no vGPU.")
    ] = []
    dry_run: Annotated[
        bool, Meta(description="Only say in the status what would be done; change nothing.")
    ] = field(default_factory=bool)
    take_over: Annotated[
        bool,
        Meta(
            description=(
                "Replace the vGPUs that single VGPUDevices of the GPU ask for. Without it, the "
                "layout is refused for such a GPU."
            )
        ),
    ] = field(default_factory=bool)
    when_possible: Annotated[
        bool,
        Meta(
            description=(
                "Apply the layout as soon as it becomes possible. Without it, a layout that is "
                "refused because a GPU is in use stays refused until its spec is changed."
            )
        ),
    ] = field(default_factory=bool)


class LayoutGpu(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False
):
    """What became of the wish on one GPU."""

    name: Annotated[str, Meta(description="Name of the SRIOVGPUDevice.")]
    node_name: Annotated[str, Meta(description="Node that holds the GPU.")] = ""
    observed_generation: Annotated[
        int, Meta(description="Generation of the layout that this answers to.")
    ] = 0
    accepted_generation: Annotated[
        int,
        Meta(
            description=(
                "Last generation of the layout that the agent began to apply; 0 while it has "
                "applied none. From then on the layout owns the GPU."
            )
        ),
    ] = 0
    owner: Annotated[str, Meta(description=OWNER)] = ""
    state: Annotated[str, Meta(description="Planned, InProgress, Done or Refused.")] = ""
    final: Annotated[
        bool,
        Meta(
            description=(
                "A refusal that stands until the spec of the layout is changed, also once its "
                "cause is gone."
            )
        ),
    ] = field(default_factory=bool)
    reason: Annotated[str, Meta(description="Why, in one CamelCase word.")] = ""
    message: Annotated[str, Meta(description="Why, and what to do, for a person.")] = ""
    steps: Annotated[
        Sequence[str], Meta(description="What is left to be done, in its order, in words.")
    ] = []
    fits: Annotated[
        Mapping[str, int],
        Meta(description="How many more vGPUs of each profile would fit beside what is there."),
    ] = {}
    fits_afterwards: Annotated[
        Mapping[str, int],
        Meta(description="The same once the steps are done; only told of time-sliced vGPUs."),
    ] = {}


class VGPULayoutStatus(Status, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What became of the wish."""

    gpus: Annotated[
        Sequence[LayoutGpu],
        Meta(
            description="The selected GPUs, each answered for by the agent of its node.",
            extra_json_schema={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
        ),
    ] = []
    summary: Annotated[str, Meta(description="How many GPUs are as asked for: 3 of 4.")] = ""


class VGPULayout(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """Which vGPUs many GPUs shall carry."""

    api_version: str = API_VERSION
    kind: str = "VGPULayout"
    metadata: ObjectMeta = ObjectMeta()
    spec: VGPULayoutSpec = VGPULayoutSpec()
    status: VGPULayoutStatus = VGPULayoutStatus()
