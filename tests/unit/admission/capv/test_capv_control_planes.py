"""Control planes of kubeadm: template times replicas, over the failure domains of their cluster."""

from __future__ import annotations

from typing import Any

import pytest

VGPU = {"vGPUProfile": "grid_t4-16q"}
CONTROL_PLANE = "control-plane-name"
REPLICAS = "spec.replicas"
TEMPLATE = "spec.machineTemplate.spec.infrastructureRef.name"


def surge(number: int) -> dict[str, Any]:
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": number}}
    return {"rollout": {"strategy": rolling}}


NO_SURGE = surge(0)


@pytest.fixture
async def four(scene: Any) -> Any:
    """A vCenter with four T4s on two hosts, one of them in use; a template requests one."""
    scene.vcenter()
    scene.host("h1", ["vm-1"], boards=2)
    scene.host("h2", boards=2, cluster="C1")
    scene.template({"pciDevices": [VGPU]})
    return scene


async def test_more_machines_than_devices(four: Any) -> None:
    assert await four.warnings(four.control_plane(3, **NO_SURGE)) == []
    raw = four.control_plane(5, **NO_SURGE)
    [said] = await four.warnings(raw)
    assert said.startswith("spec.replicas: hosts have room for 3 of 5 Machines that each request")

    four.refuses()
    [(path, words)] = await four.causes(raw)
    assert path == REPLICAS
    assert words.startswith("Invalid value: 5: hosts have room for 3 of 5 Machines")
    reported = (
        'KubeadmControlPlane.controlplane.cluster.x-k8s.io "control" is invalid: spec.replicas: '
    )
    assert four.answer["status"]["message"].startswith(reported)
    assert await four.causes(four.control_plane(3, **NO_SURGE)) == []
    assert await four.causes(None, raw) == []
    raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert await four.causes(raw) == []


@pytest.mark.parametrize(
    "change", [{"version": "v1.36.1"}, {"kubeadmConfigSpec": {"verbosity": 5}}]
)
async def test_whatever_exchanges_machines_needs_a_spare_device(
    four: Any, change: dict[str, Any]
) -> None:
    four.refuses()
    for name, host in (("c-0", "h1"), ("c-1", "h2"), ("c-2", "h2")):
        four.reserve(name, host)
        four.machine(name, "control", CONTROL_PLANE)
    old, new = four.control_plane(3), four.control_plane(3)
    new["spec"].update(change)
    [said] = await four.warnings(new, old)
    assert "maxSurge to 0" in said
    assert await four.warnings(old, old) == []


@pytest.mark.parametrize("replicas", [1, None])
async def test_a_cluster_of_one_machine_with_a_gpu(scene: Any, replicas: int | None) -> None:
    scene.vcenter()
    scene.host("h1", ["vm-1"], boards=1)
    scene.template({"pciDevices": [VGPU]})
    raw = scene.control_plane(replicas)
    [said] = await scene.warnings(raw)
    assert "hosts have room for 0 of 1 Machines" in said
    assert "vm-1" in said
    scene.refuses()
    assert [path for path, _ in await scene.causes(raw)] == [REPLICAS]


async def test_a_template_that_requests_what_there_is_not(four: Any) -> None:
    four.template({"pciDevices": [{"vGPUProfile": "grid_a100-40c"}]}, "a100")
    four.refuses()
    old = four.control_plane(1)
    for before in (None, old):
        [(path, words)] = await four.causes(four.control_plane(1, "a100"), before)
        assert path == TEMPLATE
        assert words.startswith("Forbidden: No host in this vCenter has grid_a100-40c.")


async def test_only_what_comes_on_top_needs_room(four: Any) -> None:
    """Reservations of other sets count, those of its own machines do not."""
    for name, host in (("c-0", "h2"), ("w-0", "h2")):
        four.reserve(name, host)
    four.machine("c-0", "control", CONTROL_PLANE)
    four.machine("w-0")
    old = four.control_plane(1, **NO_SURGE)
    assert await four.warnings(four.control_plane(2, **NO_SURGE), old) == []
    [said] = await four.warnings(four.control_plane(3, **NO_SURGE), old)
    assert "room for 1 of 2 more Machines" in said
    four.refuses()
    for count in (2, 1, 0):
        assert await four.causes(four.control_plane(count, **NO_SURGE, version="v2"), old) == []
    assert await four.causes(four.control_plane(5), four.control_plane(7)) == []


