"""MachineDeployments and MachineSets: template times replicas, against what there is."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from laneway.admission.clusterapi import sets
from laneway.admission.request import Operation, Request, Requester
from laneway.kube.clusterapi import MACHINE_DEPLOYMENTS

VGPU = {"vGPUProfile": "grid_t4-16q"}
NO_SURGE = {"rollout": {"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}}}
REPLICAS = "spec.replicas"


@pytest.fixture
async def four(scene: Any) -> Any:
    """A vCenter with four T4s on two hosts, one of them in use; a template requests one."""
    scene.vcenter()
    scene.host("h1", ["vm-1"], boards=2)
    scene.host("h2", boards=2, cluster="C1", hostGroups=["rack-2"])
    scene.template({"pciDevices": [VGPU]})
    return scene


@pytest.mark.parametrize("kind", ["MachineDeployment", "MachineSet"])
async def test_more_machines_than_devices(four: Any, kind: str) -> None:
    assert await four.warnings(four.many(3, kind=kind, **NO_SURGE)) == []
    raw = four.many(8, kind=kind, **NO_SURGE)
    [said] = await four.warnings(raw)
    assert said.startswith("spec.replicas: hosts have room for 3 of 8 Machines that each request")

    four.refuses()
    [(path, words)] = await four.causes(raw)
    assert path == REPLICAS
    assert words.startswith("Invalid value: 8: hosts have room for 3 of 8 Machines")
    message = four.answer["status"]["message"]
    assert message.startswith(f'{kind}.cluster.x-k8s.io "workers" is invalid: spec.replicas: ')
    assert await four.causes(four.many(3, kind=kind, **NO_SURGE)) == []
    assert await four.causes(None, raw) == []


async def test_a_machine_with_two_needs_them_on_one_host(four: Any) -> None:
    four.template({"pciDevices": [VGPU, VGPU]}, "two")
    assert await four.warnings(four.many(1, "two", **NO_SURGE)) == []
    [said] = await four.warnings(four.many(2, "two", **NO_SURGE))
    assert "room for 1 of 2 Machines that each request 2 x grid_t4-16q;" in said


async def test_reserved_devices_are_not_free(four: Any) -> None:
    four.reserve("other", "h2")
    [said] = await four.warnings(four.many(3, **NO_SURGE))
    assert "room for 2 of 3" in said


async def test_only_what_comes_on_top_needs_room(four: Any) -> None:
    for number, host in ((0, "h2"), (1, "h2")):
        four.reserve(f"w-{number}", host)
        four.machine(f"w-{number}")
    old = four.many(2, **NO_SURGE)
    assert await four.warnings(four.many(3, **NO_SURGE), old) == []
    [said] = await four.warnings(four.many(4, **NO_SURGE), old)
    assert "room for 1 of 2 more Machines" in said
    four.refuses()
    assert await four.causes(four.many(4, **NO_SURGE), old)
    # Fewer, or as many, and whatever else changes.
    for count in (2, 1, 0):
        assert await four.causes(four.many(count, **NO_SURGE, paused=True), old) == []
    too_many = four.many(9, **NO_SURGE)
    assert await four.causes(four.many(8, **NO_SURGE), too_many) == []


async def test_without_reservations_existing_machines_count_as_served(four: Any) -> None:
    """As in a cluster whose manager manages no vCenter any more, or with names of its own."""
    old = four.many(5, **NO_SURGE)
    assert await four.warnings(four.many(8, **NO_SURGE), old) == []
    [said] = await four.warnings(four.many(9, **NO_SURGE), old)
    assert "room for 3 of 4 more" in said


async def test_machines_that_replace_others_get_their_devices(four: Any) -> None:
    four.host("h2", ["vm-7", "vm-8"], boards=2, cluster="C1")
    for number in (7, 8):
        four.reserve(f"w-{number}", "h2", f"vm-{number}")
        four.machine(f"w-{number}")
    four.template({"pciDevices": [VGPU], "numCPUs": 8}, "larger")
    old = four.many(2, **NO_SURGE)
    assert await four.warnings(four.many(2, "larger", **NO_SURGE), old) == []
    assert await four.warnings(four.many(3, "larger", **NO_SURGE), old) == []
    [said] = await four.warnings(four.many(4, "larger", **NO_SURGE), old)
    assert "room for 3 of 4 Machines" in said


@pytest.mark.parametrize(
    ("limits", "reported"),
    [
        ({}, True),
        ({"maxSurge": 1}, True),
        ({"maxSurge": "50%", "maxUnavailable": "20%"}, True),
        ({"maxSurge": 1, "maxUnavailable": 1}, False),
        ({"maxSurge": "34%", "maxUnavailable": "34%"}, False),
        ({"maxSurge": 0, "maxUnavailable": 1}, False),
    ],
)
async def test_a_roll_out_without_a_spare_device_is_reported_in_time(
    four: Any, limits: Any, reported: bool
) -> None:
    four.refuses()
    rollout = {"rollout": {"strategy": {"rollingUpdate": limits}}}
    said = await four.warnings(four.many(3, **rollout))
    assert [one.startswith("A rollout of workers creates a new Machine") for one in said] == (
        [True] if reported else []
    )
    assert await four.warnings(four.many(2, **rollout)) == []


@pytest.mark.parametrize(
    "change",
    [
        {"version": "v1.36.1"},
        {"bootstrap": {"configRef": {"kind": "KubeadmConfigTemplate", "name": "new"}}},
    ],
)
async def test_whatever_exchanges_machines_needs_a_spare_device(
    four: Any, change: dict[str, Any]
) -> None:
    four.refuses()
    for name, host in (("w-0", "h1"), ("w-1", "h2"), ("w-2", "h2")):
        four.reserve(name, host)
        four.machine(name)
    old, new, same = four.many(3), four.many(3), four.many(3)
    new["spec"]["template"]["spec"].update(change)
    same["spec"]["template"]["metadata"] = {"labels": {"team": "b"}}
    [said] = await four.warnings(new, old)
    assert said.startswith(
        "A rollout of workers creates a new Machine before it deletes an old one"
    )
    assert await four.warnings(same, old) == []
    later = four.many(3, rollout={"after": "2026-11-23T12:00:00Z"})
    assert await four.warnings(later, old) == [said]


async def test_on_delete_needs_no_spare(four: Any) -> None:
    assert await four.warnings(four.many(3, rollout={"strategy": {"type": "OnDelete"}})) == []


async def test_a_failure_domain_without_gpus(four: Any) -> None:
    rack = {"hostGroupName": "rack-2"}
    four.zone("with", datacenter="DC0", computeCluster="C1", hosts=rack)
    four.zone("without", datacenter="DC0", computeCluster="C9")
    four.refuses()
    assert await four.causes(four.many(2, zone="with", **NO_SURGE)) == []
    [(path, _)] = await four.causes(four.many(3, zone="with", **NO_SURGE))
    assert path == REPLICAS
    [(path, words)] = await four.causes(four.many(1, zone="without", **NO_SURGE))
    assert path == "spec.template.spec.infrastructureRef.name"
    assert "cluster C9 of datacenter DC0" in words
    old = four.many(1, zone="with")
    assert await four.causes(four.many(1, zone="without"), old)
    # That is unknown.
    assert await four.warnings(four.many(9, zone="unknown")) == []


async def test_a_template_that_requests_what_there_is_not(four: Any) -> None:
    four.template({"pciDevices": [{"vGPUProfile": "grid_a100-40c"}] * 2}, "a100")
    four.refuses()
    causes = await four.causes(four.many(1, "a100"))
    assert causes
    assert {path for path, _ in causes} == {"spec.template.spec.infrastructureRef.name"}


async def test_what_is_none_of_ours_is_let_be(four: Any) -> None:
    four.refuses()
    four.template({"numCPUs": 2}, "plain")
    four.template({"pciDevices": [{}]}, "odd")
    for template in ("plain", "odd", "not-there"):
        assert await four.warnings(four.many(99, template)) == []
    foreign = four.many(99)
    foreign["spec"]["template"]["spec"]["infrastructureRef"]["kind"] = "DockerMachineTemplate"
    assert await four.warnings(foreign) == []
    owner = {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "MachineDeployment",
        "name": "workers",
        "uid": "1",
        "controller": True,
    }
    owned = four.many(99, kind="MachineSet", meta={"ownerReferences": [owner]})
    assert await four.warnings(owned) == []
    assert await four.warnings(four.many(0, **NO_SURGE)) == []


async def test_the_number_is_not_known(four: Any) -> None:
    assert await four.warnings(four.many(None, **NO_SURGE)) == []


async def test_a_template_that_is_made_with_its_set_is_waited_for(four: Any) -> None:
    """What is applied in one file comes in any order, and caches are behind."""

    def known(raw: Any) -> bool:
        new = MACHINE_DEPLOYMENTS.decode(msgspec.json.encode(raw))
        requester = Requester()
        namespace = raw["metadata"]["namespace"]
        return sets.knows(Request(Operation.CREATE, "w", namespace, requester, new=new), four.world)

    foreign = four.many(1, "not-there")
    foreign["spec"]["template"]["spec"]["infrastructureRef"]["kind"] = "DockerMachineTemplate"
    assert known(four.many(1))
    assert not known(four.many(1, "not-there"))
    assert known(foreign)
