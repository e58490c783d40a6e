"""A recommended layout as objects."""

from __future__ import annotations

from laneway.core.fleet.recommend.layout import GpuLayout, Recommendation
from laneway.core.gpu.modes import Mode
from laneway.views.recommended import layouts

Q4, Q8 = "NVIDIA A2-4Q", "NVIDIA A2-8Q"


def test_what_is_in_use_is_part_of_a_layout_and_equal_gpus_share_one() -> None:
    found = Recommendation(
        gpus=(
            GpuLayout("a", "n", Mode.MIXED_SIZE, {Q8: 1}, {Q4: 1}),
            GpuLayout("b", "n", Mode.SAME_SIZE, {Q8: 2}, {}),
            GpuLayout("c", "n", Mode.SAME_SIZE, {Q8: 1}, {Q8: 1}),
        ),
        demand={Q8: 4},
        served={Q8: 4},
        served_mib=32768,
        bound_mib=32768,
    )
    alike, mixed = layouts(found, "plan")
    assert (alike.metadata.name, alike.spec.gpu_selector.names) == ("plan-1", ["b", "c"])
    assert [(one.profile, one.count) for one in alike.spec.vgpus] == [(Q8, 2)]
    assert mixed.spec.mode == "MixedSize"
    assert {one.profile: one.count for one in mixed.spec.vgpus} == {Q4: 1, Q8: 1}


def test_gpus_are_in_the_order_of_their_nodes_and_addresses() -> None:
    names = ["n-2-000009000", "n-2-00000a000", "n-10-000001000"]
    gpus = tuple(GpuLayout(name, "n", Mode.SAME_SIZE, {Q8: 2}, {}) for name in sorted(names))
    served = {Q8: 6}
    found = Recommendation(
        gpus=gpus, demand=served, served=served, served_mib=49152, bound_mib=49152
    )
    [layout] = layouts(found, "plan")
    assert layout.spec.gpu_selector.names == names
