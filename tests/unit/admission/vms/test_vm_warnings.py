"""What is said of the parts of VMs that are not judged."""

from __future__ import annotations

from typing import Any

A2 = "nvidia.com/NVIDIA_A2-2Q"


def typed(cluster: Any, *devices: Any, gpus: Any = (), **matchers: Any) -> dict[str, Any]:
    raw: dict[str, Any] = cluster.vm(*devices, gpus=gpus)
    raw["spec"] |= matchers
    return raw


def test_a_vm_of_which_kubevirt_fills_in_a_part_is_warned_of_ignored_fields(
    cluster: Any,
) -> None:
    large = {"name": "gn1.large", "kind": "VirtualMachineClusterInstancetype"}
    new = typed(cluster, instancetype=large)
    (warning,) = cluster.judge(new).warnings
    assert "instancetype 'gn1.large'" in warning
    assert len(warning) <= 256
    # Once: KubeVirt fills in of which revision it is, and everybody labels VMs.
    after = typed(cluster, instancetype={**large, "revisionName": "vm-gn1.large-1"})
    assert cluster.judge(after, new).warnings == ()
    assert cluster.judge(after, new, deleted=True).warnings == ()
    other = typed(cluster, instancetype={"name": "gn1.small"})
    assert "'gn1.small'" in cluster.judge(other, new).warnings[0]
    assert cluster.judge(typed(cluster, instancetype=None, preference=None)).warnings == ()


def test_displays_left_to_a_preference_are_warned_of_as_not_counted(cluster: Any) -> None:
    shown = {"name": "shown"}
    vgpu = {"name": cluster.vgpu("n1", "0000:08:00.4", framework="mdev"), "deviceName": A2}
    new = typed(cluster, gpus=[vgpu], preference=shown)
    (warning,) = cluster.judge(new).warnings
    assert "preference 'shown'" in warning
    assert len(warning) <= 256
    assert cluster.judge(typed(cluster, preference=shown)).warnings == ()
    assert cluster.judge(new, new).warnings == ()
    assert len(cluster.judge(new, typed(cluster, preference=shown)).warnings) == 1
    said = {**vgpu, "virtualGPUOptions": {"display": {"enabled": False}}}
    assert cluster.judge(typed(cluster, gpus=[said], preference=shown)).warnings == ()
