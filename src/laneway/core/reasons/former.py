"""Reasons that an earlier release wrote, as this one calls them.

A stored reason says in view of what a desired state was written (`controllers/devices/outcome.py`),
so a reason that was renamed must mean the same after an upgrade: else what Laneway did not make
would look like something to be removed. The webhook judges by stored reasons as well, and is
upgraded before the agents are. Only reasons that are read back are listed.
"""

from __future__ import annotations

_FORMER = {
    "ConfiguredElsewhere": "UnmanagedVgpu",
    "FunctionMissing": "VfNotFound",
    "GpuPreparing": "GpuNotReady",
    "GroupMateCritical": "GroupMemberCritical",
    "GroupMateInUse": "GroupMemberInUse",
    "InstancesElsewhere": "UnmanagedInstances",
    "ModeElsewhere": "UnmanagedMode",
    "OtherCard": "CardReplaced",
    "OtherInstances": "ExtraInstances",
    "OtherProfileRunning": "UnmanagedProfile",
    "OtherVfCount": "UnmanagedVfCount",
    "VfsElsewhere": "UnmanagedVfs",
    "VgpuDevicesLeft": "DeletingVgpuDevices",
    "VgpuDevicesMissing": "CreatingVgpuDevices",
}


def renamed(reason: str) -> str:
    """What a stored reason is called now."""
    return _FORMER.get(reason, reason)
