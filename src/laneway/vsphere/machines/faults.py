"""What a fault of vCenter means for the machine that caused it.

Decided by the fault's type, which no language changes, and never by its text. Whatever is not named
here may pass: it is tried again, less and less often.
"""

from __future__ import annotations

import re

from laneway.core.vsphere.inventory.vms import Fault
from laneway.vsphere.port import FaultError, NotFoundInVCenterError, VCenterError

NOT_FOUND = "NotFoundInVCenter"
UNREACHABLE = "VCenterUnreachable"

_TERMINAL = frozenset(
    {
        "CannotUseNetwork",
        "DeviceNotSupported",
        "DeviceUnsupportedForVmPlatform",
        "DeviceUnsupportedForVmVersion",
        "DuplicateName",
        "InvalidArgument",
        "InvalidDatastorePath",
        "InvalidDeviceBacking",
        "InvalidDeviceSpec",
        "InvalidDiskSize",
        "InvalidName",
        "InvalidRequest",
        "InvalidVmConfig",
        "MissingDevice",
        "NoPermission",
        "NotSupported",
        "PassthroughNotSupported",
        "VirtualHardwareVersionNotSupported",
        NOT_FOUND,
    }
)
_ELSEWHERE = frozenset(
    {
        "AgentInstallFailed",
        "CannotAccessVmDevice",
        "DisallowedOperationOnFailoverHost",
        "HostNotConnected",
        "InsufficientCpuResourcesFault",
        "InsufficientFailoverResourcesFault",
        "InsufficientGraphicsResourcesFault",
        "InsufficientHostCapacityFault",
        "InsufficientHostMemoryCapacityFault",
        "InsufficientMemoryFault",
        "InsufficientResourcesFault",
        "NoCompatibleHost",
        "NoCompatibleHostWithAccessToDevice",
        "NoHostSuitableForFtSecondary",
        "VmConfigIncompatibleForRecordReplay",
    }
)
_SHARED = frozenset(
    {
        "CannotAccessFile",
        "CannotAccessLocalSource",
        "CannotAccessNetwork",
        "CannotAccessVmComponent",
        "CannotAccessVmConfig",
        "CannotAccessVmDisk",
        "DatastoreNotWritableOnHost",
        "InaccessibleDatastore",
    }
)
"""Of storage and networks, which one host may have lost, or all of them for a while."""
_TOO_MANY = frozenset({"InvalidArgument", "InvalidDeviceSpec", "InvalidDeviceOperation"})
_REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")


def is_terminal(fault: Fault) -> bool:
    """The same order would meet the same fault until something changes."""
    return fault.type in _TERMINAL


def is_of_host(fault: Fault) -> bool:
    """Another host might do what this one did not."""
    return fault.type in _ELSEWHERE


def may_be_of_host(fault: Fault) -> bool:
    """Another host might do it, if this one goes on failing; or none until it has passed."""
    return fault.type in _SHARED


def is_of_request(fault: Fault) -> bool:
    """Devices that cannot be had in one request might be had one by one."""
    return fault.type in _TOO_MANY


def fault_of(error: VCenterError) -> Fault:
    """The same, of an order that was not even taken."""
    match error:
        case FaultError():
            return error.fault
        case NotFoundInVCenterError():
            return Fault(NOT_FOUND, str(error))
        case _:
            return Fault(UNREACHABLE, str(error))


def reason_of(fault: Fault) -> str:
    """The reason of a condition, which not every text may be."""
    return fault.type if _REASON.fullmatch(fault.type) else "Fault"
