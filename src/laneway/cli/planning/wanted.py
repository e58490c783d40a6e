"""Profiles as people write them, in the names that the GPUs of a fleet have for them."""

from __future__ import annotations

from collections.abc import Mapping

from laneway.cli import capacity_question as question
from laneway.cli.errors import Failure
from laneway.core.fleet import board, resources
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


def _in_instances(profile: str) -> str:
    return (
        f"{profile} needs a GPU instance, and this command plans time-sliced vGPUs alone. Whether "
        "GPUs have room for it: "
        f"laneway plan what-if --mode GPU=MIGBacked --vms {profile}"
    )
