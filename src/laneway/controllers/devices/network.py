"""SRIOVNetworkDevice: physical network functions that can have virtual ones.

Cards that the node itself uses get no object, as the contract has it: dividing one resets it. An
object that is there when its card comes into use stays, for it says how many functions are asked
for.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from laneway.api import (
    SRIOV_NETWORK_DISABLED,
    SRIOV_NETWORK_ENABLED,
    ObjectMeta,
    SRIOVNetworkDevice,
    SRIOVNetworkDeviceSpec,
    SRIOVNetworkDeviceStatus,
    find_condition,
)
from laneway.controllers.devices.family import Family, ready, unreadable
from laneway.controllers.devices.outcome import IN_PROGRESS, Answers, explicit
from laneway.core import keys, names
from laneway.core.inventory import Inventory
from laneway.core.pci import PciAddress
from laneway.core.sriov.desired import DesiredVfs

ANSWERS = Answers(
    settled={"Enabled", "Disabled", "UnmanagedVfs", "UnmanagedVfCount"},
    absent={"Disabled", "UnmanagedVfs"},
)


def wanted(inventory: Inventory, node: str) -> Mapping[str, SRIOVNetworkDevice]:
    """One object per interface of a physical function with SR-IOV."""
    objects = {}
    for interface in inventory.interfaces:
        function = inventory.function(interface.address)
        if function is None or function.total_vfs is None:
            continue
        name = names.network_object_name(node, interface.name)
        objects[name] = SRIOVNetworkDevice(
            metadata=ObjectMeta(
                name=name,
                labels={keys.LABEL_NODE: node},
                annotations={keys.ANNOTATION_INTERFACE: interface.name},
            ),
            spec=SRIOVNetworkDeviceSpec(
                address=str(function.address), node_name=node, num_vfs=function.num_vfs
            ),
            status=SRIOVNetworkDeviceStatus(
                vf_addresses=[str(address) for address in function.vfs],
                vf_pci_devices=[names.pci_object_name(node, vf) for vf in function.vfs],
                status=SRIOV_NETWORK_ENABLED if function.num_vfs else SRIOV_NETWORK_DISABLED,
            ),
        )
    return objects


def desired(stored: SRIOVNetworkDevice, shown: SRIOVNetworkDevice) -> DesiredVfs:
    """What the object requests in view of what is."""
    return DesiredVfs(
        address=PciAddress.parse(shown.spec.address),
        count=stored.spec.num_vfs,
        restores=_was_met(stored),
        explicit=explicit(
            stored,
            ANSWERS,
            asks=stored.spec.num_vfs != 0,
            seen=list(stored.status.vf_addresses) == list(shown.status.vf_addresses),
        ),
    )


def _was_met(stored: SRIOVNetworkDevice) -> bool:
    """Whether this very spec has been met, or was about to be, when it was last looked at."""
    said = find_condition(stored.status.conditions, "Ready")
    return (
        said is not None
        and said.reason in ("Enabled", IN_PROGRESS)
        and said.observed_generation == stored.metadata.generation
    )


def status(stored: SRIOVNetworkDevice, shown: SRIOVNetworkDevice) -> SRIOVNetworkDeviceStatus:
    """What is, where that is what the spec requests."""
    if stored.spec.num_vfs:
        condition = ready("Enabled", f"The card has {stored.spec.num_vfs} virtual functions.")
    else:
        condition = ready(
            "Disabled", "No virtual functions are requested, and the device has none."
        )
    return msgspec.structs.replace(shown.status, conditions=[condition])


def keep(stored: SRIOVNetworkDevice, inventory: Inventory) -> bool:
    """A card that could not be read is not gone."""
    return unreadable(inventory, [stored.spec.address])


FAMILY = Family(SRIOVNetworkDevice, wanted, status, keep)
