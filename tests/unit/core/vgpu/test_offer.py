"""Why a GPU has nothing to offer: each cause alone, and no cause where there is something."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from laneway.core.gpu.modes import GpuInstance, GpuModes
from laneway.core.inventory import ConfiguredVgpu, VgpuFunction, VgpuType
from laneway.core.refusals import MigOnly, NoGpuInstances, NoProfiles
from laneway.core.vgpu.offer import lacking, sriov_off
from support.cards import CARD, TYPES, Scene, scene

SHARED = scene(gpu=True, existing=16)
DEVICE = str(CARD)


def functions(**fields: Any) -> tuple[VgpuFunction, ...]:
    """Those of the GPU, which list nothing."""
    nothing: dict[str, Any] = {"supported": (), "creatable": (), **fields}
    return tuple(replace(one, **nothing) for one in SHARED.situation.inventory.vgpus)


def reported(
    listed: tuple[VgpuFunction, ...], modes: GpuModes | None, one: Scene = SHARED, driver: str = ""
) -> Any:
    return lacking(one.function(CARD), listed, modes, driver)


@pytest.mark.parametrize("modes", [None, GpuModes(), GpuModes(mig=False), GpuModes(mig=True)])
def test_a_gpu_that_lists_or_carries_something_lacks_nothing(modes: GpuModes | None) -> None:
    kind = TYPES[0]
    carrying = functions(configured=ConfiguredVgpu(kind.id, kind.name))
    assert reported(SHARED.situation.inventory.vgpus, modes) is None
    assert reported(functions(creatable=(kind,)), modes) is None
    assert reported((carrying[0], *functions()[1:]), modes) is None


def test_a_gpu_without_functions_is_not_queried() -> None:
    assert reported((), GpuModes(mig=True), scene(gpu=True)) is None


def test_mig_mode_without_instances_requests_the_configuration() -> None:
    found = reported(functions(), GpuModes(mig=True))
    assert found == NoGpuInstances(DEVICE)
    assert "MigConfiguration" in found.words
    some = (GpuInstance(1, "1g.5gb", 19, 0, 1),)
    assert reported(functions(), GpuModes(mig=True, instances=some)) is None


def test_types_that_are_listed_though_none_can_be_made_hide_no_cause() -> None:
    listed = functions(supported=TYPES)
    assert reported(listed, GpuModes(mig=True)) == NoGpuInstances(DEVICE)
    assert reported(listed, GpuModes(mig=False)) is None
    assert reported(listed, GpuModes()) is None
    backed = functions(supported=(VgpuType("nvidia-700", "GRID A100-1-5C"),))
    assert reported(backed, GpuModes(mig=False)) == MigOnly(DEVICE)


def test_a_card_that_lists_nothing_without_mig_is_asked_with_it() -> None:
    found = reported(functions(), GpuModes(mig=False))
    assert found == MigOnly(DEVICE)
    assert "MIGBacked" in found.words


@pytest.mark.parametrize("modes", [None, GpuModes()])
def test_a_driver_that_does_not_know_the_model_is_named(modes: GpuModes | None) -> None:
    found = reported(functions(), modes, driver="550.127.06")
    assert found == NoProfiles(DEVICE, "550.127.06")
    assert "550.127.06" in found.words


def test_a_driver_that_serves_no_vgpus_at_all_is_no_question_of_mig() -> None:
    assert reported((), GpuModes(mig=False)) == NoProfiles(DEVICE, "")


@pytest.mark.parametrize(
    ("device", "off"), [("25b6", True), ("26b9", True), ("1eb8", False), ("1b80", False)]
)
def test_a_model_that_could_be_shared_and_shows_no_sign_of_it(device: str, off: bool) -> None:
    gpu = replace(SHARED.function(CARD), device=device, sriov_gpu=False, total_vfs=None, vfs=())
    assert sriov_off(gpu) is off
    assert not sriov_off(replace(gpu, sriov_gpu=True))
    assert not sriov_off(replace(gpu, physfn=CARD))
    assert not sriov_off(replace(gpu, vendor="1002"))
