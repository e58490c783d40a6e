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
from typing import Any

from msgspec.structs import replace

from laneway.admission.vms.operations import Operation, at, put
from laneway.kube.kubevirt import Devices

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


def renamed(instance: Any) -> Iterator[Operation]:
    """Give the devices of a VirtualMachineInstance, as JSON, names that libvirt accepts."""
    lists = {  # nulls count as absent, as where it is read
        part: [one for one in at(instance, (*_DEVICES, part)) or () if one is not None]
        for part in _LISTS
    }
    found = aliases(entry.get("name") or "" for entries in lists.values() for entry in entries)
    for part, entries in lists.items():
        changed = [
            {**entry, "name": found[name]} if (name := entry.get("name")) in found else entry
            for entry in entries
        ]
        if changed != entries:
            yield put(instance, (*_DEVICES, part), changed)


def as_named(devices: Devices, vm: Devices) -> Devices:
    """The devices of an instance by the names that they have in its VM."""
    names: Mapping[str, str] = {
        alias: name for name, alias in aliases(one.name for one in vm.all).items()
    }

    def back(entries: Iterable[Any]) -> list[Any]:
        return [replace(one, name=names.get(one.name, one.name)) for one in entries]

    return replace(devices, host_devices=back(devices.host_devices), gpus=back(devices.gpus))
