"""The layout of a card that shares itself by time, in same-size and in mixed-size mode."""

from __future__ import annotations

from laneway.core.inventory import VgpuFunction
from laneway.core.layout.view import (
    Choice,
    View,
    catalogued,
    choose,
    creations,
    is_measured,
    losses,
    missing,
    removals,
    shown_names,
    untouchable,
)
from laneway.core.packing.order import best_order
from laneway.core.plan import SetMixedSize, Step
from laneway.core.refusals import LayoutDoesNotFit, Refusal, SizesMixed
from laneway.core.vgpu.card import Card, card_of
from laneway.core.vgpu.placement import Carried, carried_on, shortage
from laneway.core.vgpu.profiles import framebuffer_mib

_Order = tuple[str, ...]


def card(view: View) -> Card:
    """The board, as its driver and the catalogue know it, and the desired state takes it to be."""
    names = shown_names(view) or {row.name for row in catalogued(view)}
    return card_of(view.gpu.device, names | set(view.wanted))


def _place(view: View, carried: tuple[Carried, ...], wanted: dict[str, int]) -> _Order | None:
    """In which order to make vGPUs, None when they do not fit.

    Where neither the catalogue nor a complete list of the driver's tells how large the board is,
    only the driver can judge, and the largest come first.
    """
    if not is_measured(view):
        order = sorted(wanted, key=lambda name: -framebuffer_mib(name))
        return tuple(name for name in order for _ in range(wanted[name]))
    placed = best_order(card(view), carried, wanted, mixed=view.desired.mixed_size)
    return None if placed is None else tuple(one.profile for one in placed)


def unfitting(view: View, carried: tuple[Carried, ...] = ()) -> tuple[Refusal, ...]:
    """Why the desired state does not fit with the vGPUs that stay, these being part of it."""
    mixed = view.desired.mixed_size
    sizes = {framebuffer_mib(name) for name in view.wanted}
    if not mixed and len(sizes) > 1:
        return (SizesMixed(view.device, tuple(sorted(view.wanted))),)
    if not is_measured(view):
        return ()
    left = dict(view.wanted)
    for one in carried:
        left[one.profile] -= 1
    wanted = {name: count for name, count in left.items() if count > 0}
    short = shortage(card(view), carried, wanted, mixed=mixed)
    if short is None:
        return ()
    name, possible = short
    there = sum(one.profile == name for one in carried)
    others = len(view.wanted) > 1
    return (LayoutDoesNotFit(view.device, name, view.wanted[name], possible + there, others),)


def plan_sliced(view: View) -> tuple[tuple[Refusal, ...], list[Step]]:
    """What speaks against it, and the steps, on a card that has its functions and no MIG mode."""
    if _mode_changes(view):
        return _changed_mode(view)
    choice, order = _settled(view)
    against = (*choice.against, *untouchable(view, choice.kept))
    if order is None:
        return (*against, *unfitting(view, carried_on(choice.kept))), []
    steps = removals(choice.removed)
    return against, [*steps, *creations(view, choice.kept, order)]


def staying(view: View) -> tuple[VgpuFunction, ...]:
    """The functions whose vGPUs stay as they are."""
    return () if _mode_changes(view) else _settled(view)[0].kept


def _mode_changes(view: View) -> bool:
    return view.modes.mixed_size not in (None, view.desired.mixed_size)


def _settled(view: View) -> tuple[Choice, _Order | None]:
    """What stays, and in which order the rest is made; None when it does not fit."""
    choice = choose(view, lambda _: True)
    order = _place(view, carried_on(choice.kept), missing(view, choice.kept))
    if order is None:
        # Where vGPUs sit now may be in the way; unused ones can sit elsewhere.
        choice = choose(view, lambda _: False)
        order = _place(view, carried_on(choice.kept), missing(view, choice.kept))
    return choice, order


def _changed_mode(view: View) -> tuple[tuple[Refusal, ...], list[Step]]:
    """The mode changes only on a card without vGPUs, so all are made again."""
    removed = tuple(function for function, _ in view.carried)
    against = (*losses(view, removed), *unfitting(view))
    order = _place(view, (), view.wanted)
    steps = removals(removed)
    steps.append(SetMixedSize(view.gpu.address, view.desired.mixed_size))
    return against, [*steps, *creations(view, (), order or ())]
