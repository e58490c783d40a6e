"""Reasons about the machine pools of guest clusters."""

from __future__ import annotations

from laneway.core.reasons.text import ReasonText

_POOLS = "Machine pools"
_ON = "`laneway pools`, HarvesterConfig, Cluster"
_ON_SETS = f"{_ON}, MachineDeployment"

REASONS = (
    ReasonText(
        "InsufficientCompute",
        _POOLS,
        on=_ON,
        meaning="The nodes with the devices have too little CPU or memory.",
        remedy="Request smaller or fewer machines, or move other VMs off these nodes.",
    ),
    ReasonText(
        "MachinePoolInvalid",
        _POOLS,
        on="HarvesterConfig, Cluster",
        meaning="A field of a pool, or of its machine configuration, has a mistake.",
        remedy="Correct the field that the message names.",
    ),
    ReasonText(
        "MachinePoolShort",
        _POOLS,
        on="HarvesterConfig, Cluster",
        meaning="Not all machines of a pool could start.",
        remedy="Request fewer machines or devices, or free the devices that the message names.",
    ),
    ReasonText(
        "MachinesCompete",
        _POOLS,
        on=_ON_SETS,
        meaning="Each pool would fit alone; all of them do not.",
        remedy="Request fewer machines or devices in one of them.",
    ),
    ReasonText(
        "MachinesHaveNoRoom",
        _POOLS,
        on="HarvesterConfig, Cluster",
        meaning="Not all machines of a pool could start, and the requester may not know why.",
        remedy="Request fewer machines or devices, or ask a user who may read the Secret of the "
        "cloud credential.",
    ),
    ReasonText(
        "PlacementUncertain",
        _POOLS,
        on=_ON_SETS,
        meaning="Pools compete for the same nodes, and it depends on the scheduler who fits.",
        remedy="Bind the pools to different nodes, or leave more devices free.",
    ),
    ReasonText(
        "RoomUncertain",
        _POOLS,
        on="HarvesterConfig, Cluster",
        meaning="Machines of a pool may not start or not be replaced, and the requester may not "
        "know why.",
        remedy="Request fewer machines or devices, or ask a user who may read the Secret of the "
        "cloud credential.",
    ),
    ReasonText(
        "SurgeBlocked",
        _POOLS,
        on=_ON_SETS,
        meaning="A rolling update has no room for the machine that it creates first.",
        remedy="Free the devices that the message names, or set maxSurge to 0 and maxUnavailable "
        "to 1.",
    ),
)
