"""What stands against a change of a GPU, and what changes in its object."""

from __future__ import annotations

import pytest

from laneway.api import (
    ObjectMeta,
    PCIDeviceClaim,
    PCIDeviceClaimSpec,
)
from laneway.changes.gpus import Desired, against, differences
from support.gpu_objects import ADDRESS, Q4, device, done_by, one, vgpu


def test_what_a_desired_state_changes() -> None:
    gpu = one(of=device(mode="MIG"))
    assert list(differences(gpu, Desired(enabled=True))) == []
    assert list(differences(gpu, Desired(enabled=False, mode="SameSize"))) == [
        "spec.enabled: true -> false",
        "spec.mode: MIG -> SameSize",
    ]


def test_nothing_stands_against_what_is_free() -> None:
    gpu = one(vgpu(4))
    assert list(against(gpu, Desired(enabled=False))) == []
    assert list(against(gpu, Desired(enabled=True, mode="MixedSize"))) == []


def test_enabled_vgpus_stand_against_what_would_take_them_away() -> None:
    gpu = one(vgpu(4, Q4, Q4), vgpu(5))
    for desired in (Desired(enabled=False), Desired(enabled=True, mode="MixedSize")):
        [reason] = against(gpu, desired)
        assert "node1-000008004" in reason
        assert "node1-000008005" not in reason
    assert list(against(gpu, Desired(enabled=True, mode="SameSize"))) == []


def test_a_vgpu_that_is_not_requested_is_not_removed_unasked_either() -> None:
    gpu = one(vgpu(4, carried=Q4))
    for desired in (Desired(enabled=False), Desired(enabled=True, mode="MixedSize")):
        [reason] = against(gpu, desired)
        assert f"0000:08:00.4 is in use: vGPU {Q4} is configured on it" in reason
    assert list(against(gpu, Desired(enabled=True))) == []


@pytest.mark.parametrize(
    ("layout", "words"),
    [
        (
            "node1-000008000",
            f"laneway vgpu set node1/{ADDRESS} none; kubectl delete vgpulayout node1-000008000",
        ),
        ("everywhere", "Delete the layout first, which changes no vGPU: kubectl delete vgpulayout"),
    ],
)
def test_under_a_layout_only_what_the_layout_allows_is_advised(layout: str, words: str) -> None:
    """To disable the vGPUs one by one is refused as long as a layout owns them."""
    gpu = one(vgpu(4, Q4, Q4), layouts=[done_by(layout)])
    [reason] = against(gpu, Desired(enabled=False))
    assert words in reason


def test_a_claim_of_the_whole_card_stands_against_sharing_it() -> None:
    spec = PCIDeviceClaimSpec(address=ADDRESS, node_name="node1", user_name="eve")
    claim = PCIDeviceClaim(metadata=ObjectMeta(name="claimed"), spec=spec)
    gpu = one(claims=[claim], of=device(enabled=False))
    [reason] = against(gpu, Desired(enabled=True))
    assert "PCIDeviceClaim claimed of user eve" in reason
    assert list(against(gpu, Desired(enabled=False, mode="Passthrough"))) == []
