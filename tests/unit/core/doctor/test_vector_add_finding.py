"""What is said of a sample that ran on a node, or could not."""

from __future__ import annotations

from laneway.core.doctor.finding import Level
from laneway.core.doctor.vector_add import Ran, judge


def test_what_a_sample_came_to() -> None:
    well = judge("node1", Ran("nvidia.com/gpu", "r.example/add", log="[Vector]\nTest PASSED\n"))
    assert well.level is Level.OK
    assert well.what.endswith("its log ends: [Vector]; Test PASSED")

    badly = judge(
        "node1", Ran("amd.com/gpu", "r.example/add", why="waits: ErrImagePull", unread="gone")
    )
    assert badly.level is Level.PROBLEM
    assert "waits: ErrImagePull; no log: gone" in badly.what


def test_where_no_gpu_serves_containers_the_next_step_is_told() -> None:
    none = judge("node1", Ran(""))
    assert none.level is Level.PROBLEM
    assert "laneway.io/gpu-workload=containers" in none.remedy
    without_plugin = judge("node1", Ran("", labelled=True))
    assert "devicePlugins.VENDOR.enabled=true" in without_plugin.remedy
