"""The entries of `gpus`: which of them become host devices, and which one has the display.

A vGPU of the vendor's VFIO framework is a PCI function, which KubeVirt knows by `hostDevices`, as
Harvester does since 1.8. An entry with options or from a resource claim stays where only it can
be expressed; KubeVirt looks there for PCI functions as well. So does one of a profile that some
node makes as a mediated device, and everything else. Who applies the same file again brings the
entries back: they take the places of the host devices that they have become.

Of mediated devices at most one has a display and its framebuffer. As soon as any entry says
something about a display, KubeVirt turns nothing on by itself, and some releases turn it on for
each entry that says nothing. So all of them say it: none has it where the user has decided about
one, and else the first has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from laneway.admission.machines.devices import find, is_known
from laneway.admission.world import FRAMEWORK, FRAMEWORKS, MEDIATED, VENDOR_VFIO, World

_PLAIN = frozenset({"name", "deviceName", "tag"})
"""What an entry of `hostDevices` can hold as well."""


def becomes_host_device(entry: Any, world: World) -> bool:
    """Whether an entry of `gpus` is a vGPU that belongs to `hostDevices`."""
    if not isinstance(entry, Mapping) or not _PLAIN.issuperset(
        key for key, value in entry.items() if value is not None
    ):
        return False
    return frameworks(entry, world) == {VENDOR_VFIO}


def as_host_devices(
    hosts: Iterable[Any], entries: Iterable[Any], stored: Sequence[Any], world: World
) -> tuple[list[Any], list[Any]]:
    """Both lists with every entry where it belongs, `stored` being the host devices of before."""
    hosts, rest = list(hosts), []
    left: set[int | None] = set()
    # Each place is for one entry: two of one name are a mistake that is not hidden.
    places = {_name(host): place for place, host in enumerate(hosts) if host in stored}
    for entry in entries:
        place = places.pop(_name(entry), None)
        plain = _plain(entry)
        if place is not None and hosts[place] == plain:
            continue
        replaced = place is not None and _may_be_vgpu(hosts[place], world)
        if not becomes_host_device(entry, world):
            rest.append(entry)
            if replaced:
                left.add(place)
        elif place is not None and replaced:
            hosts[place] = plain
        else:
            hosts.append(plain)
    return [host for place, host in enumerate(hosts) if place not in left], rest


def _name(entry: Any) -> str:
    name = entry.get("name") if isinstance(entry, Mapping) else None
    return name if isinstance(name, str) else ""


def _plain(entry: Any) -> Any:
    if not isinstance(entry, Mapping):
        return entry
    return {key: value for key, value in entry.items() if value is not None}


def _may_be_vgpu(host: Mapping[str, Any], world: World) -> bool:
    """Whether it asks for vGPUs, or for what nobody knows any more; else another must not go."""
    resource = host.get("deviceName")
    return bool(frameworks(host, world)) or not (
        isinstance(resource, str) and is_known(world, resource)
    )


def frameworks(entry: Any, world: World) -> set[str]:
    """How the vGPUs that an entry can get are made; empty where it can get none."""
    if not isinstance(entry, Mapping):
        return set()
    name, resource = entry.get("name"), entry.get("deviceName")
    if not isinstance(resource, str) or not resource:
        return set()
    found = find(world, name) if isinstance(name, str) else None
    if found is not None and found.vgpu is not None and resource in found.resources:
        return {found.vgpu.status.framework}
    return {
        framework
        for framework in FRAMEWORKS
        if world.vgpus.first(FRAMEWORK, (resource, framework)) is not None
    }


def with_displays(entries: list[Any], world: World) -> list[Any]:
    """The entries, each mediated device saying whether it has the display."""
    mediated = [
        place for place, entry in enumerate(entries) if frameworks(entry, world) == {MEDIATED}
    ]
    if len(mediated) < 2:
        return entries
    decided = any(_says(entry) for entry in entries)
    told = list(entries)
    for place in mediated:
        if _says(entries[place]):
            continue
        shows = not decided and place == mediated[0]
        display: dict[str, Any] = {"enabled": shows}
        if shows:
            display["ramFB"] = {"enabled": True}
        options = entries[place].get("virtualGPUOptions")
        told[place] = {
            **entries[place],
            "virtualGPUOptions": {
                **(options if isinstance(options, Mapping) else {}),
                "display": display,
            },
        }
    return told


def _says(entry: Any) -> bool:
    options = entry.get("virtualGPUOptions") if isinstance(entry, Mapping) else None
    return isinstance(options, Mapping) and isinstance(options.get("display"), Mapping)
