"""One GPU has one layout: which one a change goes to, and what stands against it."""

from __future__ import annotations

import pytest

from laneway.api import LayoutGpuSelector, ObjectMeta, PCIDeviceClaim, PCIDeviceClaimSpec
from laneway.changes.errors import RefusedError
from laneway.changes.vgpus import against, known, own_layout
from support.gpu_objects import ADDRESS, NAME, Q4, card, device, layout, one, vgpu


def test_a_layout_of_this_gpu_alone_is_changed() -> None:
    mine = layout(NAME, gpu_selector=LayoutGpuSelector(names=[NAME]))
    newer = layout("newer", "2026-06-01T00:00:00Z")
    assert own_layout(one(), [newer, mine], "this command") is mine
    assert (
        own_layout(
            one(), [layout("x", gpu_selector=LayoutGpuSelector(names=["y"]))], "this command"
        )
        is None
    )


def test_an_older_layout_keeps_its_gpu() -> None:
    mine = layout(NAME, gpu_selector=LayoutGpuSelector(names=[NAME]))
    older = layout("older", "2025-01-01T00:00:00Z")
    for layouts in ([older], [mine, older]):
        with pytest.raises(RefusedError, match="VGPULayout older configures"):
            own_layout(one(), layouts, "this command")
    assert own_layout(one(), [layout("asks", dry_run=True)], "this command") is None


def test_profiles_are_known_from_objects_and_from_the_catalogue() -> None:
    fits = {"NVIDIA A2-98Q": 1, "NVIDIA A2-97Q": 0}
    driver, catalogue = known(one(vgpu(4, "NVIDIA A2-99Q"), of=device(fits=fits), cards=[card()]))
    assert driver == {"NVIDIA A2-99Q", "NVIDIA A2-98Q"}
    assert Q4 in catalogue
    assert known(one(of=device())) == (set(), set())


def test_all_that_stands_against_new_vgpus_is_said_at_once() -> None:
    spec = PCIDeviceClaimSpec(address=ADDRESS, node_name="node1", user_name="eve")
    claim = PCIDeviceClaim(metadata=ObjectMeta(name="claimed"), spec=spec)
    gpu = one(claims=[claim], nodes={})
    older = layout("older", "2025-01-01T00:00:00Z")

    away, owned, claimed = against(gpu, [older], "this page")

    assert "the cluster has no such node any more" in away
    assert "VGPULayout older configures" in owned
    assert "PCIDeviceClaim claimed of user eve" in claimed
    assert list(against(one(), [], "this page")) == []


def test_what_cannot_be_changed_here_is_said_of_the_place_that_was_used() -> None:
    wide = layout(NAME, gpu_selector=LayoutGpuSelector(names=[NAME, "other"]))

    [reason] = against(one(), [wide], "this page")

    assert "so this page does not change it" in reason
