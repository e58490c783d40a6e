"""Reasons of the driver toolkit: what it records on a node, and how upgrades go."""

from __future__ import annotations

from laneway.core.reasons.text import ReasonText

_DRIVERS = "Driver toolkit"
_NODE = "Node"
_EVENT = "event on the DaemonSet, and on a node"
_PODS = "See its pods: `kubectl get pods -A --selector app=nvidia-driver-daemonset`."

REASONS = (
    ReasonText(
        "DriverReady",
        _DRIVERS,
        on=_NODE,
        meaning="The driver that was requested is in service.",
        remedy="Nothing.",
    ),
    ReasonText(
        "DriverInstalling",
        _DRIVERS,
        on=_NODE,
        meaning="The toolkit downloads, builds or loads the driver; the message says how far.",
        remedy="Wait. The first build on a node takes minutes.",
    ),
    ReasonText(
        "DriverNotStarted",
        _DRIVERS,
        on=_NODE,
        meaning="The node has booted, and no container of the toolkit has begun since.",
        remedy=_PODS,
    ),
    ReasonText(
        "DriverStopped",
        _DRIVERS,
        on=_NODE,
        meaning="The container of the toolkit has ended, and no other has begun.",
        remedy=_PODS,
    ),
    ReasonText(
        "DriverNotLoaded",
        _DRIVERS,
        on=_NODE,
        meaning="The toolkit recorded a driver as ready that the kernel does not have.",
        remedy="Delete the driver pod of the node.",
    ),
    ReasonText(
        "DriverFailed",
        _DRIVERS,
        on=_NODE,
        meaning="The driver cannot be used, and the toolkit's record gives no known cause.",
        remedy="See the log of the driver pod.",
    ),
    ReasonText(
        "DriverStateUnreadable",
        _DRIVERS,
        on=_NODE,
        meaning="The toolkit's record on the node cannot be read.",
        remedy="See the message. A new driver pod writes the record again.",
    ),
    ReasonText(
        "NoDriverToolkit",
        _DRIVERS,
        on=_NODE,
        meaning="The driver toolkit has left no record on the node.",
        remedy="Nothing.",
    ),
    ReasonText(
        "SettingsInvalid",
        _DRIVERS,
        on=_NODE,
        meaning="A value of `driverToolkit` cannot be used.",
        remedy="Correct what the message names.",
    ),
    ReasonText(
        "PackageNotFound",
        _DRIVERS,
        on=_NODE,
        meaning="The package is not at `driverToolkit.location`, or may not be fetched from there.",
        remedy="Correct `driverToolkit.location`.",
    ),
    ReasonText(
        "RedirectRefused",
        _DRIVERS,
        on=_NODE,
        meaning="The server redirects to a place that is not encrypted, or needs a user.",
        remedy="Set `driverToolkit.location` to the final address.",
    ),
    ReasonText(
        "DownloadFailed",
        _DRIVERS,
        on=_NODE,
        meaning="The server or the proxy does not answer, or the download was cut off.",
        remedy="Nothing: the download continues from there. If the proxy answers with a "
        "status, correct `driverToolkit.proxy`.",
    ),
    ReasonText(
        "HashMismatch",
        _DRIVERS,
        on=_NODE,
        meaning="The package has another SHA-256 than `driverToolkit.sha256`, and was not run.",
        remedy="Compare it with the file from NVIDIA: `sha256sum FILE`.",
    ),
    ReasonText(
        "NodeFull",
        _DRIVERS,
        on=_NODE,
        meaning="The toolkit cannot write to the node.",
        remedy="Free some space where the message says.",
    ),
    ReasonText(
        "HeadersMissing",
        _DRIVERS,
        on=_NODE,
        meaning="The headers of the running kernel are not on the node.",
        remedy="Install the package that the message names.",
    ),
    ReasonText(
        "OtherDriverLoaded",
        _DRIVERS,
        on=_NODE,
        meaning="nouveau holds the GPUs.",
        remedy="Boot the node with `modprobe.blacklist=nouveau`. A HostPolicy can do that.",
    ),
    ReasonText(
        "BuildFailed",
        _DRIVERS,
        on=_NODE,
        meaning="The kernel modules cannot be built. The message has the errors.",
        remedy="Use a driver that supports the node's kernel.",
    ),
    ReasonText(
        "LoadFailed",
        _DRIVERS,
        on=_NODE,
        meaning="The kernel does not load the modules. The message has its words.",
        remedy="See the message. With Secure Boot, only signed modules load.",
    ),
    ReasonText(
        "VersionMismatch",
        _DRIVERS,
        on=_NODE,
        meaning="The package has another version than `driverToolkit.version`.",
        remedy="Set `driverToolkit.version` to the version of the package.",
    ),
    ReasonText(
        "DriverInUse",
        _DRIVERS,
        on=_NODE,
        meaning="Something holds the present driver, so it is not replaced.",
        remedy="Stop the VMs and processes that the message names, and remove the vGPUs.",
    ),
    ReasonText(
        "UseUnknown",
        _DRIVERS,
        on=_NODE,
        meaning="The toolkit cannot read whether the present driver is in use.",
        remedy="See the message.",
    ),
    ReasonText(
        "DriverSilent",
        _DRIVERS,
        on=_NODE,
        meaning="The driver is loaded, and `nvidia-smi` gets no answer.",
        remedy="See the log of the driver pod, and the kernel's log of the node.",
    ),
    ReasonText(
        "DaemonFailed",
        _DRIVERS,
        on=_NODE,
        meaning="`nvidia-vgpud` or `nvidia-vgpu-mgr` does not run.",
        remedy="See the log of the driver pod.",
    ),
    ReasonText(
        "AnotherToolkit",
        _DRIVERS,
        on=_NODE,
        meaning="Another driver toolkit runs on the node.",
        remedy="Disable one of the two.",
    ),
    ReasonText(
        "DriverUpgrade",
        _DRIVERS,
        on=_EVENT,
        meaning="The manager replaces the driver pod of a node.",
        remedy="Nothing.",
    ),
    ReasonText(
        "DriverUpgradeWaits",
        _DRIVERS,
        on=_EVENT,
        meaning="VMs or vGPUs of the remaining nodes need the present driver.",
        remedy="Release the vGPUs of the nodes that the message names, and stop VMs with devices.",
    ),
    ReasonText(
        "DriverUpgradeStopped",
        _DRIVERS,
        on=_EVENT,
        meaning="The new driver of a node is not in service, so no other node follows.",
        remedy="See the message, and correct `driverToolkit`.",
    ),
)
