"""SRIOVNetworkDevice: physical network functions that can have virtual ones.

Cards that the node itself needs are left out, as the contract has it: dividing one resets it.
"""

from __future__ import annotations

from collections.abc import Mapping

from laneway.api import (
    SRIOV_NETWORK_DISABLED,
    SRIOV_NETWORK_ENABLED,
    ObjectMeta,
    SRIOVNetworkDevice,
    SRIOVNetworkDeviceSpec,
    SRIOVNetworkDeviceStatus,
    Status,
)
from laneway.controllers.devices.family import Family, ready, unreadable
from laneway.controllers.devices.wishes import answer
from laneway.core import keys, names
from laneway.core.inventory import Inventory


def wanted(inventory: Inventory, node: str) -> Mapping[str, SRIOVNetworkDevice]:
    """One object per interface of a physical function with SR-IOV."""
    functions = {function.address: function for function in inventory.functions}
    objects = {}
    for interface in inventory.interfaces:
        function = functions.get(interface.address)
        if function is None or function.total_vfs is None or function.address in inventory.critical:
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
                conditions=[ready("Observed", f"The card has {function.num_vfs} VFs.")],
            ),
        )
    return objects


def status(stored: SRIOVNetworkDevice, wanted: SRIOVNetworkDevice) -> Status:
    """What is, and whether it is what the spec asks for."""
    return answer(
        wanted.status,
        asked=stored.spec.num_vfs,
        actual=wanted.spec.num_vfs,
        wish=f"change the number of VFs to {stored.spec.num_vfs}",
        state=f"The card has {wanted.spec.num_vfs}; set spec.numVFs back to that.",
    )


def keep(stored: SRIOVNetworkDevice, inventory: Inventory) -> bool:
    """A card that could not be read is not gone."""
    return unreadable(inventory, [stored.spec.address])


FAMILY = Family(SRIOVNetworkDevice, wanted, status, keep)
