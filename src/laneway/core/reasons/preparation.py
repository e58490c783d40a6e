"""Reasons about preparing hosts: kernel arguments, boot loaders, drivers at boot."""

from __future__ import annotations

from laneway.core.reasons.text import ReasonText

_HOSTS = "Preparing hosts"
_ON = "HostPolicy, HostPreparation"

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
        remedy="Run Laneway as root of the host. The agent needs the node's `/` at `/host`.",
    ),
    ReasonText(
        "RequirementImpossible",
        _HOSTS,
        on=_ON,
        meaning="The host's firmware or kernel lacks what is requested.",
        remedy="See the message: often the IOMMU (VT-d, AMD-Vi) is off in the firmware.",
    ),
)
