"""Names of a VM's devices that libvirt accepts.

KubeVirt makes the alias of a device of the name of its entry. libvirt allows letters of ASCII,
digits, `_` and `-` there (https://libvirt.org/formatdomain.html#devices); with any other, as in
entries that are named after a device of `node1.example.com`, virt-launcher ends in a crash
(kubevirt#16043). The name is changed on the instance alone, as Harvester does: the VM
keeps the one by which user interfaces and claims know the device.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import count

from msgspec.structs import replace

from laneway.admission.json_patch import PatchOperation, put
from laneway.core.raw import Json, JsonObject, at, items, members
from laneway.kube.kubevirt import DeviceRequest, Devices

_REFUSED = re.compile(r"[^A-Za-z0-9_-]", re.ASCII)
_DEVICES = ("spec", "domain", "devices")
_LISTS = ("hostDevices", "gpus")


def aliases(names: Iterable[str]) -> dict[str, str]:
    """What libvirt refuses of these names, and a name for each that no other has."""
    known = [*names]
    taken = {name for name in known if not _REFUSED.search(name)}
    found: dict[str, str] = {}
    for name in known:
        if name in taken or name in found:
            continue
        alias = _REFUSED.sub("-", name)
        tried = (alias if number == 1 else f"{alias}-{number}" for number in count(1))
        found[name] = next(one for one in tried if one not in taken)
        taken.add(found[name])
    return found


def renamed(instance: Json) -> Iterator[PatchOperation]:
    """Give the devices of a VirtualMachineInstance, as JSON, names that libvirt accepts."""
    lists = {  # nulls count as absent, as where it is read
        part: [members(one) for one in items(at(instance, (*_DEVICES, part))) if one is not None]
        for part in _LISTS
    }
    found = aliases(_name(entry) for entries in lists.values() for entry in entries)
    for part, entries in lists.items():
        changed = [
            {**entry, "name": found[name]} if (name := _name(entry)) in found else entry
            for entry in entries
        ]
        if changed != entries:
            yield put(instance, (*_DEVICES, part), changed)


def _name(entry: JsonObject) -> str:
    name = entry.get("name")
    return name if isinstance(name, str) else ""


def as_named(devices: Devices, vm: Devices) -> Devices:
    """The devices of an instance by the names that they have in its VM."""
    names: Mapping[str, str] = {
        alias: name for name, alias in aliases(one.name for one in vm.all).items()
    }

    def back(entries: Iterable[DeviceRequest]) -> list[DeviceRequest]:
        return [replace(one, name=names.get(one.name, one.name)) for one in entries]

    return replace(devices, host_devices=back(devices.host_devices), gpus=back(devices.gpus))
