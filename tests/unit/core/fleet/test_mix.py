"""A mix of requests on a fleet: which GPUs take part, and what each mode and policy serves."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from laneway.core.fleet.made_up import made_up
from laneway.core.fleet.mix import OWN, Asked, Line, MixError, Simulated, seen, simulate
from laneway.core.fleet.model import Fleet, Vm

L8, L24, A4 = "NVIDIA L40S-8Q", "NVIDIA L40S-24Q", "NVIDIA A2-4Q"


def run(fleet: Fleet, shares: dict[str, int], **more: Any) -> Simulated:
    asked = {"load": 0.8, "patience": 0.0, "seeds": 1, "requests": 600, **more}
    return simulate(fleet, Asked(shares, **asked))


def own(found: Simulated, mode: str = "") -> Line:
    return next(one for one in found.lines if (one.mode, one.policy) == (mode, OWN))


def every_gpu(fleet: Fleet, **changes: Any) -> Fleet:
    return replace(fleet, gpus=tuple(replace(gpu, **changes) for gpu in fleet.gpus))


def test_modes_that_gpus_have_today_count_and_the_others_are_compared() -> None:
    fleet = made_up("l40s")
    same, mixed = (
        run(fleet, {L8: 3, L24: 1}),
        run(every_gpu(fleet, mode="MixedSize"), {L8: 3, L24: 1}),
    )
    assert (same.today, mixed.today) == ("SameSize", "MixedSize")
    assert {one.mode for one in same.lines} == {"", "MixedSize"}
    assert replace(own(same), mode="SameSize") == own(mixed, "SameSize")
    assert replace(own(mixed), mode="MixedSize") == own(same, "MixedSize")
    half = replace(fleet, gpus=(replace(fleet.gpus[0], mode="MixedSize"), fleet.gpus[1]))
    assert run(half, {L8: 3, L24: 1}).today == ""


def test_who_packs_serves_more_and_uses_more() -> None:
    found = run(made_up("4x l40s"), {L8: 3, L24: 1})
    spread = next(one for one in found.lines if one.policy == "emptiest GPU")
    assert own(found).memory > spread.memory + 0.1
    assert own(found).used > spread.used + 0.1


def test_kinds_of_gpus_share_the_load_by_what_is_requested_of_them() -> None:
    found = run(made_up("2x l40s, 6x a2"), {L8: 1, A4: 1}, load=0.1)
    requested = {one.profiles: one.requested for one in own(found).profiles}
    assert requested == {(L8,): pytest.approx(0.5), (A4,): pytest.approx(0.5)}
    assert found.gib == 4 * 48 + 6 * 16
    assert own(found).used == pytest.approx(0.1, rel=0.15)


def test_gpus_without_functions_to_spare_carry_no_more() -> None:
    fleet = made_up("l40s")
    free = own(run(fleet, {L8: 1}, load=0.5))
    few = own(run(every_gpu(fleet, functions=2), {L8: 1}, load=0.5))
    assert free.all.served > 0.95
    assert few.used <= 2 * 8 / 48


def test_claimed_gpus_and_profiles_that_no_gpu_offers_are_left_out() -> None:
    fleet = made_up("l40s, a2")
    [*l40s, a2] = fleet.gpus
    fleet = replace(fleet, gpus=(*l40s, replace(a2, claimed="it is claimed")))
    found = run(fleet, {L8: 1, A4: 1})
    assert (found.gpus, found.nowhere) == (2, (A4,))
    with pytest.raises(MixError):
        run(fleet, {A4: 1})


def test_of_many_gpus_of_a_kind_a_part_is_simulated_with_its_part_of_the_load() -> None:
    found = run(made_up("40x l40s"), {L24: 1}, load=0.3)
    assert (found.gpus, found.simulated) == (80, 64)
    assert own(found).used == pytest.approx(0.3, rel=0.1)


def test_the_mix_seen_so_far_is_what_vms_and_pods_request() -> None:
    vms = (
        Vm(name="d/a", requests={"nvidia.com/NVIDIA_L40S-8Q": 2, "nvidia.com/AD104GL_L4": 1}),
        Vm(name="pod d/b", requests={"nvidia.com/NVIDIA_L40S-8Q": 1}),
        Vm(name="d/c", requests={"nvidia.com/NVIDIA_L40S-24Q": 1}),
    )
    assert seen(replace(made_up("l40s"), vms=vms)) == {L8: 3, L24: 1}
