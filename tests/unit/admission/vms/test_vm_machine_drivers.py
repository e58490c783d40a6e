"""VMs of Harvester's machine driver, whose devices are all called alike, made right."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from laneway.admission.vms.aliases import aliases
from laneway.kube.kubevirt import ANNOTATION_ADMITTED
from support.harvester_driver import Release, machine

SMALL, LARGE = "nvidia.com/NVIDIA_A40-4Q", "nvidia.com/NVIDIA_A40-8Q"
ANY = "provisioned"


def names(vm: Any) -> list[str]:
    devices = vm["spec"]["template"]["spec"]["domain"]["devices"]
    return [one["name"] for part in ("hostDevices", "gpus") for one in devices.get(part, ())]


def without_devices(vm: Any) -> Any:
    """What is none of Laneway's."""
    rest = copy.deepcopy(vm)
    domain = rest["spec"]["template"]["spec"]["domain"]
    for part in ("hostDevices", "gpus"):
        domain["devices"].pop(part, None)
    domain.pop("memory", None)
    rest["metadata"]["annotations"].pop(ANNOTATION_ADMITTED, None)
    return rest


@pytest.fixture
def node(cluster: Any, framework: str) -> Any:
    for number in range(2):
        cluster.vgpu("n1", f"0000:04:00.{number}", "NVIDIA A40-4Q", framework=framework)
        cluster.vgpu("n1", f"0000:05:00.{number}", "NVIDIA A40-8Q", framework=framework)
    return cluster


@pytest.mark.parametrize("framework", ["mdev", "vendor-vfio"])
@pytest.mark.parametrize("release", Release)
@pytest.mark.parametrize(
    ("asked", "called"),
    [
        ([(ANY, SMALL)], [ANY]),
        ([(ANY, SMALL), (ANY, SMALL)], [ANY, f"{ANY}-2"]),
        ([(ANY, SMALL), (ANY, LARGE)], [ANY, f"{ANY}-2"]),
        ([("", SMALL), ("", LARGE), ("", SMALL)], ["", "device-2", "device-3"]),
        ([("vgpu-0", SMALL), ("vgpu-1", LARGE)], ["vgpu-0", "vgpu-1"]),
    ],
)
def test_each_device_has_a_name_and_nothing_else_changes(
    node: Any, framework: str, release: Release, asked: list[tuple[str, str]], called: list[str]
) -> None:
    raw = machine(release, *asked)
    after = node.mutated(raw)
    assert sorted(names(after)) == sorted(called)
    requested = [
        one["deviceName"] for part in ("hostDevices", "gpus") for one in node.devices(after, part)
    ]
    assert sorted(requested) == sorted(resource for _, resource in asked)
    assert without_devices(after) == without_devices(raw)
    assert after["metadata"]["annotations"][ANNOTATION_ADMITTED]
    assert node.reasons(after) == []
    assert node.mutated(after, after) == after
    # libvirt: no alias is refused or comes twice.
    assert not aliases(names(after))
    assert len(set(names(after))) == len(asked)


@pytest.mark.parametrize("framework", ["mdev"])
@pytest.mark.parametrize("release", [Release.V1_0_6, Release.NEXT_BUILDER])
def test_only_the_first_mediated_vgpu_has_the_display(node: Any, release: Release) -> None:
    after = node.mutated(machine(release, (ANY, SMALL), (ANY, LARGE)))
    first, second = (one["virtualGPUOptions"]["display"] for one in node.devices(after, "gpus"))
    assert first == {"enabled": True, "ramFB": {"enabled": True}}
    assert second == {"enabled": False}


@pytest.mark.parametrize("framework", ["vendor-vfio"])
def test_the_same_vm_written_again_is_the_same(node: Any) -> None:
    """Its first vGPUs are host devices by now, under their new names."""
    raw = machine(Release.V1_0_6, (ANY, SMALL), (ANY, LARGE))
    stored = node.mutated(raw)
    again = copy.deepcopy(stored)
    devices = again["spec"]["template"]["spec"]["domain"]["devices"]
    devices["gpus"] = raw["spec"]["template"]["spec"]["domain"]["devices"]["gpus"]
    assert node.mutated(again, stored) == stored


@pytest.mark.parametrize("framework", ["vendor-vfio"])
def test_one_stored_while_the_webhook_was_away_is_put_right_at_the_next_write(node: Any) -> None:
    stored = machine(Release.MASTER, (ANY, SMALL), (ANY, SMALL))
    labelled = copy.deepcopy(stored)
    labelled["metadata"]["labels"]["owner"] = "alice"
    assert names(node.mutated(labelled, stored)) == [ANY, f"{ANY}-2"]


@pytest.mark.parametrize("framework", ["vendor-vfio"])
def test_the_name_of_a_device_that_comes_twice_stays_a_mistake(node: Any) -> None:
    """Laneway does not guess which other device is meant."""
    raw = machine(Release.MASTER, ("n1-000004000", SMALL), ("n1-000004000", SMALL))
    assert node.reasons(node.mutated(raw)) == ["DuplicateDeviceName"]
