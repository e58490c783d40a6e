"""Names of resources and objects, exactly as Harvester makes them wherever those are valid.

VM specs store these names, so a valid one is never changed. Harvester bounds only the names of
plain PCI devices; here every name passes `_valid`, which leaves a valid name as it is and makes
of any other text one that is valid, stable, and ends in a hash of that text, so that two devices
cannot come to share it. Valid means, for a resource name, both of these:

- the path of the device plugin's socket, which is made from the name, has at most the 107 bytes
  that the kernel allows; that leaves less than the 63 characters of a qualified name for the part
  after the `/`, so the second limit is kept with the first;
- that part is a Kubernetes qualified name: `[A-Za-z0-9._-]`, a letter or digit at both ends.

For an object name it means a DNS subdomain of at most 253 characters.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache

from laneway.core import ids
from laneway.core.pci import PciAddress, PciFunction

PLUGIN_DIRECTORY = "/var/lib/kubelet/device-plugins/"

_SOCKET_PATH_MAX = 107
_OBJECT_MAX = 253
_VENDOR_MAX = 40  # leaves room for a device id and for a shortened name
_USB_VENDOR = "kubevirt.io"

_QUALIFIED = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
_OUTSIDE_QUALIFIED = re.compile(r"[^A-Za-z0-9._-]+")
_OUTSIDE_SUBDOMAIN = re.compile(r"[^a-z0-9]+")


def pci_resource_name(vendor: str, product: str, device_id: str) -> str:
    """Resource of a PCI device, from its names in the database (empty when unknown) and its id.

    `nvidia.com/AD104GL_L4`; the device id stands in for a product without a usable name.
    """
    domain = _vendor_domain(vendor)
    name = re.sub(r"\s+", "_", product.strip().upper().replace("/", "_").replace(".", "_"))
    name = re.sub(r"[^A-Z0-9_.]", "", name).rstrip("_.-")
    if len(name) > _room(domain):
        name = name.replace("VIRTUAL_FUNCTION", "VF")
    if not name or len(name) > _room(domain):
        name = device_id
    return _resource(domain, name)


def resource_name_of(function: PciFunction) -> str:
    """Resource of a PCI function that nothing overrides."""
    return pci_resource_name(
        ids.pci_vendor(function.vendor),
        ids.pci_device(function.vendor, function.device),
        function.device,
    )


def pinned_resource_name(current: str, object_name: str) -> str:
    """Resource of a device that is not pooled: its vendor, and its PCIDevice's name."""
    return _resource(current.partition("/")[0], object_name)


def vgpu_resource_name(profile: str) -> str:
    """Resource of a vGPU profile: `NVIDIA A2-2Q` is `nvidia.com/NVIDIA_A2-2Q`."""
    name = re.sub(r"\s+", "_", profile.strip().replace("/", "_").replace(".", "_"))
    return _resource("nvidia.com", name)


def is_vgpu_resource(resource: str) -> bool:
    """Whether a resource is that of a vGPU profile of NVIDIA's, by how it begins."""
    return resource.startswith(("nvidia.com/NVIDIA_", "nvidia.com/GRID_"))


def instance_resource_name(profile: str) -> str:
    """Resource of a kind of GPU instances: `1g.5gb+me` is `nvidia.com/mig-1g.5gb.me`.

    NVIDIA's device plugin for containers calls it so, with its strategy `mixed`.
    """
    return f"nvidia.com/mig-{profile.replace('+', '.')}"


def is_instance_resource(resource: str) -> bool:
    """Whether a resource is that of a kind of GPU instances."""
    return resource.startswith("nvidia.com/mig-")


def usb_resource_name(object_name: str) -> str:
    """Resource of a USB device, from its USBDevice's name."""
    return _resource(_USB_VENDOR, object_name)


def is_resource_name(text: str) -> bool:
    """Whether a name from outside (an override annotation) can be used as it is."""
    vendor, _, name = text.partition("/")
    return (
        _SUBDOMAIN.fullmatch(vendor) is not None
        and _QUALIFIED.fullmatch(name) is not None
        and len(name) <= _room(vendor)
    )


