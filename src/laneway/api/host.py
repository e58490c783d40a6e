"""HostPolicy and HostPreparation: what hosts need before devices can reach VMs, and how far it is.

A HostPolicy is written by people, and its status by the manager. Of each selected node there is a
HostPreparation with the node's name: its spec is the manager's, which merges all policies of the
node and says when the node may reboot; its status is the agent's. So each part has one writer, and
where a roll-out stands is in these objects alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, field

from laneway.api.fields import API_VERSION, ONE_LINE
from laneway.api.meta import ObjectMeta, Status
from laneway.api.nodes import NodeSelector
from laneway.core.rollout.terms import When

MOST_WINDOWS = 20
"""Of one policy; the web interface has fields for as many."""
Weekday = Literal["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]

_WORD = r"^[!-~]{1,256}$"
_MODULE = r"^[A-Za-z0-9_][A-Za-z0-9_-]{0,60}$"
_TIME = r"^([01][0-9]|2[0-3]):[0-5][0-9]$"
_NUMBER_OR_SHARE = r"^([1-9][0-9]{0,4}|[1-9][0-9]?%|100%)$"


class HostHugePages(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False
):
    """Huge pages of one size that the kernel sets aside at boot."""

    size: Annotated[str, Meta(description="2M or 1G, or another size of the processor.")] = ""
    count: Annotated[
        int, Meta(description="Pages.", extra_json_schema={"minimum": 1, "maximum": 1048576})
    ] = field(default_factory=int)


class HostSettings(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False
):
    """What a host is to have from its next boot on."""

    iommu: Annotated[bool, Meta(description="The kernel uses the IOMMU.")] = field(
        default_factory=bool
    )
    iommu_passthrough: Annotated[
        bool,
        Meta(
            description=(
                "Devices that stay with the host bypass the IOMMU (iommu=pt), which is faster."
            )
        ),
    ] = field(default_factory=bool)
    vfio_at_boot: Annotated[
        bool, Meta(description="vfio-pci and the modules that it needs are loaded at boot.")
    ] = field(default_factory=bool)
    blocked_drivers: Annotated[
        Sequence[Annotated[str, Meta(extra_json_schema={"pattern": _MODULE})]],
        Meta(description="Kernel modules that are not loaded for devices, for example nouveau."),
    ] = []
    huge_pages: Annotated[
        Sequence[HostHugePages], Meta(description="Huge pages, one entry per size.")
    ] = []
    kernel_arguments: Annotated[
        Sequence[Annotated[str, Meta(extra_json_schema={"pattern": _WORD})]],
        Meta(description="Further words of the kernel command line, one each."),
    ] = []


class HostRebootWindow(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False
):
    """A time of the week in which nodes may begin to reboot."""

    days: Annotated[
        Sequence[Weekday], Meta(description="Days it begins on. Empty: every day.")
    ] = []
    start: Annotated[
        str, Meta(description="Begin, HH:MM.", extra_json_schema={"pattern": _TIME})
    ] = "00:00"
    minutes: Annotated[
        int, Meta(description="Length.", extra_json_schema={"minimum": 1, "maximum": 1440})
    ] = field(default_factory=int)
    time_zone: Annotated[
        str, Meta(description="Time zone of the IANA database, Europe/Berlin. Empty: UTC.")
    ] = ""


class HostReboot(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False
):
    """When a node that needs a reboot may reboot."""

    when: Annotated[
        When | None,
        Meta(
            description=(
                "Never: the node waits until it is rebooted by other means. WhenFree: as soon as "
                "no VM that cannot be migrated runs on it. InWindow: the same, in one of the "
                "windows. OnCommand: once 'laneway hosts reboot NODE' allows it. Absent: Never."
            )
        ),
    ] = None
    windows: Annotated[
        Sequence[HostRebootWindow],
        Meta(max_length=MOST_WINDOWS, description="The windows of InWindow."),
    ] = []


class HostRollout(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False
):
    """How the nodes of a policy are changed, one after the other."""

    paused: Annotated[
        bool, Meta(description="Report what would be written, and write and reboot nothing.")
    ] = field(default_factory=bool)
    max_unavailable: Annotated[
        int | str,
        Meta(
            description=(
                "Nodes of the policy that may be away at once, a number or a share such as 10%. "
                "Nodes that are away for another reason count. Empty: 1."
            ),
            extra_json_schema={
                "x-kubernetes-int-or-string": True,
                "pattern": "^$|" + _NUMBER_OR_SHARE,
            },
        ),
    ] = ""
    skip_drain: Annotated[
        bool,
        Meta(
            description=(
                "Cordon a node and reboot it without evicting its pods. VMs are migrated or waited "
                "for all the same."
            )
        ),
    ] = field(default_factory=bool)
    stop_vms: Annotated[
        bool,
        Meta(
            description=(
                "Stop VMs that cannot be migrated, such as those with devices. Without it, the "
                "node waits until they end."
            ),
        ),
    ] = field(default_factory=bool, name="stopVMs")
    reboot: Annotated[HostReboot, Meta(description="When a node may reboot.")] = HostReboot()


class HostPolicySpec(HostSettings, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What the selected nodes are to have, and how they get it.

    A policy without settings removes from its nodes what Laneway has written.
    """

    node_selector: Annotated[
        NodeSelector, Meta(description="Nodes of the policy. Empty: all nodes.")
    ] = NodeSelector()
    rollout: Annotated[HostRollout, Meta(description="How the nodes are changed.")] = HostRollout()


