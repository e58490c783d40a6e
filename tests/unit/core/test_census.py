"""GPUs, virtual functions and vGPUs by state: each counted once, and nothing left out."""

from __future__ import annotations

from hypothesis import given

from laneway.core import census
from support.cards import CARD, Scene, scene, scenes, vf_addresses


@given(scenes())
def test_everything_is_counted_once(one: Scene) -> None:
    inventory = one.situation.inventory
    carried = sum(vgpu.configured is not None for vgpu in inventory.vgpus)

    vfs = census.vfs(inventory)

    assert sum(vfs.values()) == len(inventory.functions) - 1
    assert vfs["gpu", "vgpu"] == carried == sum(census.vgpus(inventory).values())
    assert sum(census.gpus(inventory).values()) == one.function(CARD).sriov_gpu


def test_each_state_of_a_gpu_and_of_its_functions() -> None:
    bare, made = scene(gpu=True), scene(gpu=True, existing=16)
    given_away = made.where(vf_addresses(1)[0], driver="vfio-pci").situation.inventory

    def of(one: Scene) -> list[str]:
        return [state for state, count in census.gpus(one.situation.inventory).items() if count]

    assert of(made) == ["enabled"]
    assert of(bare) == ["disabled"]
    assert of(bare.where(CARD, driver="vfio-pci")) == ["passthrough"]
    assert of(bare.where(CARD, driver="")) == ["undriven"]
    assert census.vfs(given_away)["gpu", "passthrough"] == 1
    assert census.vfs(given_away)["gpu", "free"] == 15
    assert census.vfs(scene(existing=4).situation.inventory)["network", "host"] == 4


def test_a_profile_that_is_gone_is_none() -> None:
    assert census.vgpus(scene().situation.inventory, ["NVIDIA A2-4Q"]) == {"NVIDIA A2-4Q": 0}
