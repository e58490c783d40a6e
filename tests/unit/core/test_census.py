"""GPUs, virtual functions and vGPUs by state: each counted once, and nothing left out."""

from __future__ import annotations

import msgspec
from hypothesis import given

from laneway.core import census
from laneway.core.gpu.modes import GpuInstance, GpuModes, Mode
from laneway.core.inventory import Inventory
from laneway.host.scan import scan
from laneway.sim.spec import build, parse_spec
from support.cards import CARD, Scene, scene, scenes, vf_addresses

Q4 = "NVIDIA A2-4Q"


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


def test_gpus_are_counted_by_mode_and_one_that_was_not_asked_too() -> None:
    inventory = scene(gpu=True, existing=16).situation.inventory

    def modes(reported: GpuModes | None = None) -> list[str]:
        found = msgspec.structs.replace(inventory, modes={CARD: reported} if reported else {})
        return [mode for mode, count in census.modes(found).items() if count]

    assert modes() == ["unknown"]
    assert modes(GpuModes()) == ["SameSize"]
    assert modes(GpuModes(mixed_size=True)) == ["MixedSize"]
    assert modes(GpuModes(mig=True)) == ["MIGBacked"]
    assert set(census.modes(inventory)) == {*map(str, Mode), "unknown"}


def test_a_desired_state_is_missing_until_its_very_profile_is_there() -> None:
    inventory = scan(build(parse_spec("a2"), "node1"))
    address = str(inventory.vgpus[0].address)

    assert census.missing(inventory, {}) == {}
    assert census.missing(inventory, {address: Q4}) == {Q4: 1}
    assert census.missing(inventory, {address: "../../etc/passwd", "nowhere": "x"}) == {
        "unknown": 2
    }
    assert census.missing(_carrying(Q4), {address: Q4}) == {}
    assert census.missing(_carrying("NVIDIA A2-8Q"), {address: Q4}) == {Q4: 1}


def test_what_is_free_shrinks_with_what_is_made_and_counts_each_profile_for_itself() -> None:
    empty, one = census.free(_carrying("")), census.free(_carrying(Q4))

    assert empty[Q4] == 4
    assert empty["NVIDIA A2-8Q"] == 2
    assert one[Q4] == 3
    assert one["NVIDIA A2-8Q"] == 0


def test_gpu_instances_are_counted_by_profile() -> None:
    instances = tuple(GpuInstance(n, "1g.5gb", 19, n, 1) for n in range(3))
    inventory = Inventory(modes={CARD: GpuModes(mig=True, instances=instances)})

    assert census.gpu_instances(inventory) == {"1g.5gb": 3}


def _carrying(profile: str) -> Inventory:
    """An A2 with this vGPU on its first function, if any."""
    host = build(parse_spec("a2"), "node1")
    first = scan(host).vgpus[0]
    for kind in first.creatable:
        if kind.name == profile:
            types = f"/sys/bus/pci/devices/{first.address}/mdev_supported_types"
            host.write(f"{types}/{kind.id}/create", "6f1a1b7c-2f0e-4f0c-9f3f-0d9b1b1c1d1e")
    return msgspec.structs.replace(scan(host), modes={first.parent: GpuModes(mixed_size=False)})
