"""The demand that VMs show: what waits, and the most that was in use at a time."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from laneway.core.fleet.demand import Held, Seen, demand, peaks
from laneway.core.fleet.model import Vm
from laneway.core.ledger.facts import Phase
from support.planning import Q24, half_used

_TIMES = st.integers(0, 8)
_HELD = st.builds(
    lambda profile, since, length: Held(profile, since, None if length > 6 else since + length),
    st.sampled_from("ab"),
    _TIMES,
    st.integers(1, 8),
)


@given(st.lists(_HELD, max_size=12))
def test_the_most_at_a_time_is_that_of_every_moment(held: list[Held]) -> None:
    def at(moment: float, profile: str) -> int:
        return sum(
            one.profile == profile
            and one.since <= moment
            and (one.until is None or moment < one.until)
            for one in held
        )

    found = peaks(held)
    for profile in {one.profile for one in held}:
        assert found[profile] == max(at(tick + 0.5, profile) for tick in range(18))


def test_what_is_in_use_is_served_already() -> None:
    waits = Vm(name="d/w", phase=Phase.PENDING, requests={Q24: 2, "example.com/nic": 1})
    fleet = half_used(3, waits)
    assert demand(fleet, {}).profiles == {"NVIDIA L40S-24Q": Seen(3, 2, 3)}
    assert demand(fleet, {}).more == {"NVIDIA L40S-24Q": 2}
    assert demand(fleet, {"NVIDIA L40S-24Q": 8}).more == {"NVIDIA L40S-24Q": 5}
    assert demand(fleet, {"NVIDIA L40S-24Q": 4, "NVIDIA L40S-8Q": 1}).more == {
        "NVIDIA L40S-24Q": 2,
        "NVIDIA L40S-8Q": 1,
    }
    without = msgspec.structs.replace(fleet, vms=fleet.vms[:-1])
    assert demand(without, {"NVIDIA L40S-24Q": 3}).more == {}


def test_what_no_gpu_offers_is_named() -> None:
    found = demand(half_used(1), {"NVIDIA A40-8Q": 1, "GRID A100-1-5C": 2})
    assert found.nowhere == ("nvidia.com/GRID_A100-1-5C", "nvidia.com/NVIDIA_A40-8Q")
