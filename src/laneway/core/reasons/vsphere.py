"""Reasons about vCenters, and devices of machines on vSphere."""

from __future__ import annotations

from laneway.core.reasons.text import ReasonText

_VSPHERE = "vSphere"
_VCENTERS = "vCenters and Machines on vSphere"

REASONS = (
    ReasonText(
        "NoHostInDomain",
        _VSPHERE,
        on="VSphereVM, VSphereMachine",
        meaning="No host of the failure domain has devices.",
        remedy=(
            "Choose a failure domain in the message, or enable passthrough or Shared Direct on "
            "its hosts."
        ),
    ),
    ReasonText(
        "DeviceNotOffered",
        _VSPHERE,
        on="VSphereVM, VSphereMachine",
        meaning="No host of the failure domain offers the device, profile, label or device group.",
        remedy="Correct the name, or request what the message lists.",
    ),
    ReasonText(
        "HostsTooSmall",
        _VSPHERE,
        on="VSphereVM, VSphereMachine",
        meaning=(
            "All devices of a VM come from one host, and no host has that many, even when empty."
        ),
        remedy="Request fewer devices for one Machine.",
    ),
    ReasonText(
        "NoRoom",
        _VSPHERE,
        on="VSphereVM, VSphereMachine",
        meaning=(
            "Hosts have the devices, and none has all of them free. The message says who holds "
            "them."
        ),
        remedy="Free some, bring a host back from maintenance, or wait.",
    ),
    ReasonText(
        "ResourcePoolUnresolved",
        _VSPHERE,
        on="VSphereVM, VSphereMachine",
        meaning="vCenter has no resource pool of this name or path, or several.",
        remedy="Write the whole path: `/DC0/host/C1/Resources/team`.",
    ),
    ReasonText(
        "FieldNotSupported",
        _VSPHERE,
        on="VSphereVM, VSphereMachine",
        meaning="The spec uses fields that Laneway's controllers do not implement.",
        remedy="Remove the fields in the message, or run Laneway alongside CAPV's controllers.",
    ),
    ReasonText(
        "Following",
        _VCENTERS,
        on="VCenter",
        meaning="Laneway follows the vCenter.",
        remedy="Nothing.",
    ),
    ReasonText(
        "Connecting",
        _VCENTERS,
        on="VCenter",
        meaning="Laneway logs in.",
        remedy="Wait.",
    ),
    ReasonText(
        "NoCredentials",
        _VCENTERS,
        on="VCenter",
        meaning="The Secret is missing, cannot be read, or holds no valid user or password.",
        remedy=(
            "Correct the Secret, or add its namespace to `manager.vsphere.secretNamespaces` of "
            "the chart."
        ),
    ),
    ReasonText(
        "LoginRefused",
        _VCENTERS,
        on="VCenter",
        meaning="vCenter refuses the user, or its certificate is not the expected one.",
        remedy=(
            "Correct the Secret, `thumbprint` or `caBundle`. Laneway retries every 15 minutes, "
            "so that no account is locked."
        ),
    ),
    ReasonText(
        "Unreachable",
        _VCENTERS,
        on="VCenter",
        meaning="vCenter does not answer.",
        remedy="Check the network, `spec.server` and vCenter. Laneway retries every minute.",
    ),
    ReasonText(
        "Misconfigured",
        _VCENTERS,
        on="VCenter",
        meaning="The spec has no server or no Secret.",
        remedy="Correct the spec.",
    ),
    ReasonText(
        "Duplicate",
        _VCENTERS,
        on="VCenter",
        meaning="Another VCenter has the same server.",
        remedy="Delete one of them.",
    ),
    ReasonText(
        "Failed",
        _VCENTERS,
        on="VCenter",
        meaning="A defect of Laneway.",
        remedy="Report the traceback in the log of the manager.",
    ),
    ReasonText(
        "InvalidSpec",
        _VCENTERS,
        on="VSphereVM, VSphereMachine",
        meaning="The spec has a value that the webhook would have refused.",
        remedy="Correct the template as the message says.",
    ),
    ReasonText(
        "BootstrapDataUnusable",
        _VCENTERS,
        on="VSphereVM, VSphereMachine",
        meaning=(
            "The Secret with the bootstrap data is missing or empty, or the manager cannot read it."
        ),
        remedy=(
            "Wait for the bootstrap provider, or add the namespace to "
            "`manager.vsphere.secretNamespaces` of the chart."
        ),
    ),
    ReasonText(
        "DevicesNotReady",
        _VCENTERS,
        on="VSphereMachine",
        meaning="The VM does not have all of its devices.",
        remedy="See `PCIDevicesReady`.",
    ),
    ReasonText(
        "WorkloadClusterUnreachable",
        _VCENTERS,
        on="VSphereMachine",
        meaning=(
            "The workload cluster does not answer, or its Secret `<cluster>-kubeconfig` is not "
            "usable."
        ),
        remedy="See the message. Laneway retries every 15 seconds.",
    ),
    ReasonText(
        "KubeconfigForbidden",
        _VCENTERS,
        on="VSphereMachine",
        meaning="The manager may not read the kubeconfig of the workload cluster.",
        remedy="Add its namespace to `manager.vsphere.secretNamespaces` of the chart.",
    ),
    ReasonText(
        "NoGPUResource",
        _VCENTERS,
        on="VSphereMachine",
        meaning="The node has fewer `nvidia.com/gpu` than the VM has GPUs.",
        remedy="Install NVIDIA's GPU operator in the workload cluster.",
    ),
    ReasonText(
        "VectorAddRunning",
        _VCENTERS,
        on="VSphereMachine",
        meaning="The test Job runs, or waits for a GPU or its image.",
        remedy="Wait. It ends after 15 minutes.",
    ),
    ReasonText(
        "VectorAddSucceeded",
        _VCENTERS,
        on="VSphereMachine",
        meaning="The test Job has used a GPU.",
        remedy="Nothing.",
    ),
    ReasonText(
        "VectorAddFailed",
        _VCENTERS,
        on="VSphereMachine",
        meaning="The test Job failed. Laneway retries after 30 minutes.",
        remedy=(
            "Check the driver on the node, free a GPU, or set `manager.vsphere.vectorAddImage` "
            "to an image that nodes can pull."
        ),
    ),
)