def is_object_name(text: str) -> bool:
    """Whether an object can have this name."""
    return _SUBDOMAIN.fullmatch(text) is not None and len(text) <= _OBJECT_MAX


def socket_path(resource: str) -> str:
    """The device plugin's socket for a resource."""
    vendor, _, name = resource.partition("/")
    middle = "usb-" if vendor == _USB_VENDOR else f"{vendor}-"
    return f"{PLUGIN_DIRECTORY}kubevirt-{middle}{name}.sock"


@lru_cache(maxsize=8192)
def pci_object_name(node: str, address: PciAddress) -> str:
    """PCIDevice, SRIOVGPUDevice, VGPUDevice and what belongs to them: `node1-000008000`."""
    return _object(f"{node}-{str(address).replace(':', '').replace('.', '')}")


def network_object_name(node: str, interface: str) -> str:
    """SRIOVNetworkDevice."""
    return _object(f"{node}-{interface}".lower())


def usb_object_name(node: str, vendor: str, product: str, bus: int, number: int) -> str:
    """USBDevice and its claim: `node7-046d-c52b-003011`."""
    return _object(f"{node}-{vendor}-{product}-{bus:03d}{number:03d}")


def vcenter_object_name(server: str) -> str:
    """How a vCenter that no VCenter object names is called in our objects."""
    return _object(server.lower())


def vsphere_host_object_name(vcenter: str, ref: str) -> str:
    """VSphereHost: `main-host-21`."""
    return _object(f"{vcenter}-{ref}")


def pci_description(function: PciFunction) -> str:
    """`3D controller: NVIDIA Corporation AD104GL [L4]`, ids where a name is unknown."""
    code = function.class_code
    kind = ids.pci_subclass(code) or ids.pci_class(code) or f"Class {code[:4]}"
    vendor = ids.pci_vendor(function.vendor) or f"Vendor {function.vendor}"
    device = ids.pci_device(function.vendor, function.device) or f"Device {function.device}"
    return f"{kind}: {vendor} {device}"


def usb_description(vendor: str, product: str, product_name: str) -> str:
    """`Unifying Receiver (Logitech, Inc.) [USB Receiver]`: as Harvester's controller writes it.

    That is google/gousb's `usbid.Describe`, then what the device calls itself in brackets.
    """
    maker = ids.usb_vendor(vendor)
    called = ids.usb_product(vendor, product) or "Unknown"
    known = f"{called} ({maker})" if maker else f"Unknown {vendor}:{product}"
    return f"{known} [{product_name}]" if product_name else known


def _vendor_domain(vendor: str) -> str:
    """The text in the first brackets, before any `/`, else the first word; `nvidia.com`."""
    _, bracket, inside = vendor.partition("[")
    word = inside.partition("]")[0].partition("/")[0] if bracket else vendor.strip().split(" ")[0]
    return (re.sub(r"[^a-zA-Z0-9]", "", word).lower() or "unknown") + ".com"


def _room(vendor: str) -> int:
    """How long the part after the `/` may be."""
    return _SOCKET_PATH_MAX - len(socket_path(f"{vendor}/"))


def _resource(vendor: str, name: str) -> str:
    vendor = _valid(vendor, _VENDOR_MAX, _SUBDOMAIN, _OUTSIDE_SUBDOMAIN)
    return f"{vendor}/{_valid(name, _room(vendor), _QUALIFIED, _OUTSIDE_QUALIFIED)}"


def _object(name: str) -> str:
    return _valid(name, _OBJECT_MAX, _SUBDOMAIN, _OUTSIDE_SUBDOMAIN)


def _valid(text: str, limit: int, form: re.Pattern[str], outside: re.Pattern[str]) -> str:
    """The text itself if it is valid, else its end, cleaned, and a hash of the whole.

    The end is kept, not the beginning, because there the device or the size is named.
    """
    if len(text) <= limit and form.fullmatch(text):
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    end = outside.sub("-", text)[-(limit - len(digest) - 1) :].strip("._-")
    return f"{end}-{digest}" if end else digest
