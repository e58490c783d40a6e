"""The vendors' samples, which use a GPU once and end, and the pod that runs one.

The pod has no right that it does not need. The files of AMD's and Intel's GPUs are root's in a
container, so their samples run as root, without its privileges.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from laneway.core.gpu.vendors import Vendor, vendor_of_resource
from laneway.core.phrases import line

LABEL_HOST = "kubernetes.io/hostname"
LABEL_COMPONENT = "app.kubernetes.io/component"
COMPONENT = "vector-add"
"""Its value on the pod of a sample."""

_USER = 65532
_ROOT = 0


class Sample(NamedTuple):
    """What runs."""

    image: str
    command: tuple[str, ...] = ()
    """Empty: that of the image."""
    user: int = _USER


SAMPLES: Mapping[Vendor, Sample] = {
    Vendor.NVIDIA: Sample("nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda11.7.1-ubuntu20.04"),
    Vendor.AMD: Sample("docker.io/rocm/rocm-terminal:latest", ("rocminfo",), _ROOT),
    Vendor.INTEL: Sample("docker.io/intel/intel-opencl-icd:0.34.0", ("clinfo",), _ROOT),
}
"""NVIDIA's adds vectors. AMD and Intel have no image that does; theirs ask the GPU what it is."""


def with_image(vendor: Vendor, image: str) -> Sample:
    """A vendor's sample, or another image, which runs as it was made to."""
    usual = SAMPLES[vendor]
    return Sample(image, (), usual.user) if image else usual


def pod_spec(sample: Sample, resource: str, host: str) -> dict[str, Any]:
    """A pod that runs a sample with one GPU of the node that has a host's label."""
    container: dict[str, Any] = {
        "name": COMPONENT,
        "image": sample.image,
        "resources": {"limits": {resource: 1}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": sample.user != _ROOT,
            "runAsUser": sample.user,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    if sample.command:
        container["command"] = list(sample.command)
    return {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "nodeSelector": {LABEL_HOST: host},
        "tolerations": [{"operator": "Exists", "effect": "NoSchedule"}],
        "containers": [container],
    }


def resource_among(allocatable: Mapping[str, int]) -> str:
    """The resource by which a node gives GPUs to containers; empty where it has none to give.

    Whole GPUs come before parts of them.
    """
    found = [name for name, count in allocatable.items() if count and vendor_of_resource(name)]
    return min(found, key=lambda name: ("mig" in name, name), default="")


def end_of(log: str) -> str:
    """The end of a log, on one line."""
    lines = [line(one.strip()) for one in log.splitlines() if one.strip()]
    return "; ".join(lines[-_LINES:])[-_LENGTH:]


_LINES = 4
_LENGTH = 300
