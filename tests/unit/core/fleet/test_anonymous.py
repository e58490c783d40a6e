"""An anonymous fleet: what decides about plans stays, whatever it is called."""

from __future__ import annotations

from msgspec.structs import replace

from laneway.core.fleet.anonymous import anonymous
from laneway.core.fleet.made_up import made_up
from laneway.core.fleet.model import Fleet, Vgpu, Vm
from laneway.core.fleet.moves import Outcome, least_moves

_Q48, _Q24 = "NVIDIA L40S-48Q", "NVIDIA L40S-24Q"


def _half_used_by(holder: str) -> Fleet:
    """Two GPUs, each of which carries one vGPU; all of them have this kind of holder."""
    fleet = made_up("2x l40s*1")
    gpus = tuple(
        replace(gpu, vgpus=(Vgpu(name=f"v{n}", profile=_Q24, holder=f"{holder}-{n}"),))
        for n, gpu in enumerate(fleet.gpus)
    )
    vms = (Vm(name=f"{holder}-0", node="l40s-1"), Vm(name=f"{holder}-1", node="l40s-2"))
    return replace(fleet, gpus=gpus, vms=vms)


def test_a_pod_stays_a_pod_which_cannot_be_moved() -> None:
    for holder, outcome in (("pod team/p", Outcome.NONE), ("team/v", Outcome.FOUND)):
        fleet = _half_used_by(holder)
        for one in (fleet, anonymous(fleet)):
            assert least_moves(one, {_Q48: 1}, restart=True).outcome is outcome
        assert "team" not in str(anonymous(fleet))