class HostPolicyNode(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False
):
    """How far one node of a policy is."""

    name: Annotated[str, Meta(description="Name of the node.")]
    stage: Annotated[
        str,
        Meta(
            description=(
                "Ready, Planned, Staged, RebootPending, Draining, Rebooting, Verifying or Failed."
            )
        ),
    ] = ""
    message: Annotated[str, Meta(description="Why, and what to do.")] = ""


class HostPolicyStatus(Status, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """How far the nodes are."""

    nodes: Annotated[
        Sequence[HostPolicyNode],
        Meta(
            description="The selected nodes. HostPreparations have each requirement.",
            extra_json_schema={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
        ),
    ] = []
    summary: Annotated[
        str, Meta(description="Nodes that have everything that the policy requests: 3 of 4.")
    ] = ""


class HostPolicy(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """What hosts need, and how nodes get it without harm to what runs on them."""

    api_version: str = API_VERSION
    kind: str = "HostPolicy"
    metadata: ObjectMeta = ObjectMeta()
    spec: HostPolicySpec = HostPolicySpec()
    status: HostPolicyStatus = HostPolicyStatus()


class HostRolloutState(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False
):
    """Where the manager is with one node. Empty: it has nothing to do."""

    stage: Annotated[
        str,
        Meta(description="RebootPending, Draining, Rebooting, Verifying or Failed."),
    ] = ""
    message: Annotated[str, Meta(description="Why, and what to do.")] = ""
    since: Annotated[
        str,
        Meta(description="When this stage began.", extra_json_schema={"format": "date-time"}),
    ] = ""
    boot_id: Annotated[
        str,
        Meta(
            description="The boot that the node is to leave. An agent of another boot has left it."
        ),
    ] = field(default="", name="bootID")
    cordoned: Annotated[
        bool, Meta(description="The manager cordoned the node, and uncordons it afterwards.")
    ] = field(default_factory=bool)
    stop_vms: Annotated[
        bool, Meta(description="The node may reboot although a VM holds a device.")
    ] = field(default_factory=bool, name="stopVMs")


class HostPreparationSpec(HostSettings, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What one node is to have, merged from its policies."""

    policies: Annotated[
        Sequence[Annotated[str, Meta(extra_json_schema={"pattern": ONE_LINE})]],
        Meta(description="The HostPolicies that select the node."),
    ] = []
    paused: Annotated[bool, Meta(description="A policy of the node is paused.")] = field(
        default_factory=bool
    )
    rollout: Annotated[
        HostRolloutState, Meta(description="Where the manager is with the node.")
    ] = HostRolloutState()


class HostRequirement(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False
):
    """One thing that the node is to have."""

    name: Annotated[str, Meta(description="Iommu, VfioModules, KernelArgument/quiet, …")]
    state: Annotated[str, Meta(description="Met, RebootNeeded, Missing or Impossible.")] = ""
    message: Annotated[str, Meta(description="Why, and what to do.")] = ""


class HostPreparationStatus(Status, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """How far the node's agent is."""

    stage: Annotated[str, Meta(description="Ready, Planned, Staged or Failed.")] = ""
    message: Annotated[str, Meta(description="Why, and what to do.")] = ""
    requirements: Annotated[
        Sequence[HostRequirement],
        Meta(
            description="Each thing that the node is to have.",
            extra_json_schema={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
        ),
    ] = []
    steps: Annotated[Sequence[str], Meta(description="What is to be written, in order.")] = []
    settings: Annotated[
        str,
        Meta(
            description="What stage and requirements are about: a hash of the settings in the spec."
        ),
    ] = ""
    boot_id: Annotated[str, Meta(description="The boot that the node is in.")] = field(
        default="", name="bootID"
    )
    boot_loader: Annotated[str, Meta(description="The boot loader that was found.")] = ""
    reboot_refused: Annotated[
        str, Meta(description="Why the agent does not reboot the node although it may.")
    ] = ""


class HostPreparation(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """How far one node is prepared."""

    api_version: str = API_VERSION
    kind: str = "HostPreparation"
    metadata: ObjectMeta = ObjectMeta()
    spec: HostPreparationSpec = HostPreparationSpec()
    status: HostPreparationStatus = HostPreparationStatus()
