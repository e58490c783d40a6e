"""What the answer to a what-if question says, sentence by sentence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from laneway.core.fleet.what_if import Answer, Left, Placement, Refused


def headline(found: Answer) -> str:
    """Yes or no, and for how many VMs."""
    all_vms = len(found.placed) + len(found.refused)
    if found.yes:
        return (
            f"Yes: there is room for {_vms(all_vms)}."
            if all_vms
            else "Yes: no VM waits or has to move."
        )
    if found.refused:
        return f"No: of {_vms(all_vms)} there is room for {len(found.placed)}."
    return "No: not every change is possible."


def where(one: Placement) -> str:
    """Where a VM goes, and what it gets there."""
    before = f" (today on {one.before})" if one.before and one.before != one.node else ""
    gpus = ", ".join(
        f"{device.profile} on {device.gpu}, {device.how}" if device.gpu else device.resource
        for device in one.devices
    )
    return f"node {one.node}{before}: {gpus}"


def no_room(found: Answer) -> Iterator[str]:
    """Which VMs have no place, and why; a sentence for all that lack the same."""
    yield from (f"no room for {who}: {words}" for who, words in _alike(found.refused))


def waiting(found: Answer) -> Iterator[str]:
    """Which VMs wait on, as they do today."""
    for who, words in _alike(found.waiting):
        yield f"still waiting, as today: {who}: {words}"


def room(one: Left) -> str:
    """What is left of a resource."""
    return f"room for {one.resource}: {one.then}, today {one.today}"


def _alike(refused: Iterable[Refused]) -> Iterator[tuple[str, str]]:
    for words, group in groupby(refused, key=lambda one: one.words):
        names = [one.vm for one in group]
        yield names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more", words


def _vms(count: int) -> str:
    return f"{count} VM{'s' if count != 1 else ''}"
