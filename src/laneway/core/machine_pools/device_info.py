"""The devices of a pool's machines, as Rancher keeps them: JSON in a string of the configuration.

`vgpuInfo` is `{"vGPURequests":[{"name":…,"deviceName":…}]}`, with an entry for each device.
`hostDeviceInfo` is `{"hostDevices":[…]}` with entries of the same kind, for PCI devices
(harvester/harvester#10764). The empty string means no devices.

All forms that clients have written are read: names of devices, `provisioned`, none at all, and a
`count`, which stands for so many entries. One form is written, which every reader of them knows: an
entry for each device, with a name that is unique within the VM. Keys of others are kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from laneway.core.names import is_resource_name
from laneway.core.phrases import quoted

MOST = 64
"""Devices of one kind that a machine can be given. QEMU has fewer slots for them."""
_LONGEST = 65_536
_KEYS = frozenset({"name", "deviceName", "count"})


class Form(NamedTuple):
    """One of the two strings."""

    field: str
    """Of the machine configuration."""
    list: str
    prefix: str
    """How the names of its devices in a VM begin."""


VGPUS = Form("vgpuInfo", "vGPURequests", "vgpu")
HOST_DEVICES = Form("hostDeviceInfo", "hostDevices", "device")


class DeviceInfoError(ValueError):
    """A string is none of the known forms; its text names the field, the entry and the reason."""


class Entry(NamedTuple):
    """One device."""

    resource: str
    """`nvidia.com/NVIDIA_A2-4Q`"""
    others: Mapping[str, Any] = {}
    """Keys that Laneway does not know."""


class DeviceInfo(msgspec.Struct, frozen=True):
    """What one of the strings says."""

    entries: tuple[Entry, ...] = ()
    others: Mapping[str, Any] = {}

    @property
    def counts(self) -> dict[str, int]:
        """How many devices of each resource."""
        return dict(Counter(entry.resource for entry in self.entries))


def read(form: Form, text: str) -> DeviceInfo:
    """What a string says. Raises DeviceInfoError."""
    if not text.strip():
        return DeviceInfo()
    if len(text) > _LONGEST:
        raise DeviceInfoError(f"{form.field} is longer than {_LONGEST} characters")
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise DeviceInfoError(f"{form.field} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise DeviceInfoError(f"{form.field} is not a JSON object with a list {form.list}")
    listed = found.get(form.list)
    if not isinstance(listed, list | None):
        raise DeviceInfoError(f"{form.field}: {form.list} is not a list")
    entries = tuple(
        one for number, raw in enumerate(listed or (), 1) for one in _entries(form, number, raw)
    )
    if len(entries) > MOST:
        raise DeviceInfoError(
            f"{form.field} requests {len(entries)} devices for each machine; the most is {MOST}"
        )
    return DeviceInfo(entries, {key: one for key, one in found.items() if key != form.list})


def write(form: Form, info: DeviceInfo) -> str:
    """The string; empty where there is nothing to say."""
    if not (info.entries or info.others):
        return ""
    entries = [
        {"name": f"{form.prefix}-{number}", "deviceName": entry.resource, **entry.others}
        for number, entry in enumerate(info.entries)
    ]
    return msgspec.json.encode({form.list: entries, **info.others}).decode()


def changed(info: DeviceInfo, counts: Mapping[str, int]) -> DeviceInfo:
    """The same with so many devices of each resource; entries that stay keep all their keys."""
    left = Counter({resource: count for resource, count in counts.items() if count > 0})
    entries = []
    for entry in info.entries:
        if left[entry.resource] > 0:
            left[entry.resource] -= 1
            entries.append(entry)
    entries += [Entry(resource) for resource in left.elements()]
    return DeviceInfo(tuple(entries), info.others)


def _entries(form: Form, number: int, raw: object) -> Iterator[Entry]:
    where = f"{form.field}: entry {number}"
    if not isinstance(raw, dict):
        raise DeviceInfoError(f"{where} is not a JSON object with name and deviceName")
    resource, name, count = raw.get("deviceName"), raw.get("name"), raw.get("count", 1)
    if not isinstance(resource, str) or not resource:
        raise DeviceInfoError(f"{where} has no deviceName")
    if not is_resource_name(resource):
        raise DeviceInfoError(
            f"{where}: deviceName {quoted(resource)} is not the name of a resource, such as "
            "nvidia.com/NVIDIA_A2-4Q"
        )
    if not isinstance(name, str | None):
        raise DeviceInfoError(f"{where}: name is not a string")
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= MOST:
        raise DeviceInfoError(f"{where}: count {quoted(str(count))} is not a number of 1 to {MOST}")
    others = {key: one for key, one in raw.items() if key not in _KEYS}
    yield from (Entry(resource, others) for _ in range(count))