async def test_machines_that_replace_others_get_their_devices(four: Any) -> None:
    four.host("h2", ["vm-7", "vm-8"], boards=2, cluster="C1")
    for number in (7, 8):
        four.reserve(f"c-{number}", "h2", f"vm-{number}")
        four.machine(f"c-{number}", "control", CONTROL_PLANE)
    four.template({"pciDevices": [VGPU], "numCPUs": 8}, "larger")
    old = four.control_plane(2)
    assert await four.warnings(four.control_plane(3, "larger", **NO_SURGE), old) == []
    [said] = await four.warnings(four.control_plane(4, "larger", **NO_SURGE), old)
    assert "room for 3 of 4 Machines" in said


async def test_scaled_by_its_subresource(four: Any) -> None:
    four.knows("cluster_control_planes", four.control_plane(1, **NO_SURGE))
    four.refuses()

    async def causes(replicas: int, name: str = "control") -> list[tuple[str, str]]:
        before, after = (
            four.raw("KubeadmControlPlane", {"replicas": number}, name) for number in (1, replicas)
        )
        found: list[tuple[str, str]] = await four.causes(after, before, subResource="scale")
        return found

    assert await causes(3) == []
    [(path, words)] = await causes(5)
    assert (path, words[:46]) == (REPLICAS, "Invalid value: 5: hosts have room for 3 of 4 m")
    assert await causes(5, "nobody-knows") == []


@pytest.mark.parametrize(
    ("replicas", "rollout", "advice"),
    [
        (3, {}, "set maxSurge to 0 in spec.rollout.strategy.rollingUpdate."),
        (3, surge(1), "set maxSurge to 0 in spec.rollout.strategy.rollingUpdate."),
        (3, surge(0), ""),
        (1, {}, "keep the devices of one Machine free; maxSurge 0 requires 3 replicas or more."),
    ],
)
async def test_a_roll_out_without_a_spare_device_is_reported_in_time(
    four: Any, replicas: int, rollout: Any, advice: str
) -> None:
    for number in range(3 - replicas):
        four.reserve(f"w-{number}", "h2")
    four.refuses()
    said = await four.warnings(four.control_plane(replicas, **rollout))
    assert [one.startswith("A rollout of control creates a new Machine") for one in said] == (
        [True] if advice else []
    )
    assert all(one.endswith(advice) for one in said)


async def test_a_roll_out_with_a_spare_device(four: Any) -> None:
    assert await four.warnings(four.control_plane(1)) == []


# ---- failure domains


async def test_each_failure_domain_has_its_share(four: Any) -> None:
    """Three machines in two failure domains are two and one, and never three in one."""
    four.zone("a", datacenter="DC0", computeCluster="C0")
    four.zone("b", datacenter="DC0", computeCluster="C1")
    four.zone("without", datacenter="DC0", computeCluster="C9")
    four.cluster({"a": True, "b": True, "without": False})
    assert await four.warnings(four.control_plane(3, **NO_SURGE)) == []

    four.reserve("w-0", "h1")
    [said] = await four.warnings(four.control_plane(3, **NO_SURGE))
    assert "hosts have room for 2 of 3 Machines" in said
    assert "Failure domain a has room for 0 of its 2." in four.answer["warnings"][0]
    assert await four.warnings(four.control_plane(0)) == []

    # One that has no devices at all is not one too few, for the others have them.
    four.cluster({"b": True, "without": True})
    four.refuses()
    assert [path for path, _ in await four.causes(four.control_plane(1))] == []
    [(path, words)] = await four.causes(four.control_plane(2))
    assert path == REPLICAS
    assert "Failure domain without has room for 0 of its 1." in words
    four.cluster({"without": True})
    assert [path for path, _ in await four.causes(four.control_plane(1))] == [TEMPLATE]


