"""Carries out what `core.release` decides, look by look, until nothing is left."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterable

from laneway.controllers.doctor.facts import answering
from laneway.controllers.release.objects import KINDS, disabled, look
from laneway.core.release.everything import Action, Look, Obstacle, decide
from laneway.kube.client import Client
from laneway.kube.errors import ApiError, NotFoundError

LOOK_SECONDS = 1.0
MANAGER = "laneway-release"
"""Under which name fields are written."""

Tell = Callable[[str], None]


async def release(
    client: Client, nodes: Collection[str], tell: Tell, *, seconds: float
) -> tuple[Obstacle, ...]:
    """Release until all is released or the time is over; what is left then. Raises KubeError."""
    silent = await _silent(client, nodes)
    left = decide(await look(client, nodes), silent)
    refused: dict[str, str] = {}
    reported: set[str] = set()

    def report_once(words: str) -> None:
        if words not in reported:
            reported.add(words)
            tell(words)

    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while not left.done:
                for action in left.actions:
                    refused[action.target.title] = await _act(client, action)
                _tell(left, refused, report_once)
                await asyncio.sleep(LOOK_SECONDS)
                left = decide(await look(client, nodes), silent)
    return tuple(_remaining(left, refused))


def _tell(left: Look, refused: dict[str, str], tell: Tell) -> None:
    for action in left.actions:
        if not refused[action.target.title]:
            tell(action.words)
    for obstacle in _remaining(left, refused):
        if not obstacle.in_turn:
            tell(f"waiting: {obstacle.words}")


def _remaining(left: Look, refused: dict[str, str]) -> Iterable[Obstacle]:
    """What is not back yet, with what was refused; what was only just requested comes in turn."""
    yield from left.obstacles
    for action in left.actions:
        why = refused.get(action.target.title, "")
        yield Obstacle(action.target, why or "not done yet", in_turn=not why)


async def _act(client: Client, action: Action) -> str:
    """Request it; why that was refused, or nothing."""
    target = action.target
    resource = KINDS[target.kind]
    try:
        if target.way == "delete":
            await client.delete(resource, target.name)
        else:
            body = {"spec": disabled(target.kind)}
            await client.patch(resource, target.name, body, field_manager=MANAGER)
    except NotFoundError:
        return ""
    except ApiError as error:
        return f"refused: {error.message}"
    return ""


async def _silent(client: Client, nodes: Collection[str]) -> set[str]:
    """Nodes whose agent does not answer, as far as that is known."""
    found = await answering(client)
    return {name for name, agent in found.items() if not agent and (not nodes or name in nodes)}
