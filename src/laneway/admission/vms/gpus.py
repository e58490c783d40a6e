"""In which list of a VM each device stands: `hostDevices` or `gpus`, all of a resource in one.

virt-launcher takes devices from the variables that the device plugin has set
(`PCI_RESOURCE_<RESOURCE>` and so on), and it does so for each list by itself: both begin with the
first address of the same variable. A VM that requests one resource in both lists has one
device twice, and libvirt refuses to start it (in KubeVirt's `virtwrap/device/hostdevice`, `generic`
and `gpu` each make address pools of their own). So all entries of a resource go one way:

- to `hostDevices` where all are vGPUs of the vendor's VFIO framework and none says more than
  `hostDevices` can hold: to KubeVirt they are PCI functions, and Harvester 1.8 has them there, too;
- to `hostDevices` where they are USB devices, which virt-launcher does not look for in `gpus`;
- where they stand in both lists, to `hostDevices` if that holds all of it and none can be a
  mediated device; else to `gpus`, which holds everything but USB devices;
- otherwise they stay: `gpus` is where options and mediated devices belong.

Where an instancetype or a preference fills in a VM, it does so by the list, and KubeVirt
refuses what both give; so nothing leaves `gpus` there.

Who applies the same file again brings entries back to the list that they were written in: they take
the places of those that they have become.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from laneway.admission.vms.devices import find, is_known, is_usb
from laneway.admission.world import FRAMEWORK, FRAMEWORKS, VENDOR_VFIO, World
from laneway.core.raw import Json, members

_PLAIN = frozenset({"name", "deviceName", "tag"})
"""What an entry of `hostDevices` can hold as well."""


class Lists(NamedTuple):
    """The entries of a VM as they came, of which some may be no entries at all."""

    hosts: Sequence[Json] = ()
    gpus: Sequence[Json] = ()

    @property
    def resources(self) -> set[str]:
        """What they request; what comes from a resource claim is not among it."""
        return {*map(_resource, self.hosts), *map(_resource, self.gpus)} - {""}


def arranged(asked: Lists, stored: Lists, world: World, *, filled_in: bool = False) -> Lists:
    """The lists with every entry where it belongs, `stored` being those of before.

    `filled_in`: an instancetype or a preference adds to the VM when it starts.
    """
    asked = _returned(asked, stored)
    places = _places(asked, stored, world)
    left = {place: host for place, host in enumerate(asked.hosts) if place not in places.values()}
    unchanged = {
        number
        for number, place in places.items()
        if asked.hosts[place] == _plain(asked.gpus[number])
    }
    lists = Lists([*left.values()], asked.gpus)
    both = in_both(lists)
    to_hosts = set[str]()
    for resource in lists.resources:
        asking = [number for number, one in enumerate(asked.gpus) if _resource(one) == resource]
        if unchanged.issuperset(asking) or (
            all(_is_plain(asked.gpus[number]) for number in asking)
            and _fit_hosts(resource, lists, world, filled_in=filled_in)
        ):
            to_hosts.add(resource)
    hosts = {
        place: host
        for place, host in left.items()
        if _resource(host) in to_hosts or _resource(host) not in both
    }
    added, gpus = [], []
    for number, entry in enumerate(asked.gpus):
        if _resource(entry) not in to_hosts:
            gpus.append(entry)
        elif number in places:
            hosts[places[number]] = _plain(entry)
        else:
            added.append(_plain(entry))
    moved = [host for place, host in left.items() if place not in hosts]
    return Lists([*(hosts[place] for place in sorted(hosts)), *added], [*gpus, *moved])


def in_both(lists: Lists) -> tuple[str, ...]:
    """Resources that are requested in either list, so that one takes the devices of the other."""
    return tuple(sorted({*map(_resource, lists.hosts)} & {*map(_resource, lists.gpus)} - {""}))


def _fit_hosts(resource: str, lists: Lists, world: World, *, filled_in: bool) -> bool:
    """Whether `hostDevices` is the place for a resource of which no entry has options."""
    if is_usb(world, resource):
        return True
    if filled_in:
        return False
    asking = (one for one in (*lists.hosts, *lists.gpus) if _resource(one) == resource)
    made = set[str]().union(*(frameworks(one, world) for one in asking))
    return made == {VENDOR_VFIO} or (not made and resource in in_both(lists))


def _returned(asked: Lists, stored: Lists) -> Lists:
    """The lists without the entries of `gpus` that are written in `hostDevices` again."""
    moved = {_key(one): place for place, one in enumerate(asked.gpus) if one in stored.gpus}
    hosts, gpus = [], list(asked.gpus)
    for host in asked.hosts:
        place = None if host in stored.hosts else moved.pop(_key(host), None)
        if place is None:
            hosts.append(host)
        else:
            gpus[place] = {**members(gpus[place]), **members(_plain(host))}
    return Lists(hosts, gpus)


def _places(asked: Lists, stored: Lists, world: World) -> dict[int, int]:
    """By the entry of `gpus`, the host device that it has become."""
    # Each place is for one entry: two of one name are a mistake that is not hidden.
    free = {
        _text(one, "name"): place for place, one in enumerate(asked.hosts) if one in stored.hosts
    }
    places = {}
    for number, entry in enumerate(asked.gpus):
        place = free.pop(_text(entry, "name"), None)
        if place is None:
            continue
        host = asked.hosts[place]
        if host == _plain(entry) or _may_be_vgpu(host, world):
            places[number] = place
    return places


def _key(entry: Json) -> tuple[str, str]:
    return _text(entry, "name"), _resource(entry)


def _resource(entry: Json) -> str:
    return _text(entry, "deviceName")


def _text(entry: Json, key: str) -> str:
    value = entry.get(key) if isinstance(entry, Mapping) else None
    return value if isinstance(value, str) else ""


def _is_plain(entry: Json) -> bool:
    return isinstance(entry, Mapping) and _PLAIN.issuperset(members(_plain(entry)))


def _plain(entry: Json) -> Json:
    if not isinstance(entry, Mapping):
        return entry
    return {key: value for key, value in entry.items() if value is not None}


def _may_be_vgpu(host: Json, world: World) -> bool:
    """Whether it requests vGPUs, or something unknown by now; else another must not go."""
    return bool(frameworks(host, world)) or not is_known(world, _resource(host))


def frameworks(entry: Json, world: World) -> set[str]:
    """How the vGPUs that an entry can get are made; empty where it can get none."""
    name, resource = _key(entry)
    if not resource:
        return set()
    made = {
        framework
        for framework in FRAMEWORKS
        if world.vgpus.first(FRAMEWORK, (resource, framework)) is not None
    }
    found = find(world, name)
    if found is not None and found.vgpu is not None and resource in found.resources:
        made.add(found.vgpu.status.framework)
    return made
