"""The samples that use a GPU once."""

from __future__ import annotations

from laneway.core.gpu.sample import end_of, pod_spec, resource_among, with_image
from laneway.core.gpu.vendors import Vendor


def test_a_whole_gpu_is_requested_before_a_part_of_one() -> None:
    assert resource_among({"cpu": 8, "nvidia.com/NVIDIA_A2-4Q": 2}) == ""
    assert resource_among({"nvidia.com/mig-1g.5gb": 7, "nvidia.com/gpu": 1}) == "nvidia.com/gpu"
    assert resource_among({"nvidia.com/mig-1g.5gb": 7, "nvidia.com/gpu": 0}) == (
        "nvidia.com/mig-1g.5gb"
    )
    assert resource_among({"gpu.intel.com/xe": 1}) == "gpu.intel.com/xe"
    assert resource_among({"amd.com/ALDEBARAN": 1, "amd.com/gpu": 1}) == "amd.com/gpu"


def test_a_pod_has_no_right_that_it_does_not_need() -> None:
    for vendor in Vendor:
        spec = pod_spec(with_image(vendor, ""), "example.com/gpu", "node1")
        [container] = spec["containers"]
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert container["securityContext"]["runAsNonRoot"] is (vendor is Vendor.NVIDIA)
        assert spec["automountServiceAccountToken"] is False
    other = pod_spec(with_image(Vendor.AMD, "r.example/own"), "amd.com/gpu", "node1")
    assert other["containers"][0]["image"] == "r.example/own"
    assert "command" not in other["containers"][0]


def test_the_end_of_a_log_is_one_line_that_a_terminal_can_show() -> None:
    assert end_of("one\n\nTest PASSED\n\x1b[1mDone\n") == "one; Test PASSED;  [1mDone"
    assert len(end_of("x" * 5000)) == 300
