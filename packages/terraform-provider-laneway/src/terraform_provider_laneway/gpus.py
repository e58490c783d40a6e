"""GPUs, their virtual functions and profiles, as attributes name them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from laneway.changes.errors import ChangeError
from laneway.changes.vgpus import known
from laneway.changes.writing import Outcome, Waiting
from laneway.cli import fleet, profile_names, target
from laneway.cli.errors import Failure
from laneway.core.vgpu import spelling
from laneway.kube.client import Client
from laneway.views.gpus import Gpu
from terraform_provider_laneway.problems import Path, ProblemError, refused

TRIAL_SECONDS = 30
"""How long an agent is asked what it would do."""


async def find(client: Client, text: str, attribute: str = "gpu") -> Gpu:
    """A GPU by its name or NODE/ADDRESS. Raises ProblemError."""
    try:
        return await target.find(client, text)
    except Failure as error:
        raise ProblemError("No such GPU", error.message, [attribute]) from None


async def seen(client: Client, text: str) -> Gpu | None:
    """The same; None where there is no such GPU."""
    try:
        return await target.find(client, text)
    except Failure:
        await fleet.devices(client)  # Raises where GPUs cannot be read at all.
        return None


def in_full(gpu: Gpu, vgpus: Mapping[str, int], path: Path) -> dict[str, int]:
    """VGPUs by the profiles' names of the driver. Raises ProblemError."""
    try:
        return profile_names.in_full(vgpus, *known(gpu))
    except Failure as error:
        raise ProblemError("No such profile", error.message, path) from None


def as_written(gpus: Iterable[Gpu], written: Iterable[str], profile: str) -> str:
    """A profile as the configuration calls it, where it does; else in full."""
    known_to = [names for gpu in gpus for names in known(gpu)]
    return next((one for one in written if spelling.in_full(one, *known_to) == profile), profile)


def waiting(client: Client, gpu: Gpu, seconds: int) -> Waiting:
    """How long to wait for the agent."""

    async def look() -> Gpu:
        try:
            return await target.find(client, gpu.name)
        except Failure as error:
            raise ChangeError(error.message) from error

    return Waiting(seconds, False, look)


def settled(outcome: Outcome, path: Path) -> None:
    """Raise ProblemError where the agent has refused a change."""
    if outcome.state in ("refused", "unchanged"):
        words = ". ".join(
            part.rstrip(".") for part in (outcome.answer.words, outcome.words) if part
        )
        raise refused(f"{words}.", path)
