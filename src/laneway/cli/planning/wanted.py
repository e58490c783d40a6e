"""Profiles as people write them, in the names that the GPUs of a fleet have for them."""

from __future__ import annotations

from collections.abc import Mapping

from laneway.cli import capacity_question as question
from laneway.cli.errors import Failure
from laneway.core.fleet import board, fitting, resources
from laneway.core.fleet.model import Fleet
from laneway.core.phrases import short_name


def in_full(
    fleet: Fleet, asked: Mapping[str, int], *, in_instances: bool = False
) -> dict[str, int]:
    """The same by full names. Raises Failure where no GPU offers one.

    `in_instances`: MIG-backed profiles are possible as well; otherwise they are refused.
    """
    profiles = board.by_resource(fleet)
    backed = resources.mig_backed(fleet)
    if in_instances:
        profiles |= backed
        backed = {}
    found: dict[str, int] = {}
    for resource, count in question.in_full(asked, profiles, backed).items():
        if resource in backed:
            raise Failure(_in_instances(short_name(backed[resource])))
        if resource not in profiles:
            kind = "vGPU" if in_instances else "time-sliced vGPU"
            raise Failure(f"no GPU offers {resource} as a {kind}")
        found[profiles[resource]] = count
    return found


def need_mode(fleet: Fleet, wanted: Mapping[str, int]) -> None:
    """Raises Failure where a MIG-backed profile is wanted and no GPU that has it is in the mode."""
    backed = set(resources.mig_backed(fleet).values())
    for profile in wanted:
        if profile in backed and not any(
            fitting.in_instances(gpu) and fitting.offers(gpu, profile) for gpu in fleet.gpus
        ):
            name = short_name(profile)
            raise Failure(
                f"{name} needs a GPU in mode MIGBacked, and no GPU that has it is in that mode. "
                f"{_ask_what_if(name)}"
            )


def _in_instances(profile: str) -> str:
    return (
        f"{profile} needs a GPU instance, and this command plans time-sliced vGPUs alone. "
        f"{_ask_what_if(profile)}"
    )


def _ask_what_if(profile: str) -> str:
    return (
        f"Whether GPUs have room for it: laneway plan what-if --mode GPU=MIGBacked --vms {profile}"
    )
