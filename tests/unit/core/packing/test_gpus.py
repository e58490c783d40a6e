"""What a vGPU costs on GPUs in every mode."""

from __future__ import annotations

from laneway.core.packing.gpus import Gpu, best, cost
from laneway.core.vgpu.placement import Carried

L40S, H100 = "26b9", "2331"


def carried(*profiles: str) -> tuple[Carried, ...]:
    return tuple(Carried(one) for one in profiles)


def test_in_same_size_mode_the_fullest_gpu_costs_least_and_an_empty_one_most() -> None:
    gpu = Gpu(L40S, (), mixed=False)
    one = Carried("NVIDIA L40S-12Q")
    empty, some, more = (cost(gpu, carried(*["NVIDIA L40S-12Q"] * n), one) for n in range(3))
    assert more < some < empty


def test_a_broken_place_on_a_mixed_gpu_compares_with_an_opened_gpu_of_one_size() -> None:
    """Both are nodes on which a pod can be."""
    mixed, same = Gpu(L40S, (), mixed=True), Gpu(L40S, (), mixed=False)
    quarter = Carried("NVIDIA L40S-12Q", 12)
    filling = cost(mixed, (Carried("NVIDIA L40S-12Q", 0),), quarter)
    breaking = cost(mixed, (Carried("NVIDIA L40S-24Q", 24),), quarter)
    assert filling < breaking < cost(same, (), quarter)


def test_of_vgpus_in_gpu_instances_the_gpu_with_the_most_costs_least() -> None:
    gpu = Gpu(H100, (), mixed=False)
    name = "NVIDIA H100-1-10C"
    assert cost(gpu, carried(name, name), Carried(name)) < cost(gpu, (), Carried(name))


def test_unknown_places_are_where_the_driver_would_put_them() -> None:
    gpu = Gpu(L40S, (), mixed=True)
    quarter = Carried("NVIDIA L40S-12Q", 36)
    unknown, known = carried("NVIDIA L40S-24Q"), (Carried("NVIDIA L40S-24Q", 0),)
    assert cost(gpu, unknown, quarter) == cost(gpu, known, quarter)


def test_the_best_of_several_are_taken_one_after_the_other() -> None:
    gpu = Gpu(L40S, (), mixed=True)
    free = [Carried("NVIDIA L40S-12Q", at) for at in (0, 12, 36)]
    held = (Carried("NVIDIA L40S-12Q", 24),)

    assert best(gpu, held, free, 2)[0] == (2, 0)
    assert best(gpu, held, free, 9)[0] == (2, 0, 1)
    assert best(gpu, held, [], 1) == ((), ())
