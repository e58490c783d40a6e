"""What virt-launcher makes of the environment that a kubelet gave it.

Every resource has a variable with the addresses of its devices. For each device of a list,
`hostDevices` or `gpus`, one address is taken from it, so no device is given twice in that list. The
other list begins with the first address again. PCI addresses, mediated devices and, for
`hostDevices`, USB devices are tried in this order, each for all entries of the list. Who has ramFB
is decided there as well. All by KubeVirt's rules (`virtwrap/device/hostdevice`) and in its words;
then libvirt looks at the whole domain.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from laneway.core.pci import PciAddress
from laneway.kube.kubevirt import DeviceRequest, Devices, Display

_PCI, _MDEV, _USB = "PCI_RESOURCE", "MDEV_PCI_RESOURCE", "USB_RESOURCE"
_ALIAS = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
"""What libvirt takes for the name that a user gives a device; others it leaves out unsaid."""
_BUS_DEVICE = re.compile(r"([0-9]{1,3}):([0-9]{1,3})", re.ASCII)


class LauncherError(Exception):
    """The VM cannot be started; the text is KubeVirt's."""


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
    _define("hostdevice", plain)
    _define("gpu", gpus)
    twice = sorted({one.path for one in plain} & {one.path for one in gpus})
    if twice:
        raise LauncherError(f"internal error: device {twice[0]} is already in use by this domain")
    if len(_with_ramfb(devices.gpus, gpus)) > 1:
        raise LauncherError(
            "unsupported configuration: Only one vgpu device can have 'ramfb' enabled"
        )
    return tuple(one.path for one in (*plain, *gpus))


class _Taken(NamedTuple):
    """A device of the domain."""

    prefix: str
    request: DeviceRequest
    path: str


def _define(prefix: str, taken: Sequence[_Taken]) -> None:
    """What libvirt says of the names that virt-launcher makes of those of the entries."""
    seen = set()
    for one in taken:
        alias = f"ua-{'usb-host' if one.prefix == _USB else prefix}-{one.request.name}"
        if alias in seen:
            raise LauncherError(f"XML error: non unique alias detected: {alias}")
        if _ALIAS.fullmatch(alias) is None:
            # virt-launcher looks for the device by the name that the domain lacks (kubevirt#16043).
            raise LauncherError(
                "panic: runtime error: invalid memory address or nil pointer dereference"
            )
        seen.add(alias)


def _with_ramfb(requests: Sequence[DeviceRequest], taken: Sequence[_Taken]) -> list[_Taken]:
    said = any(_display(one) is not None for one in requests)
    mediated = [one for one in taken if one.prefix == _MDEV]
    if mediated and not said:
        return mediated[:1]
    return [one for one in taken if _has_ramfb(one)]


def _has_ramfb(one: _Taken) -> bool:
    display = _display(one.request)
    if display is None or display.enabled is False:
        return False
    if one.prefix == _PCI and display.enabled is None:
        return False
    return display.ram_fb is None or display.ram_fb.enabled is not False


def _display(request: DeviceRequest) -> Display | None:
    options = request.virtual_gpu_options
    return None if options is None else options.display


def variable(prefix: str, resource: str) -> str:
    """The name of the environment variable of a resource."""
    return f"{prefix}_{resource.upper().replace('/', '_').replace('.', '_')}"


def _taken(
    environment: Mapping[str, str], requests: Sequence[DeviceRequest], prefixes: Sequence[str]
) -> list[_Taken]:
    taken = []
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
            taken.append(_Taken(prefix, one, _path(prefix, address)))
    return taken


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


def _compared(requests: Sequence[DeviceRequest], taken: Sequence[_Taken]) -> str:
    wanted = ", ".join(one.device_name for one in requests)
    return f"requested [{wanted}], found [{', '.join(one.path for one in taken)}]"
