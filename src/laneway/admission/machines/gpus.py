"""The entries of `gpus`: which of them become host devices, and which one has the display.

A vGPU of the vendor's VFIO framework is a PCI function, which KubeVirt knows by `hostDevices`, as
Harvester does since 1.8. An entry with options or from a resource claim stays where only it can
be expressed; KubeVirt looks there for PCI functions as well. So does one of a profile that some
node makes as a mediated device, and everything else.

Of mediated devices at most one has a display and its framebuffer. As soon as any entry says
something about a display, KubeVirt turns nothing on by itself, and some releases turn it on for
each entry that says nothing. So all of them say it: none has it where the user has decided about
one, and else the first has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from laneway.admission.machines.devices import find
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
