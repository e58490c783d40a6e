"""VGPULayout: the vGPUs of many GPUs in one object instead of one per virtual function.

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
from laneway.api.nodes import NodeSelector

LAYOUT_PLANNED = "Planned"
LAYOUT_IN_PROGRESS = "InProgress"
LAYOUT_DONE = "Done"
LAYOUT_REFUSED = "Refused"


class LayoutGpuSelector(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False
):
    """Selects GPUs of the selected nodes: those that match every field."""

    names: Annotated[Sequence[str], Meta(description="Names of SRIOVGPUDevices.")] = []
    device_ids: Annotated[
        Sequence[str], Meta(description="PCI device ids, four lower-case hex digits.")
    ] = field(default_factory=list, name="deviceIDs")


class LayoutVgpus(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False
):
    """The number of vGPUs of one profile on every selected GPU."""

    profile: Annotated[
        str, Meta(description="Profile, A2-4Q, or as the driver prints it, NVIDIA A2-4Q.")
    ] = ""
    count: Annotated[
        int, Meta(description="vGPUs per GPU.", extra_json_schema={"minimum": 1, "maximum": 64})
    ] = field(default_factory=int)


class VGPULayoutSpec(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False
):
    """All vGPUs of the selected GPUs. Others are removed unless they are in use."""

    node_selector: Annotated[
        NodeSelector,
        Meta(description="Nodes whose GPUs the layout configures. Empty: all nodes."),
    ] = NodeSelector()
    gpu_selector: Annotated[
        LayoutGpuSelector,
        Meta(description="GPUs of these nodes that the layout configures. Empty: all GPUs."),
    ] = LayoutGpuSelector()
    mode: Annotated[
        str,
        mode_of(
            "Empty: MIGBacked or SameSize, as the profiles need it, which can switch MIG mode on "
            "or off. Without vgpus the mode stays."
        ),
    ] = ""
    vgpus: Annotated[
        Sequence[LayoutVgpus], Meta(description="The vGPUs of every GPU. Empty: no vGPU.")
    ] = []
    dry_run: Annotated[
        bool, Meta(description="Report the steps in the status and change nothing.")
    ] = field(default_factory=bool)
    take_over: Annotated[
        bool,
        Meta(
            description=(
                "Replace the vGPUs that single VGPUDevices of the GPU request. Without it, the "
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
    """The state of one selected GPU."""

    name: Annotated[str, Meta(description="Name of the SRIOVGPUDevice.")]
    node_name: Annotated[str, Meta(description="Node that holds the GPU.")] = ""
    observed_generation: Annotated[
        int, Meta(description="Generation of the layout that this entry is about.")
    ] = 0
    accepted_generation: Annotated[
        int,
        Meta(
            description=(
                "Last generation of the layout that the agent began to apply; 0 before the first. "
                "From then on the layout owns the GPU."
            )
        ),
    ] = 0
    owner: Annotated[str, Meta(description=OWNER)] = ""
    state: Annotated[str, Meta(description="Planned, InProgress, Done or Refused.")] = ""
    final: Annotated[
        bool,
        Meta(
            description=(
                "The refusal holds until the spec of the layout changes, also when its cause is "
                "gone."
            )
        ),
    ] = field(default_factory=bool)
    reason: Annotated[str, Meta(description="Why, in one CamelCase word.")] = ""
    message: Annotated[str, Meta(description="Why, and what to do.")] = ""
    steps: Annotated[Sequence[str], Meta(description="The remaining steps, in order.")] = []
    fits: Annotated[
        Mapping[str, int],
        Meta(
            description="How many more vGPUs of each profile fit now, if only that profile is "
            "added."
        ),
    ] = {}
    fits_afterwards: Annotated[
        Mapping[str, int],
        Meta(description="The same after the steps. Only for time-sliced vGPUs."),
    ] = {}


class VGPULayoutStatus(Status, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The state of the selected GPUs."""

    gpus: Annotated[
        Sequence[LayoutGpu],
        Meta(
            description="The selected GPUs. The agent of its node reports each.",
            extra_json_schema={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
        ),
    ] = []
    summary: Annotated[str, Meta(description="GPUs in the desired state: 3 of 4.")] = ""


class VGPULayout(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """The vGPUs of many GPUs."""

    api_version: str = API_VERSION
    kind: str = "VGPULayout"
    metadata: ObjectMeta = ObjectMeta()
    spec: VGPULayoutSpec = VGPULayoutSpec()
    status: VGPULayoutStatus = VGPULayoutStatus()
