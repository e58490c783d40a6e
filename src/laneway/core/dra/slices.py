"""A node's pool as ResourceSlices, and which of them have to be written.

A pool changes as a whole: all its slices bear one generation and their number, so that a scheduler
never takes half of a change for the pool. As long as every slice says what it should, in one
generation, nothing is written; otherwise all are, in the next generation, and what is left over
goes last. A publisher that was killed in between finds slices that disagree, and begins again.

Counters stand in slices of their own, before the devices that consume them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from laneway.core.device_plugin.offer import Offer, Owner
from laneway.core.dra.device import DRIVER, Device, Taint, device, device_name
from laneway.core.dra.sharing import CounterSet, alone, exclude, sharing
from laneway.core.inventory import Inventory

Body = dict[str, object]

DEVICES_MAX = 64
"""In one slice: more is allowed only of devices without taints and counters."""
SETS_MAX = 8
"""Counter sets in one slice."""

CONTENTS = ("devices", "sharedCounters")
"""What a slice can have, one at most."""

Owners = Mapping[tuple[str, str], Owner]
"""By resource and the kubelet's device id."""


class Pool(msgspec.Struct, frozen=True):
    """What the slices of a pool say, in addition to generation and number."""

    parts: tuple[Body, ...]
    """One slice each: `devices` or `sharedCounters`. One without either when there is nothing."""


class Stored(msgspec.Struct, frozen=True):
    """A slice as it is on the server."""

    name: str
    spec: Body


class Writing(msgspec.Struct, frozen=True):
    """What makes the server's slices those of the pool."""

    write: tuple[tuple[str, Body], ...]
    """Names and specs, in this order."""
    delete: tuple[str, ...]
    """Afterwards."""


def pool(
    offers: Iterable[Offer],
    inventory: Inventory,
    owners: Owners,
    *,
    full: bool,
    claimed: Collection[str] = (),
) -> Pool:
    """The pool of a node that offers this.

    Not `full`: the server keeps neither taints nor counters, so that what cannot be allocated and
    what something else excludes must be left out; `claimed` are names of devices that claims have,
    which a scheduler knows, but not what they exclude.
    """
    ordered = _unique(offers)
    holders = _holders(ordered, owners)
    sets: list[Body] = []
    if full:
        shared = sharing(ordered)
        sets = [_counter_set(one) for one in shared.sets]
        consumed = shared.consumed
    else:
        theirs = [one for one in ordered if device_name(one) in claimed]
        ordered = alone(
            one
            for one in ordered
            if device_name(one) not in holders
            and not one.unhealthy
            and not any(one is not other and exclude(one, other) for other in theirs)
        )
        consumed = ((),) * len(ordered)
    devices = [
        _device(device(offer, inventory, holders.get(device_name(offer))), taken)
        for offer, taken in zip(ordered, consumed, strict=True)
    ]
    parts: list[Body] = [{"sharedCounters": some} for some in _chunks(sets, SETS_MAX)]
    parts += [{"devices": some} for some in _chunks(devices, DEVICES_MAX)]
    return Pool(tuple(parts) or ({},))


def needs_more(wanted: Pool) -> bool:
    """Whether the pool has taints or counters, which a server may not keep."""
    return any(
        "sharedCounters" in part
        or any("taints" in one or "consumesCounters" in one for one in _bodies(part, "devices"))
        for part in wanted.parts
    )


def writing(node: str, wanted: Pool, stored: Sequence[Stored]) -> Writing:
    """What to write for the wanted pool. All stored slices are of this driver and node."""
    names = [slice_name(node, index) for index in range(len(wanted.parts))]
    by_name = {one.name: one.spec for one in stored}
    generations = [_generation(one.spec) for one in stored]
    now = max(generations, default=0)
    specs = [_spec(node, part, now, len(names)) for part in wanted.parts]
    same = set(by_name) == set(names) and all(
        _comparable(by_name[name]) == spec for name, spec in zip(names, specs, strict=True)
    )
    if same:
        return Writing((), ())
    known = _taint_times(stored)
    bodies = [_with_times(_spec(node, part, now + 1, len(names)), known) for part in wanted.parts]
    delete = tuple(sorted(set(by_name) - set(names)))
    return Writing(tuple(zip(names, bodies, strict=True)), delete)


def trial(node: str) -> tuple[tuple[str, Body], ...]:
    """Slices with everything that a server may not keep, to be made on trial."""
    one = CounterSet("trial", {"units": 1})
    held = Device(name="trial", attributes={}, taints=(Taint("example.com/trial"),))
    parts: tuple[Body, ...] = (
        {"sharedCounters": [_counter_set(one)]},
        {"devices": [_device(held, [one])]},
    )
    return tuple(
        (f"{node}-{DRIVER}-trial-{index}", _spec(node, part, 1, len(parts)))
        for index, part in enumerate(parts)
    )


