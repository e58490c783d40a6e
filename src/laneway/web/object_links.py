"""Where the interface shows an object: its page, or the one that every object has."""

from __future__ import annotations

from laneway.api import KINDS
from laneway.web.place import link

_PAGES = {
    "SRIOVGPUDevice": "gpus",
    "VGPUDevice": "vgpus",
    "PCIDevice": "pci",
    "PCIDeviceClaim": "pci",
    "SRIOVNetworkDevice": "networks",
    "USBDevice": "usb",
    "USBDeviceClaim": "usb",
    "MigConfiguration": "mig",
    "Node": "nodes",
    "HostPreparation": "nodes",
}
_PLURALS = {info.kind: info.plural for info in KINDS}


def object_url(kind: str, name: str, namespace: str = "") -> str:
    """The page of an object; empty where the interface has none for its kind."""
    if kind in ("VirtualMachine", "VirtualMachineInstance") and namespace:
        return link("vms", namespace, name)
    if page := _PAGES.get(kind):
        return link(page, name)
    if plural := _PLURALS.get(kind):
        return yaml_url(plural, name, namespace)
    return ""


def yaml_url(plural: str, name: str, namespace: str = "") -> str:
    """The page with the YAML of an object and lines to copy."""
    return link("objects", plural, *((namespace,) if namespace else ()), name)
