"""Reasons about preparing hosts: kernel arguments, boot loaders, drivers at boot."""

from __future__ import annotations

from laneway.core.reasons.text import ReasonText

_HOSTS = "Preparing hosts"
_ON = "HostPolicy, HostPreparation"
_POLICY = "HostPolicy"
_NODE = "HostPreparation"

REASONS = (
    ReasonText(
        "PreparationInvalid",
        _HOSTS,
        on=_ON,
        meaning="A kernel argument, driver or size of huge pages that is requested is not allowed.",
        remedy="Change what the message names.",
    ),
    ReasonText(
        "KernelArgumentConflict",
        _HOSTS,
        on=_ON,
        meaning="An administrator wrote a kernel argument that contradicts what is requested.",
        remedy="Remove it from the file that the message names, or do not request the other.",
    ),
    ReasonText(
        "BootLoaderUnknown",
        _HOSTS,
        on=_ON,
        meaning="Laneway does not know what boots the host.",
        remedy="Add the words of the message to the kernel command line, and reboot the host.",
    ),
    ReasonText(
        "BootConfigurationDamaged",
        _HOSTS,
        on=_ON,
        meaning="A kernel or initial RAM disk is missing, or a configuration is incomplete.",
        remedy="Repair what the message names: `update-grub`, `update-initramfs -u`.",
    ),
    ReasonText(
        "BootConfigurationUnreadable",
        _HOSTS,
        on=_ON,
        meaning="Files of the boot loader cannot be read.",
        remedy="Run Laneway as root of the host; the agent needs the node's `/` at `/host`. The "
        "files must be text in UTF-8.",
    ),
    ReasonText(
        "RequirementImpossible",
        _HOSTS,
        on=_ON,
        meaning="The host's firmware or kernel lacks what is requested.",
        remedy="See the message: often the IOMMU (VT-d, AMD-Vi) is off in the firmware.",
    ),
    ReasonText(
        "HostPolicyInvalid",
        _HOSTS,
        on=_POLICY,
        meaning="A policy requests what no host can have, or what administrators decide.",
        remedy="Change what the message names.",
    ),
    ReasonText(
        "InvalidPolicy",
        _HOSTS,
        on=_POLICY,
        meaning="The same of a policy that is stored. Its nodes stay as they are.",
        remedy="Change what the message names.",
    ),
    ReasonText(
        "NoNodeMatches",
        _HOSTS,
        on=_POLICY,
        meaning="No node has the labels and names of the selector.",
        remedy="Check `spec.nodeSelector`: `kubectl get nodes --show-labels`.",
    ),
    ReasonText(
        "PolicyContradiction",
        _HOSTS,
        on=_POLICY,
        meaning="Two policies request different things of the same node, which stays as it is.",
        remedy="Change one of the policies that the message names.",
    ),
    ReasonText(
        "NodeFailed",
        _HOSTS,
        on=_POLICY,
        meaning="A node could not be prepared, or its reboot failed. No further node reboots.",
        remedy="See the message. Once the cause is gone: `laneway hosts reboot NODE`.",
    ),
    ReasonText(
        "RolledOut",
        _HOSTS,
        on=_POLICY,
        meaning="Every node is as the policy requests.",
        remedy="Nothing.",
    ),
    ReasonText(
        "Staged",
        _HOSTS,
        on=_NODE,
        meaning="Everything is written, and takes effect at the next boot.",
        remedy="Wait for the roll-out, or reboot the node.",
    ),
    ReasonText(
        "HostReady",
        _HOSTS,
        on=_NODE,
        meaning="The node is as its policies request.",
        remedy="Nothing.",
    ),
    ReasonText(
        "HostNotPrepared",
        _HOSTS,
        on=_NODE,
        meaning="The node cannot be prepared.",
        remedy="See the message.",
    ),
    ReasonText(
        "RebootRefused",
        _HOSTS,
        on=_NODE,
        meaning="The agent does not reboot the node: it might not boot, or a VM holds a device.",
        remedy="Repair what the message names.",
    ),
    ReasonText(
        "InvalidValue",
        _HOSTS,
        on="Setting",
        meaning="The value of the setting is neither `true` nor `false`.",
        remedy="Set one of the two.",
    ),
    ReasonText(
        "HostRollout",
        _HOSTS,
        on="event on a node",
        meaning="The stage of a node's roll-out has changed.",
        remedy="Nothing.",
    ),
    ReasonText(
        "HostPrepared",
        _HOSTS,
        on="event on a HostPreparation",
        meaning="The stage of a node's preparation has changed.",
        remedy="Nothing.",
    ),
    ReasonText(
        "Planned",
        _HOSTS,
        on=_NODE,
        meaning="The roll-out is paused, and something is to be written.",
        remedy="Look at `laneway hosts list NODE`, then set `spec.rollout.paused` to false.",
    ),
    ReasonText(
        "Paused",
        _HOSTS,
        on=_POLICY,
        meaning="The roll-out is paused: nothing is written, and no node reboots.",
        remedy="Set `spec.rollout.paused` to false.",
    ),
)
