"""A recommended layout as objects: VGPULayouts that name their GPUs and change no other."""

from __future__ import annotations

from laneway.api import ObjectMeta, VGPULayout
from laneway.api.layout import LayoutGpuSelector, LayoutVgpus, VGPULayoutSpec
from laneway.core.fleet.recommend.layout import Recommendation, as_groups
from laneway.views.order import natural


def layouts(found: Recommendation, name: str) -> list[VGPULayout]:
    """One for each kind of GPU in it, `NAME-1`, `NAME-2`.

    vGPUs in use are part of them. They take GPUs over from single VGPUDevices.
    """
    return [
        VGPULayout(
            metadata=ObjectMeta(name=f"{name}-{number}"),
            spec=VGPULayoutSpec(
                gpu_selector=LayoutGpuSelector(names=sorted(group.gpus, key=_by_node)),
                mode=group.mode,
                vgpus=[LayoutVgpus(profile=one, count=many) for one, many in group.vgpus.items()],
                take_over=True,
            ),
        )
        for number, group in enumerate(as_groups(found), 1)
    ]


def _by_node(gpu: str) -> tuple[list[tuple[int, str]], str]:
    """Sorting key of `NODE-ADDRESS`: addresses are hexadecimal, so they are no numbers to count."""
    node, _, address = gpu.rpartition("-")
    return natural(node), address
