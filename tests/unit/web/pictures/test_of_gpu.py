"""The drawing of a GPU from its objects."""

from __future__ import annotations

from typing import Any

from laneway.api import (
    Allocation,
    Condition,
    MigConfiguration,
    MigConfigurationStatus,
    MigProfileStatus,
    ObjectMeta,
    PCIDevice,
    PCIDeviceStatus,
    SRIOVGPUDevice,
    SRIOVGPUDeviceSpec,
    SRIOVGPUDeviceStatus,
    VGPUDevice,
    VGPUDeviceSpec,
    VGPUDeviceStatus,
)
from laneway.views.gpus import Gpu
from laneway.web.pictures.drawing import GpuDrawing, Named, State
from laneway.web.pictures.of_gpu import Links, drawing_of, places_of

GIB = 1024
Q4 = "NVIDIA A2-4Q"


def _vm(has: Allocation | None) -> Named | None:
    if has is None:
        return None
    path = f"{has.namespace}/{has.virtual_machine}"
    return Named(f"VM {path}", f"/vms/{path}")


LINKS = Links(
    vgpu=lambda one: f"/vgpus/{one.metadata.name}",
    holder=lambda one: _vm(one.status.allocation),
)


def vgpu(number: int, desired: str = "", **status: Any) -> VGPUDevice:
    has = "configure_vgpu_type_name" in status
    return VGPUDevice(
        metadata=ObjectMeta(name=f"v{number}", generation=1),
        spec=VGPUDeviceSpec(
            address=f"0000:08:00.{number}", enabled=bool(desired), vgpu_type_name=desired
        ),
        status=VGPUDeviceStatus(vgpu_status="vGPUConfigured" if has else "", **status),
    )


def refused(message: str, generation: int = 1) -> list[Condition]:
    return [
        Condition(type="Ready", status="False", message=message, observed_generation=generation)
    ]


def gpu(
    *vgpus: VGPUDevice,
    card: str = "25b6",
    mode: str = "SameSize",
    mig: MigConfiguration | None = None,
) -> Gpu:
    return Gpu(
        device=SRIOVGPUDevice(
            spec=SRIOVGPUDeviceSpec(address="0000:08:00.0", node_name="node1", enabled=True),
            status=SRIOVGPUDeviceStatus(mode=mode),
        ),
        pci=PCIDevice(status=PCIDeviceStatus(device_id=card)),
        vgpus=vgpus,
        mig=mig,
    )


def drawn(one: Gpu) -> GpuDrawing:
    found = drawing_of(one, LINKS)
    assert found is not None
    return found


def test_a_gpu_without_a_known_memory_cannot_be_drawn() -> None:
    assert drawing_of(gpu(card="ffff"), LINKS) is None


def test_vgpus_are_where_the_driver_put_them_with_their_holders() -> None:
    has = Allocation(namespace="default", pod="virt-x", virtual_machine="web")
    found = drawn(
        gpu(
            vgpu(4, Q4, configure_vgpu_type_name=Q4, placement=4, allocation=has),
            vgpu(5, Q4, configure_vgpu_type_name=Q4, placement=12),
            vgpu(6),
        )
    )
    assert [(one.start // GIB, one.mib // GIB, one.name) for one in found.parts] == [
        (0, 4, ""),
        (4, 4, "A2-4Q"),
        (8, 4, ""),
        (12, 4, "A2-4Q"),
    ]
    [held] = found.parts[1].vgpus
    assert (held.state, held.name.href) == (State.HELD, "/vgpus/v4")
    assert held.holder is not None
    assert (held.holder.text, held.holder.href) == ("VM default/web", "/vms/default/web")
    assert [(one.state, one.part) for one in found.functions] == [
        (State.HELD, 1),
        (State.IDLE, 2),
        (State.EMPTY, 0),
    ]
    assert found.placed


def test_what_is_broken_says_why() -> None:
    found = drawn(
        gpu(
            vgpu(4, Q4, conditions=refused("no room")),
            vgpu(5, "NVIDIA A2-8Q", configure_vgpu_type_name=Q4, conditions=refused("held")),
            vgpu(6, Q4, configure_vgpu_type_name=Q4, conditions=refused("lost")),
            vgpu(7, conditions=refused("of no interest")),
        )
    )
    assert [one.state for one in found.functions] == [
        State.MISSING,
        State.WRONG,
        State.BROKEN,
        State.EMPTY,
    ]
    assert [(one.profile, one.why) for one in found.missing] == [("A2-4Q", "no room")]
    assert [one.vgpus[0].why for one in found.occupied] == ["held", "lost"]


def test_an_answer_to_an_earlier_desired_state_is_none() -> None:
    found = drawn(gpu(vgpu(4, Q4, configure_vgpu_type_name=Q4, conditions=refused("old", 0))))
    assert found.functions[0].state is State.IDLE


def mig(**ids: list[str]) -> MigConfiguration:
    """A configuration of an A100 with these instances, `_1g_5gb=["7"]`."""
    every = ("1g.5gb", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb")
    status = [
        MigProfileStatus(
            name=f"MIG {name}",
            vgpu_ids=ids.get(f"_{name.replace('.', '_')}", []),
            available=1 if name in ("1g.5gb", "2g.10gb") else 0,
        )
        for name in every
    ]
    return MigConfiguration(status=MigConfigurationStatus(profile_status=status))


def test_gpu_instances_are_where_their_ids_say() -> None:
    small = vgpu(4, configure_vgpu_type_name="GRID A100-1-5C", gpu_instance=11)
    large = vgpu(5, configure_vgpu_type_name="GRID A100-3-20C", gpu_instance=1)
    layout = mig(_3g_20gb=["1"], _1g_5gb=["11"])
    one = gpu(small, large, card="20f1", mode="MIGBacked", mig=layout)
    found = drawn(one)
    assert [(part.start // GIB, part.name, part.id, part.compute) for part in found.parts] == [
        (0, "3g.20gb", 1, 3),
        (20, "1g.5gb", 11, 1),
        (25, "", None, 0),
    ]
    assert [part.name.text for part in found.parts[1].vgpus] == ["0000:08:00.4"]
    assert [function.part for function in found.functions] == [2, 1]
    assert (found.placed, found.compute) == (True, 7)
    assert [(place.profile, place.start) for place in places_of(one)] == [
        ("1g.5gb", 5),
        ("1g.5gb", 6),
    ]


def test_gpu_instances_with_odd_ids_stand_in_their_order() -> None:
    one = gpu(card="20f1", mode="MIG", mig=mig(_3g_20gb=["7"], _1g_5gb=["3"]))
    found = drawn(one)
    assert [(part.name, part.id) for part in found.parts] == [
        ("1g.5gb", 3),
        ("3g.20gb", 7),
        ("", None),
    ]
    assert not found.placed
    assert places_of(one) == ()


def test_a_gpu_that_is_no_longer_in_mig_mode_has_no_instances() -> None:
    one = gpu(card="20f1", mode="SameSize", mig=mig(_3g_20gb=["1"]))
    assert [part.name for part in drawn(one).parts] == [""]
    assert places_of(one) == ()
