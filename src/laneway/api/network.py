"""SRIOVNetworkDevice: a network card that can be divided into virtual functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta, field

from laneway.api.fields import API_VERSION, Address, NodeName
from laneway.api.meta import ObjectMeta, Status

SRIOV_NETWORK_ENABLED = "sriovNetworkDeviceEnabled"
SRIOV_NETWORK_DISABLED = "sriovNetworkDeviceDisabled"


class SRIOVNetworkDeviceSpec(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False
):
    """The desired virtual functions."""

    address: Address = ""
    node_name: NodeName = ""
    num_vfs: Annotated[
        int,
        Meta(description="Virtual functions; 0 for none.", extra_json_schema={"minimum": 0}),
    ] = field(default_factory=int, name="numVFs")


class SRIOVNetworkDeviceStatus(Status, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The card's virtual functions."""

    vf_addresses: Annotated[
        Sequence[str], Meta(description="PCI addresses of the virtual functions, in order.")
    ] = []
    vf_pci_devices: Annotated[
        Sequence[str], Meta(description="Names of their PCIDevices, in the same order.")
    ] = field(default_factory=list, name="vfPCIDevices")
    status: Annotated[
        str,
        Meta(
            description="sriovNetworkDeviceEnabled or sriovNetworkDeviceDisabled; "
            "empty until the first change."
        ),
    ] = ""


class SRIOVNetworkDevice(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """A physical network card with SR-IOV."""

    api_version: str = API_VERSION
    kind: str = "SRIOVNetworkDevice"
    metadata: ObjectMeta = ObjectMeta()
    spec: SRIOVNetworkDeviceSpec = SRIOVNetworkDeviceSpec()
    status: SRIOVNetworkDeviceStatus = SRIOVNetworkDeviceStatus()
