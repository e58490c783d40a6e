"""GPU instances that are planned, as far as objects tell what fits."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from laneway.api import (
    MigConfiguration,
    MigConfigurationSpec,
    MigConfigurationStatus,
    MigProfileStatus,
    PCIDevice,
    VGPUDevice,
)
from laneway.views.gpus import Gpu
from laneway.views.mig_planned import planned
from support.gpu_objects import ADDRESS, card, device, one, vgpu

TOTALS = {"1g.5gb": 7, "1g.5gb+me": 1, "2g.10gb": 3, "3g.20gb": 2, "4g.20gb": 1, "7g.40gb": 1}
C3 = "GRID A100-3-20C"


def a100(there: dict[str, list[str]], *vgpus: VGPUDevice, pci: str = "20f1") -> Gpu:
    found: PCIDevice = card(pci, "1583")
    found = replace(found, status=replace(found.status, kernel_driver_in_use="nvidia"))
    mig = MigConfiguration(
        spec=MigConfigurationSpec(gpu_address=ADDRESS, node_name="node1"),
        status=MigConfigurationStatus(
            profile_status=[
                MigProfileStatus(name=f"MIG {name}", total=total, vgpu_ids=there.get(name, []))
                for name, total in TOTALS.items()
            ]
        ),
    )
    plain = device(mode="MIG")
    in_mig = replace(plain, status=replace(plain.status, mode="MIG"))
    return one(*vgpus, of=in_mig, cards=[found], migs=[mig])


def test_the_least_is_destroyed_and_places_are_known() -> None:
    gpu = a100({"3g.20gb": ["1"], "2g.10gb": ["5"]})
    found = planned(gpu, {"3g.20gb": 1, "1g.5gb": 2}, {})
    assert (found.refusals, found.removed) == ((), [5])
    assert [(place.profile, place.start) for place in found.added] == [("1g.5gb", 4), ("1g.5gb", 5)]
    left = {(place.profile, place.start) for place in found.room}
    assert ("1g.5gb", 6) in left
    assert ("2g.10gb", 4) not in left


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ({"3g.20gb": 2, "1g.5gb": 2}, "they need 8 of 7 compute slices"),
        ({"4g.20gb": 1, "2g.10gb": 1, "3g.20gb": 1}, "they need 9 of 7 compute slices"),
        ({"1g.5gb": 8}, "the card has room for 7 x 1g.5gb, not 8"),
    ],
)
def test_numbers_that_fit_alone_are_refused_together(wanted: dict[str, int], why: str) -> None:
    [refusal] = planned(a100({}), wanted, {}).refusals
    assert why in refusal


def test_one_with_a_vgpu_stays_and_its_holder_is_named() -> None:
    inside = vgpu(4, C3, C3)
    inside = replace(inside, status=replace(inside.status, gpu_instance=1))
    gpu = a100({"3g.20gb": ["1"]}, inside)
    [refusal] = planned(gpu, {"7g.40gb": 1}, {"0000:08:00.4": "a VM in another namespace"}).refusals
    assert f"vGPU {C3} on 0000:08:00.4 is in its GPU instance MIG 3g.20gb at 0" in refusal
    assert "a VM in another namespace" in refusal
    assert not planned(gpu, {"3g.20gb": 2}, {}).refusals


def test_of_a_card_that_is_not_in_the_catalogue_only_what_fits_nowhere_is_refused() -> None:
    gpu = a100({}, pci="ffff")
    assert planned(gpu, {"7g.40gb": 1}, {}) == type(planned(gpu, {}, {}))()
    assert planned(gpu, {"7g.40gb": 1, "1g.5gb": 1}, {}).refusals


def test_a_gpu_that_is_not_in_mig_mode_is_refused_as_by_its_agent() -> None:
    gpu = a100({})
    status = replace(gpu.device.status, mode="SameSize")
    off = replace(gpu, device=replace(gpu.device, status=status))
    [refusal] = planned(off, {"1g.5gb": 1}, {}).refusals
    assert "MIG mode of 0000:08:00.0 is off" in refusal
