"""Which kinds there are, and where the API serves each."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from laneway.api.fields import GROUP, VERSION
from laneway.api.gpu import MigConfiguration, SRIOVGPUDevice, VGPUDevice
from laneway.api.host import HostPolicy, HostPreparation
from laneway.api.layout import VGPULayout
from laneway.api.network import SRIOVNetworkDevice
from laneway.api.nodes import CoreNode, DeviceNode
from laneway.api.pci import PCIDevice, PCIDeviceClaim
from laneway.api.setting import SETTING_GROUP, Setting
from laneway.api.usb import USBDevice, USBDeviceClaim
from laneway.api.vsphere import VCenter, VSphereHost, VSphereReservation

Object: TypeAlias = (
    PCIDevice
    | PCIDeviceClaim
    | SRIOVNetworkDevice
    | DeviceNode
    | SRIOVGPUDevice
    | VGPUDevice
    | USBDevice
    | USBDeviceClaim
    | MigConfiguration
    | VGPULayout
    | HostPolicy
    | HostPreparation
    | VCenter
    | VSphereHost
    | VSphereReservation
    | CoreNode
    | Setting
)


class KindInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One kind: its type and its place in the API."""

    type: type[Object]
    kind: str
    plural: str
    group: str = GROUP
    """Empty for the core group."""
    version: str = VERSION
    namespaced: bool = False
    short_names: tuple[str, ...] = ()
    """For `kubectl get`; none that a kind of Harvester, KubeVirt or Cluster API has."""

    @property
    def singular(self) -> str:
        return self.kind.lower()

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def path(self) -> str:
        """URL path of the collection, over all namespaces."""
        root = "apis" if self.group else "api"
        return f"/{root}/{self.api_version}/{self.plural}"


KINDS: tuple[KindInfo, ...] = (
    KindInfo(type=PCIDevice, kind="PCIDevice", plural="pcidevices", short_names=("pci",)),
    KindInfo(
        type=PCIDeviceClaim,
        kind="PCIDeviceClaim",
        plural="pcideviceclaims",
        short_names=("pciclaim",),
    ),
    KindInfo(
        type=SRIOVNetworkDevice,
        kind="SRIOVNetworkDevice",
        plural="sriovnetworkdevices",
        short_names=("sriovnet",),
    ),
    KindInfo(type=DeviceNode, kind="Node", plural="nodes"),
    KindInfo(
        type=SRIOVGPUDevice,
        kind="SRIOVGPUDevice",
        plural="sriovgpudevices",
        short_names=("sriovgpu",),
    ),
    KindInfo(type=VGPUDevice, kind="VGPUDevice", plural="vgpudevices", short_names=("vgpu",)),
    KindInfo(type=USBDevice, kind="USBDevice", plural="usbdevices", short_names=("usb",)),
    KindInfo(
        type=USBDeviceClaim,
        kind="USBDeviceClaim",
        plural="usbdeviceclaims",
        short_names=("usbclaim",),
    ),
    KindInfo(
        type=MigConfiguration,
        kind="MigConfiguration",
        plural="migconfigurations",
        short_names=("mig",),
    ),
    KindInfo(type=VGPULayout, kind="VGPULayout", plural="vgpulayouts", short_names=("layout",)),
    KindInfo(type=HostPolicy, kind="HostPolicy", plural="hostpolicies", short_names=("hpol",)),
    KindInfo(
        type=HostPreparation,
        kind="HostPreparation",
        plural="hostpreparations",
        short_names=("hostprep",),
    ),
    KindInfo(type=VCenter, kind="VCenter", plural="vcenters"),
    KindInfo(type=VSphereHost, kind="VSphereHost", plural="vspherehosts"),
    KindInfo(
        type=VSphereReservation,
        kind="VSphereReservation",
        plural="vspherereservations",
        namespaced=True,
    ),
)
"""The kinds of the device group: the contract's nine, and ours."""

CORE_NODE = KindInfo(type=CoreNode, kind="Node", plural="nodes", group="", version="v1")

SETTING = KindInfo(type=Setting, kind="Setting", plural="settings", group=SETTING_GROUP)
"""Harvester's own; defined here for clusters that lack it."""

_BY_TYPE = {info.type: info for info in (*KINDS, CORE_NODE, SETTING)}


def kind_of(cls: type[Object]) -> KindInfo:
    """Where the objects of a type are served."""
    return _BY_TYPE[cls]
