"""What occupies the memory of a GPU."""

from __future__ import annotations

from laneway.core.vgpu.card import card_of
from laneway.core.vgpu.occupancy import Part, Vgpu, partitioned, time_sliced

GIB = 1024
A2, A100, L40S = card_of("25b6"), card_of("20f1"), card_of("26b9")
Q4 = "NVIDIA A2-4Q"


def test_vgpus_of_one_size_stand_in_the_order_of_their_functions() -> None:
    found = time_sliced(A2, [Vgpu("0000:08:00.5", Q4), Vgpu("0000:08:00.4", Q4)])

    assert found is not None
    assert not found.placed
    assert found.parts == (
        Part(4 * GIB, Q4, ("0000:08:00.4",)),
        Part(4 * GIB, Q4, ("0000:08:00.5",)),
        Part(8 * GIB),
    )
    assert (found.allocated_mib, found.mib) == (8 * GIB, 16 * GIB)


def test_what_the_driver_placed_stands_in_its_place() -> None:
    found = time_sliced(L40S, [Vgpu("b", "NVIDIA L40S-12Q", 24), Vgpu("a", "NVIDIA L40S-8Q", 8)])

    assert found is not None
    assert found.placed
    assert [(part.mib // GIB, part.name) for part in found.parts] == [
        (8, ""),
        (8, "NVIDIA L40S-8Q"),
        (8, ""),
        (12, "NVIDIA L40S-12Q"),
        (12, ""),
    ]


def test_a_gpu_instance_holds_its_vgpus() -> None:
    vgpus = [Vgpu("a", "GRID A100-3-20C", instance=2)]
    found = partitioned(A100, [(2, "3g.20gb"), (1, "1g.5gb")], vgpus)

    assert found is not None
    assert found.parts == (
        Part(5 * GIB, "1g.5gb"),
        Part(20 * GIB, "3g.20gb", ("a",)),
        Part(15 * GIB),
    )


def test_what_is_not_known_is_no_number() -> None:
    assert time_sliced(A2, [Vgpu("a", "")]) is None
    assert time_sliced(card_of("ffff"), []) is None
    assert partitioned(A100, [(1, "odd")], []) is None
