"""The short answer about a kind of shared GPUs."""

from __future__ import annotations

import pytest

from laneway.api import ObjectMeta, VGPULayout
from laneway.api.layout import LayoutGpu, LayoutVgpus, VGPULayoutSpec, VGPULayoutStatus
from laneway.views.explain.gpu import with_answer
from laneway.views.page import Page


def asked_for(vgpus: list[tuple[str, int]]) -> tuple[str, ...]:
    entries = [LayoutVgpus(profile=name, count=count) for name, count in vgpus]
    layout = VGPULayout(metadata=ObjectMeta(name="all"), spec=VGPULayoutSpec(vgpus=entries))
    (short, *_) = with_answer(Page("", ()), layout, None).sections
    return next(one.values for one in short.facts if one.label == "vGPUs on each")


def test_a_dry_run_ends_with_the_command_that_applies_it() -> None:
    layout = VGPULayout(
        metadata=ObjectMeta(name="all"),
        spec=VGPULayoutSpec(dry_run=True),
        status=VGPULayoutStatus(gpus=(LayoutGpu(name="node1-000008000", state="Planned"),)),
    )
    lines = [
        line for part in with_answer(Page("", ()), layout, None).sections for line in part.lines
    ]

    command = 'kubectl patch vgpulayout all --type merge -p \'{"spec":{"dryRun":false}}\''
    assert f"To apply it: {command}" in lines


@pytest.mark.parametrize(
    ("vgpus", "words"),
    [
        ([], "no vGPU"),
        ([("NVIDIA A2-4Q", 2), ("NVIDIA A2-8Q", 1), ("NVIDIA A2-4Q", 1)], "A2-4Q=3, A2-8Q=1"),
    ],
)
def test_what_a_layout_requests_is_reported_profile_by_profile(
    vgpus: list[tuple[str, int]], words: str
) -> None:
    assert asked_for(vgpus) == (words,)
