"""Which GPU instances a GPU is to have for one more vGPU, and where none is requested for it."""

from __future__ import annotations

import msgspec
import pytest

from laneway.api import (
    MigConfiguration,
    MigConfigurationSpec,
    MigConfigurationStatus,
    MigProfileRequest,
    ObjectMeta,
    SRIOVGPUDevice,
    SRIOVGPUDeviceSpec,
)
from laneway.changes.errors import ChangeError
from laneway.changes.moving.instances import Division, needed
from laneway.changes.moving.work import Seen
from laneway.core.fleet.made_up import made_up
from laneway.core.fleet.model import Vgpu
from laneway.core.gpu.modes import Mode
from laneway.views.gpus import Gpu

ONE, FOUR = "GRID A100-1-5C", "GRID A100-4-20C"
FLEET = made_up("a100*1")
NAME = FLEET.gpus[0].name
THREE = MigProfileRequest(name="MIG 3g.20gb", id=9, requested=1)


def seen(status: str, message: str = "", *, mode: str = Mode.MIG_BACKED) -> Seen:
    """A GPU with a vGPU in its first half, and a MigConfiguration that requests just that."""
    vgpu = Vgpu(name="v", profile="GRID A100-3-20C", instance=1)
    planned = msgspec.structs.replace(FLEET.gpus[0], mode=mode, vgpus=(vgpu,))
    gpu = Gpu(
        device=SRIOVGPUDevice(
            metadata=ObjectMeta(name=NAME),
            spec=SRIOVGPUDeviceSpec(address="0000:01:00.0", node_name="a100-1"),
        ),
        mig=MigConfiguration(
            spec=MigConfigurationSpec(enabled=True, profile_spec=[THREE]),
            status=MigConfigurationStatus(status=status, message=message),
        ),
    )
    return Seen(msgspec.structs.replace(FLEET, gpus=(planned,)), {NAME: gpu})


def test_one_more_is_requested_next_to_those_that_there_are() -> None:
    three = {"name": "MIG 3g.20gb", "id": 9, "requested": 1}
    assert needed(seen("synced"), NAME, ONE) == Division(
        NAME,
        before={"enabled": True, "profileSpec": [three]},
        after={
            "enabled": True,
            "profileSpec": [three, {"name": "MIG 1g.5gb", "id": 0, "requested": 1}],
        },
    )


def test_a_vgpu_that_shares_by_time_needs_none() -> None:
    assert needed(seen("synced", mode=Mode.SAME_SIZE), NAME, "GRID A100-20C") is None


@pytest.mark.parametrize(
    ("now", "profile", "words"),
    [
        (seen("synced"), FOUR, "has no place for the GPU instance that A100-4-20C needs"),
        (
            seen("out-of-sync", "It has no room for MIG 7g.40gb."),
            ONE,
            f"MigConfiguration {NAME} is not applied: It has no room for MIG 7g.40gb. To change",
        ),
    ],
)
def test_what_others_request_is_not_changed(now: Seen, profile: str, words: str) -> None:
    with pytest.raises(ChangeError, match=words):
        needed(now, NAME, profile)
