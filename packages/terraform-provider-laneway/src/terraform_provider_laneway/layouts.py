"""Layouts as agents see them: which GPUs one selects, whose they are, how far the agents are."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from laneway.api import VGPULayout
from laneway.changes.vgpus import selects
from laneway.changes.waiting import awaited
from laneway.cli import fleet
from laneway.controllers.devices.layout import claimant, claims, owns, selection
from laneway.core.layout.desired import Selection, owner
from laneway.core.refusals import GpuOwnedByLayout
from laneway.kube.client import Client
from laneway.kube.errors import NotFoundError
from laneway.kube.resource import served
from laneway.views.answers import Answer, entry_of, of_layout
from laneway.views.gpus import Gpu

LAYOUTS = served(VGPULayout)


async def stored(client: Client, name: str) -> VGPULayout | None:
    """A layout; None where there is none."""
    try:
        return await client.get(LAYOUTS, name)
    except NotFoundError:
        return None


async def selected(client: Client, wanted: Selection) -> list[Gpu]:
    """The GPUs that agents will take for selected, as far as objects show it."""
    return [gpu for gpu in (await fleet.look(client)).gpus if selects(wanted, gpu)]


async def others(client: Client, name: str, gpus: Sequence[Gpu], unknown: list[str]) -> list[str]:
    """GPUs that another layout configures. Why a layout cannot be read goes to `unknown`."""
    layouts = [
        layout
        for layout in await fleet.readable(client, LAYOUTS, unknown)
        if claims(layout) and layout.metadata.name != name
    ]
    found = []
    for gpu in gpus:
        entries = {one.metadata.name: entry for one, entry in gpu.layouts}
        rivals = [
            claimant(one, entries.get(one.metadata.name))
            for one in layouts
            if selects(selection(one), gpu)
        ]
        if rivals and not owns(entries.get(name)):
            found.append(GpuOwnedByLayout(gpu.name, owner(rivals)).words)
    return found


def answer_of(
    gpus: Sequence[Gpu], generation: int, words: Callable[[Answer], str]
) -> Callable[[VGPULayout], Answer]:
    """How far the agents of all selected GPUs are with a generation of a layout."""

    def answer(layout: VGPULayout) -> Answer:
        said = [(gpu, of_layout(entry_of(layout, gpu.name, generation))) for gpu in gpus]
        if refusals := [(gpu, one) for gpu, one in said if one.kind == "refused"]:
            text = " ".join(f"{gpu.title}: {words(one)}" for gpu, one in refusals)
            return Answer("refused", refusals[0][1].reason, text)
        open_ones = [(gpu, one) for gpu, one in said if one.kind != "done"]
        if not open_ones:
            return Answer("done")
        gpu, one = open_ones[0]
        if all(other.kind == "none" for _, other in open_ones):
            return Answer("none")
        return Answer("working", one.reason, f"{gpu.title}: {one.message or 'not answered yet'}")

    return answer


async def waited(
    client: Client,
    name: str,
    gpus: Sequence[Gpu],
    answer: Callable[[VGPULayout], Answer],
    seconds: int,
) -> tuple[VGPULayout, Answer]:
    """A layout with the final answer of its GPUs' agents. Raises TooLateError."""
    nodes = ", ".join(dict.fromkeys(gpu.node for gpu in gpus))
    return await awaited(client, LAYOUTS, name, answer, node=nodes, seconds=seconds)
