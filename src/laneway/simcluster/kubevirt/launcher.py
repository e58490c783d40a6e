"""What virt-launcher makes of the environment that a kubelet gave it.

Every resource has a variable with the addresses of its devices. For each device that the machine
asks for, one address is taken, and it is taken everywhere: no device is given twice. PCI addresses,
mediated devices and USB devices are tried in this order. All by KubeVirt's rules and in its words.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence

from laneway.core.pci import PciAddress
from laneway.kube.kubevirt import DeviceRequest, Devices

_PCI, _MDEV, _USB = "PCI_RESOURCE", "MDEV_PCI_RESOURCE", "USB_RESOURCE"
_BUS_DEVICE = re.compile(r"([0-9]{1,3}):([0-9]{1,3})", re.ASCII)


class LauncherError(Exception):
    """The machine cannot be started; the text is KubeVirt's."""


def device_paths(environment: Mapping[str, str], devices: Devices) -> tuple[str, ...]:
    """What QEMU is to open on the host, by path. Raises LauncherError."""
    plain = _taken(environment, devices.host_devices, (_PCI, _MDEV, _USB))
    if len(plain) != len(_counted(devices.host_devices)):
        raise LauncherError(
            "failed to create generic host-devices: the number of generic HostDevice/s do not "
            f"match the number of HostDevice/s: {_compared(devices.host_devices, plain)}"
        )
    gpus = _taken(environment, devices.gpus, (_PCI, _MDEV))
    if len(gpus) != len(_counted(devices.gpus)):
        raise LauncherError(
            "failed to create GPU host-devices: the number of GPU/s do not match the number of "
            f"devices: {_compared(devices.gpus, gpus)}"
        )
    twice = sorted(set(plain) & set(gpus))
    if twice:
        raise LauncherError(f"internal error: device {twice[0]} is already in use by this domain")
    return (*plain, *gpus)


def variable(prefix: str, resource: str) -> str:
    """The name of the environment variable of a resource."""
    return f"{prefix}_{resource.upper().replace('/', '_').replace('.', '_')}"


def _taken(
    environment: Mapping[str, str], requests: Sequence[DeviceRequest], prefixes: Sequence[str]
) -> list[str]:
    paths = []
    for prefix in prefixes:
        pool = {
            one.device_name: _addresses(environment.get(variable(prefix, one.device_name), ""))
            for one in requests
        }
        for one in _counted(requests):
            if not pool[one.device_name]:
                continue
            address = pool[one.device_name][0]
            for name, addresses in pool.items():
                pool[name] = [other for other in addresses if other != address]
            paths.append(_path(prefix, address))
    return paths


def _counted(requests: Sequence[DeviceRequest]) -> list[DeviceRequest]:
    """Those that come from a device plugin, and not from a resource claim."""
    return [one for one in requests if one.device_name]


def _addresses(value: str) -> list[str]:
    value = value.removesuffix(",")
    return value.split(",") if value else []


def _path(prefix: str, address: str) -> str:
    try:
        if prefix == _PCI:
            return f"/sys/bus/pci/devices/{PciAddress.parse(address)}"
        if prefix == _MDEV:
            return f"/sys/bus/mdev/devices/{uuid.UUID(address)}"
    except ValueError:
        raise LauncherError(f"failed to parse the address {address!r}") from None
    numbers = _BUS_DEVICE.fullmatch(address)
    if numbers is None:
        raise LauncherError(f"failed to parse the USB address {address!r}")
    return f"/dev/bus/usb/{int(numbers[1]):03d}/{int(numbers[2]):03d}"


def _compared(requests: Sequence[DeviceRequest], paths: Sequence[str]) -> str:
    wanted = ", ".join(one.device_name for one in requests)
    return f"requested [{wanted}], found [{', '.join(paths)}]"
