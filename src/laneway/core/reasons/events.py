"""Reasons of events, and of conditions that are as they should be."""

from __future__ import annotations

from laneway.core.reasons.text import ReasonText

_EVENTS = "Events and good states"

REASONS = (
    ReasonText(
        "Configured",
        _EVENTS,
        on="VGPUDevice, MigConfiguration",
        meaning="The vGPU or the GPU instances are configured.",
        remedy="Nothing.",
    ),
    ReasonText(
        "Removed",
        _EVENTS,
        on="VGPUDevice, MigConfiguration",
        meaning="The vGPU or the GPU instances were removed.",
        remedy="Nothing.",
    ),
    ReasonText(
        "Enabled",
        _EVENTS,
        on="SRIOVGPUDevice, SRIOVNetworkDevice",
        meaning="The virtual functions exist.",
        remedy="Nothing.",
    ),
    ReasonText(
        "Disabled",
        _EVENTS,
        on="SRIOVGPUDevice, SRIOVNetworkDevice, MigConfiguration",
        meaning="Nothing is requested, and nothing exists.",
        remedy="Nothing.",
    ),
    ReasonText(
        "ModeChanged",
        _EVENTS,
        on="SRIOVGPUDevice",
        meaning="The mode of the GPU has changed.",
        remedy="Nothing.",
    ),
    ReasonText(
        "Synced",
        _EVENTS,
        on="MigConfiguration",
        meaning="The GPU instances are as requested.",
        remedy="Nothing.",
    ),
    ReasonText(
        "HardwareChanged",
        _EVENTS,
        on="every kind with a desired state",
        meaning=(
            "Laneway wrote to the hardware for this object, or tried to. The message has the steps "
            "and the user who requested it. A warning: a step failed."
        ),
        remedy="Nothing. Of a warning, see `Ready`.",
    ),
    ReasonText(
        "Done",
        _EVENTS,
        on="VGPULayout",
        meaning="Every selected GPU is as requested.",
        remedy="Nothing.",
    ),
    ReasonText(
        "Bound",
        _EVENTS,
        on="PCIDeviceClaim, USBDeviceClaim",
        meaning="The device is bound to vfio-pci, or permitted to VMs.",
        remedy="Nothing.",
    ),
    ReasonText(
        "Released",
        _EVENTS,
        on="PCIDeviceClaim, USBDeviceClaim",
        meaning="The device is released, and its node can use it again.",
        remedy="Nothing.",
    ),
    ReasonText(
        "Permitted",
        _EVENTS,
        on="PCIDeviceClaim, USBDeviceClaim, VGPUDevice",
        meaning="KubeVirt permits the device.",
        remedy="Nothing.",
    ),
    ReasonText(
        "Advertised",
        _EVENTS,
        on="PCIDeviceClaim, USBDeviceClaim, VGPUDevice",
        meaning="The kubelet advertises the device.",
        remedy="Nothing.",
    ),
    ReasonText(
        "Available",
        _EVENTS,
        on="PCIDeviceClaim, USBDeviceClaim",
        meaning="VMs can request the device.",
        remedy="Nothing.",
    ),
    ReasonText(
        "Allocated",
        _EVENTS,
        on="PCIDeviceClaim, USBDeviceClaim",
        meaning="A VM or pod has the device.",
        remedy="Nothing.",
    ),
    ReasonText(
        "Free",
        _EVENTS,
        on="PCIDevice, USBDevice",
        meaning="The node does not need the device.",
        remedy="Nothing.",
    ),
    ReasonText(
        "Observed",
        _EVENTS,
        on="PCIDevice, USBDevice, Node",
        meaning="The status is what the kernel reports.",
        remedy="Nothing.",
    ),
    ReasonText(
        "SriovEnabled",
        _EVENTS,
        on="PCIDevice",
        meaning="The GPU can have virtual functions.",
        remedy="Nothing.",
    ),
    ReasonText(
        "Received",
        _EVENTS,
        on="Node",
        meaning="Kernel events arrive.",
        remedy="Nothing.",
    ),
    ReasonText(
        "Unavailable",
        _EVENTS,
        on="Node",
        meaning="Kernel events cannot be received, so Laneway scans every 30 seconds.",
        remedy="See the message.",
    ),
    ReasonText(
        "Renumbered",
        _EVENTS,
        on="SRIOVGPUDevice, VGPUDevice, MigConfiguration",
        meaning="The card moved to another address, and its configuration followed.",
        remedy="Nothing.",
    ),
    ReasonText(
        "Reverted",
        _EVENTS,
        on="VGPUDevice, SRIOVGPUDevice, MigConfiguration",
        meaning="A VGPULayout owns the GPU, so a change of this object was undone.",
        remedy="Change the layout.",
    ),
    ReasonText(
        "ResourceNameCollision",
        _EVENTS,
        on="KubeVirt, PCIDeviceClaim",
        meaning="Two models have one resource name, so VMs get a device of either.",
        remedy="Set the annotation in the message on the claims of one of them.",
    ),
    ReasonText(
        "PermittedDevicesContested",
        _EVENTS,
        on="KubeVirt",
        meaning="Another program keeps changing Laneway's entries of permitted devices.",
        remedy="Stop the program that the message names.",
    ),
    ReasonText(
        "CertificateCreated",
        _EVENTS,
        on="Secret",
        meaning="The webhook has its first certificate.",
        remedy="Nothing.",
    ),
    ReasonText(
        "CertificatePrepared",
        _EVENTS,
        on="Secret",
        meaning="A new certificate authority is being introduced.",
        remedy="Nothing.",
    ),
    ReasonText(
        "CertificateReplaced",
        _EVENTS,
        on="Secret",
        meaning="The webhook has a new certificate.",
        remedy="Nothing.",
    ),
    ReasonText(
        "OldCARemoved",
        _EVENTS,
        on="Secret",
        meaning="The old certificate authority is no longer trusted.",
        remedy="Nothing.",
    ),
)