def alike(one: Body, other: Body) -> bool:
    """Whether two slices say the same, but for what the server adds."""
    return _comparable(one) == _comparable(other)


def slice_name(node: str, index: int) -> str:
    """The same for the same part of a pool, so that none is made twice."""
    return f"{node}-{DRIVER}-{index}"


def _unique(offers: Iterable[Offer]) -> tuple[Offer, ...]:
    """In a fixed order, each device once."""
    found: dict[tuple[object, ...], Offer] = {}
    for offer in sorted(
        offers, key=lambda one: (one.form, one.address or (), one.id, one.resource)
    ):
        found.setdefault((offer.form, offer.id), offer)
    return tuple(found.values())


def _holders(offers: Sequence[Offer], owners: Owners) -> dict[str, Owner]:
    """Who has a device, or what excludes it, by the device's name.

    Claims know nothing of what device plugins gave out, nor do the counters.
    """
    by_id = {device: owner for (_, device), owner in owners.items()}
    """Whatever its resource was called when it was allocated."""
    held = [(offer, by_id[offer.id]) for offer in offers if offer.id in by_id]
    found: dict[str, Owner] = {}
    for offer in offers:
        for other, owner in held:
            if offer is other:
                found[device_name(offer)] = owner
            elif exclude(offer, other):
                found.setdefault(device_name(offer), owner)
    return found


def _device(found: Device, consumed: Iterable[CounterSet]) -> Body:
    body: Body = {"name": found.name}
    if found.attributes:
        body["attributes"] = {
            key: {"string" if isinstance(value, str) else "int": value}
            for key, value in found.attributes.items()
        }
    if found.memory:
        body["capacity"] = {"memory": {"value": found.memory}}
    if taken := [{"counterSet": one.name, "counters": _counters(one)} for one in consumed]:
        body["consumesCounters"] = taken
    if found.taints:
        body["taints"] = [_taint(one) for one in found.taints]
    return body


def _taint(taint: Taint) -> Body:
    value = {"value": taint.value} if taint.value else {}
    return {"key": taint.key, **value, "effect": "NoSchedule"}


def _counter_set(found: CounterSet) -> Body:
    return {"name": found.name, "counters": _counters(found)}


def _counters(found: CounterSet) -> Body:
    return {name: {"value": str(amount)} for name, amount in found.counters.items()}


def _chunks(items: Sequence[Body], size: int) -> list[list[Body]]:
    return [list(items[start : start + size]) for start in range(0, len(items), size)]


def _spec(node: str, part: Body, generation: int, count: int) -> Body:
    numbers = {"name": node, "generation": generation, "resourceSliceCount": count}
    return {"driver": DRIVER, "nodeName": node, "pool": numbers, **part}


def _bodies(parent: Body, name: str) -> list[Body]:
    """The objects of a list; what is none is not Laneway's."""
    found = parent.get(name)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _generation(spec: Body) -> int:
    pool = spec.get("pool")
    found = pool.get("generation", 0) if isinstance(pool, dict) else 0
    return found if isinstance(found, int) else 0


def _comparable(spec: Body) -> Body:
    """Without the times that the server gives to taints."""
    devices = [
        {**one, "taints": [_timeless(taint) for taint in _bodies(one, "taints")]}
        if one.get("taints")
        else one
        for one in _bodies(spec, "devices")
    ]
    return {**spec, "devices": devices} if devices else spec


def _timeless(taint: Body) -> Body:
    return {key: value for key, value in taint.items() if key != "timeAdded"}


def _taint_times(stored: Iterable[Stored]) -> dict[tuple[object, ...], str]:
    """Since when each device has each taint."""
    return {
        _place(device_, taint): since
        for one in stored
        for device_ in _bodies(one.spec, "devices")
        for taint in _bodies(device_, "taints")
        if isinstance(since := taint.get("timeAdded"), str) and since
    }


def _place(device_: Body, taint: Body) -> tuple[object, ...]:
    return device_.get("name"), taint.get("key"), taint.get("value", "")


def _with_times(spec: Body, known: Mapping[tuple[object, ...], str]) -> Body:
    """Taints that stay keep their times, whatever slice the device is in now."""
    if "devices" not in spec:
        return spec
    devices = []
    for one in _bodies(spec, "devices"):
        taints = []
        for taint in _bodies(one, "taints"):
            since = known.get(_place(one, taint))
            taints.append({**taint, "timeAdded": since} if since else taint)
        devices.append({**one, "taints": taints} if taints else one)
    return {**spec, "devices": devices}
