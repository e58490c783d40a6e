"""Which of the vGPUs desired on one GPU are made, and in which order.

A driver puts each vGPU where it sees fit, so of the same desired states all may fit or not, and
what comes back after a reboot may sit elsewhere, depending on the order alone. Desired states
compete in the order in which they are given: one that does not fit with those before it is left
out and does not block others. Of those that remain, what the card carried before goes where it sat,
as far as an order does that. The rest is made in the order that leaves the most room.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

import msgspec

from laneway.core.gpu.modes import GpuModes
from laneway.core.inventory import VgpuFunction
from laneway.core.mig.homes import creation_order, homes
from laneway.core.packing.order import best_order
from laneway.core.pci import PciAddress, PciFunction
from laneway.core.vgpu.card import Card, card_of
from laneway.core.vgpu.catalogue import profiles_of
from laneway.core.vgpu.placement import Carried, Placed, are_mixed, arrange, carried_on
from laneway.core.vgpu.profiles import framebuffer_mib, profile

_NOWHERE = 1 << 10
"""After every place of a card."""


class Wanted(msgspec.Struct, frozen=True):
    """A vGPU to be made on a function that is free, or that will be."""

    function: PciAddress
    profile: str
    place: int | None = None
    """Its first memory slot when it was here last, where that is known."""


_Rule = Callable[..., tuple[Placed, ...] | None]
"""`arrange`, or what gives the best of its answers."""


def making_order(
    gpu: PciFunction,
    functions: Iterable[VgpuFunction],
    modes: GpuModes | None,
    wanted: Sequence[Wanted],
) -> tuple[Wanted, ...]:
    """Those that can be made, as the driver offers it now, in the order to make them in.

    `functions`: all of this GPU. `modes`: None where not known. `wanted`: who comes first
    counts first.
    """
    return _making_order(gpu.device, gpu.subsystem_device, tuple(functions), modes, tuple(wanted))


@lru_cache(maxsize=128)
def _making_order(
    device: str,
    subsystem: str,
    functions: tuple[VgpuFunction, ...],
    modes: GpuModes | None,
    wanted: tuple[Wanted, ...],
) -> tuple[Wanted, ...]:
    offers = {one.address: {kind.name for kind in one.creatable} for one in functions}
    chosen = [one for one in wanted if one.profile in offers.get(one.function, ())]
    there = _There(device, subsystem, functions, modes)
    order = _together(there, tuple(chosen))
    if order is None:
        fitting: tuple[Wanted, ...] = ()
        for one in chosen:
            if _together(there, (*fitting, one), arrange) is not None:
                fitting = (*fitting, one)
        order = _together(there, fitting)
    return order or ()


def together(
    gpu: PciFunction,
    functions: Iterable[VgpuFunction],
    modes: GpuModes | None,
    wanted: Sequence[Wanted],
) -> tuple[Wanted, ...] | None:
    """An order that serves all of them on top of what the functions carry; None when none does.

    Where the board's size is not known only the driver knows, and the largest come first.
    """
    there = _There(gpu.device, gpu.subsystem_device, tuple(functions), modes)
    return _together(there, tuple(wanted))


class _There(NamedTuple):
    device: str
    subsystem: str
    functions: tuple[VgpuFunction, ...]
    modes: GpuModes | None


def _together(
    there: _There, wanted: tuple[Wanted, ...], rule: _Rule = best_order
) -> tuple[Wanted, ...] | None:
    device, subsystem, functions, modes = there
    backed = {bool(one and one.mig_backed) for one in (profile(w.profile) for w in wanted)}
    if len(backed) > 1:
        return None
    if backed == {True}:
        return _largest_first(wanted) if modes is None else _in_instances(functions, modes, wanted)
    listed = {kind.name for one in functions for kind in (*one.supported, *one.creatable)}
    carried = [one.configured for one in functions if one.configured]
    shown = listed | {one.type_name for one in carried} - {""}
    known = {row.name for row in profiles_of(device, subsystem)}
    mdev = any(one.framework == "mdev" for one in functions)
    complete = mdev or (not carried and all(one.creatable for one in functions))
    if not complete and not known:
        return _largest_first(wanted)
    card = card_of(device, (shown or known) | {one.profile for one in wanted})
    if any(one.profile not in card.kinds for one in wanted):
        return None
    stay = carried_on(functions)
    if are_mixed(card, stay) or (modes is not None and modes.mixed_size):
        return _mixed(card, stay, wanted, rule)
    return _alike(card, stay, wanted)


def _largest_first(wanted: Iterable[Wanted]) -> tuple[Wanted, ...]:
    return tuple(sorted(wanted, key=lambda one: -framebuffer_mib(one.profile)))


def _alike(
    card: Card, there: tuple[Carried, ...], wanted: tuple[Wanted, ...]
) -> tuple[Wanted, ...] | None:
    """In same-size mode a profile is held to its own maximum when it is made, and not later."""
    if arrange(card, there, _counts(wanted), mixed=False) is None:
        return None

    def rank(one: Wanted) -> tuple[int, int]:
        return card.kinds[one.profile].maximum, _NOWHERE if one.place is None else one.place

    return tuple(sorted(wanted, key=rank))


def _mixed(
    card: Card, there: tuple[Carried, ...], wanted: tuple[Wanted, ...], rule: _Rule
) -> tuple[Wanted, ...] | None:
    back, now, rest = _back(card, there, wanted)
    found = _arranged(card, now, rest, rule)
    return _arranged(card, there, wanted, rule) if found is None else (*back, *found)


def _back(
    card: Card, there: tuple[Carried, ...], wanted: tuple[Wanted, ...]
) -> tuple[tuple[Wanted, ...], tuple[Carried, ...], tuple[Wanted, ...]]:
    """Those that go where they sat, what the card carries then, and those that are left.

    One that is in its place is never in the way of another that was there with it, and may be what
    makes the driver pass over a lower place: so whichever can go next may go next.
    """
    back: list[Wanted] = []
    left, now = list(wanted), there
    while True:
        for one in left:
            placed = arrange(card, now, {one.profile: 1}, mixed=True)
            if placed and one.place is not None and placed[0].start == one.place:
                back.append(one)
                left.remove(one)
                now = (*now, Carried(one.profile, one.place))
                break
        else:
            return tuple(back), now, tuple(left)


def _arranged(
    card: Card, there: tuple[Carried, ...], wanted: tuple[Wanted, ...], rule: _Rule
) -> tuple[Wanted, ...] | None:
    order = rule(card, there, _counts(wanted), mixed=True)
    return None if order is None else _in_turn(wanted, (placed.profile for placed in order))


def _in_instances(
    functions: tuple[VgpuFunction, ...], modes: GpuModes, wanted: tuple[Wanted, ...]
) -> tuple[Wanted, ...] | None:
    order = creation_order(_counts(wanted), modes.profiles, [homes(functions, modes)])
    return None if order is None else _in_turn(wanted, order)


def _counts(wanted: Iterable[Wanted]) -> dict[str, int]:
    return dict(Counter(one.profile for one in wanted))


def _in_turn(wanted: Iterable[Wanted], profiles: Iterable[str]) -> tuple[Wanted, ...]:
    """The desired states, in the order of profiles, those for one profile as they come."""
    waiting: dict[str, list[Wanted]] = {}
    for one in wanted:
        waiting.setdefault(one.profile, []).append(one)
    return tuple(waiting[name].pop(0) for name in profiles)
