"""The layout of a card that shares itself by time, in same-size and in mixed-size mode."""

from __future__ import annotations

from collections.abc import Callable

from laneway.core.inventory import VgpuFunction
from laneway.core.layout_view import (
    Choice,
    View,
    choose,
    creations,
    losses,
    missing,
    removals,
    shown_names,
    untouchable,
)
from laneway.core.placement import Card, Carried, Placed, arrange, card_of, shortage
from laneway.core.plan import SetMixedSize, Step
from laneway.core.profiles import profile
from laneway.core.refusals import LayoutDoesNotFit, Refusal, SizesMixed


def card(view: View) -> Card:
    """The board, as its driver and the catalogue know it, and the wish takes it to be."""
    return card_of(view.gpu.device, shown_names(view) | set(view.wanted))


def unfitting(view: View, carried: tuple[Carried, ...] = ()) -> tuple[Refusal, ...]:
    """Why the wish does not fit beside vGPUs that stay, these being part of it."""
    board, mixed = card(view), view.wish.mixed_size
    sizes = {one.framebuffer_mib for one in map(profile, view.wanted) if one is not None}
    if not mixed and len(sizes) > 1:
        return (SizesMixed(view.device, tuple(sorted(view.wanted))),)
    left = dict(view.wanted)
    for one in carried:
        left[one.profile] -= 1
    wanted = {name: count for name, count in left.items() if count > 0}
    short = shortage(board, carried, wanted, mixed=mixed)
    if short is None:
        return ()
    name, possible = short
    there = sum(one.profile == name for one in carried)
    return (LayoutDoesNotFit(view.device, name, view.wanted[name], possible + there),)


def plan_sliced(view: View) -> tuple[tuple[Refusal, ...], list[Step]]:
    """What speaks against it, and the steps, on a card that has its functions and no MIG mode."""
    if view.modes.mixed_size is not None and view.modes.mixed_size != view.wish.mixed_size:
        return _changed_mode(view)
    choice, placed = _keeping(view, lambda _: True)
    if placed is None:
        # Where vGPUs sit now may be in the way; those that nobody uses can sit elsewhere.
        choice, placed = _keeping(view, lambda _: False)
    against = (*choice.against, *untouchable(view, choice.kept))
    if placed is None:
        return (*against, *unfitting(view, _carried(choice))), []
    steps = removals(choice.removed)
    steps += creations(view, choice.kept, (one.profile for one in placed))
    return against, steps


def _keeping(
    view: View, keeps: Callable[[VgpuFunction], bool]
) -> tuple[Choice, tuple[Placed, ...] | None]:
    choice = choose(view, keeps)
    placed = arrange(
        card(view), _carried(choice), missing(view, choice.kept), mixed=view.wish.mixed_size
    )
    return choice, placed


def _carried(choice: Choice) -> tuple[Carried, ...]:
    vgpus = (function.configured for function in choice.kept)
    return tuple(Carried(vgpu.type_name, vgpu.placement) for vgpu in vgpus if vgpu)


def _changed_mode(view: View) -> tuple[tuple[Refusal, ...], list[Step]]:
    """The mode changes only on a card without vGPUs, so all are made anew."""
    removed = tuple(function for function, _ in view.carried)
    against = (*losses(view, removed), *unfitting(view))
    placed = arrange(card(view), (), view.wanted, mixed=view.wish.mixed_size)
    steps = removals(removed)
    steps.append(SetMixedSize(view.gpu.address, view.wish.mixed_size))
    steps += creations(view, (), (one.profile for one in placed or ()))
    return against, steps