async def test_what_machines_have_is_of_their_failure_domains_share(four: Any) -> None:
    four.zone("a", datacenter="DC0", computeCluster="C0")
    four.zone("b", datacenter="DC0", computeCluster="C1")
    four.cluster({"a": True, "b": True})
    four.reserve("c-0", "h2")
    four.machine("c-0", "control", CONTROL_PLANE, "b")
    old = four.control_plane(1, **NO_SURGE)
    four.refuses()
    assert await four.causes(four.control_plane(3, **NO_SURGE), old) == []
    # There is one more in b, but it takes two of four only.
    four.reserve("c-1", "h2")
    four.machine("c-1", "control", CONTROL_PLANE, "b")
    four.host("h2", boards=9, cluster="C1")
    [(_, words)] = await four.causes(
        four.control_plane(4, **NO_SURGE), four.control_plane(2, **NO_SURGE)
    )
    assert "hosts have room for 1 of 2 more Machines" in words
    assert "Failure domain a has room for 1 of its 2." in words


async def test_unknown_failure_domains(four: Any) -> None:
    """Until it is known which they are, whatever there is may be for them."""
    four.zone("a", datacenter="DC0", computeCluster="C0")
    four.zone("b", "other.example.com", datacenter="DC5")
    four.template({"pciDevices": [VGPU], "datacenter": "DC9"})
    four.refuses()
    asked = four.control_plane(3, **NO_SURGE)
    four.cluster({"gone": True})
    assert await four.causes(four.control_plane(99)) == []
    four.cluster({})
    assert await four.causes(asked) == []
    assert await four.causes(four.control_plane(4, **NO_SURGE))
    assert await four.causes(four.control_plane(3, cluster="", **NO_SURGE)) == []
    assert await four.causes(four.control_plane(3, cluster="another", **NO_SURGE)) == []
    # Its cluster has none: then it is the datacenter of the template.
    four.cluster()
    assert [path for path, _ in await four.causes(asked)] == [TEMPLATE]


async def test_unknown_failure_domains_in_two_vcenters(four: Any) -> None:
    four.vcenter("other", "other.example.com")
    four.host("h1", boards=9, vcenter="other")
    four.zone("a")
    four.zone("b", "other.example.com")
    four.cluster({})
    four.refuses()
    assert await four.causes(four.control_plane(12, **NO_SURGE)) == []
    [(_, words)] = await four.causes(four.control_plane(13, **NO_SURGE))
    assert "hosts have room for 12 of 13 Machines" in words


async def test_of_which_vcenter_nothing_is_known(four: Any) -> None:
    four.zone("a", datacenter="DC0", computeCluster="C0")
    four.zone("b", "other.example.com")
    four.cluster({"a": True, "b": True})
    four.refuses()
    [said] = await four.warnings(four.control_plane(99))
    assert "does not know the hosts of other.example.com" in said


# ---- what is none of ours


async def test_what_is_none_of_ours_is_let_be(four: Any) -> None:
    four.refuses()
    four.template({"numCPUs": 2}, "plain")
    for template in ("plain", "not-there"):
        assert await four.warnings(four.control_plane(99, template)) == []
    foreign = four.control_plane(99)
    ref = foreign["spec"]["machineTemplate"]["spec"]["infrastructureRef"]
    foreign["spec"]["machineTemplate"]["spec"]["infrastructureRef"] = ref | {
        "kind": "DockerMachineTemplate"
    }
    assert await four.warnings(foreign) == []
    # As v1beta1 has it: a server of both versions asks about the newer one.
    older = four.control_plane(99)
    older["spec"]["machineTemplate"] = {"infrastructureRef": ref}
    assert await four.warnings(older) == []


async def test_a_cluster_is_named_as_well_where_it_owns_the_control_plane(four: Any) -> None:
    owner = {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Cluster",
        "name": "c",
        "uid": "1",
        "controller": True,
    }
    raw = four.control_plane(9, **NO_SURGE)
    raw["metadata"]["ownerReferences"] = [owner]
    assert await four.warnings(raw)


async def test_nothing_is_said_where_no_vcenter_is_followed(scene: Any) -> None:
    scene.template({"pciDevices": [VGPU]})
    scene.refuses()
    assert await scene.warnings(scene.control_plane(9)) == []
