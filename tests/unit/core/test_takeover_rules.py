"""What is said before a takeover and before the way back."""

from __future__ import annotations

from typing import Any

import pytest

from laneway.core.doctor.cluster_facts import (
    Addon,
    ClusterFacts,
    Definition,
    Harvester,
    Hook,
    Unreadable,
    Workload,
)
from laneway.core.doctor.finding import Finding, Level, healthy
from laneway.core.takeover import (
    ClaimFact,
    TakeoverFacts,
    VmFact,
    before,
    before_going_back,
    steps,
)

CRD = "pcidevices.devices.harvesterhci.io"


def daemon_set(tag: str = "v1.8.1") -> Workload:
    return Workload(
        kind="DaemonSet",
        namespace="harvester-system",
        name="harvester-pcidevices-controller",
        wanted=3,
        ready=3,
        present=3,
        images=(f"registry.example.com:5000/rancher/harvester-pcidevices:{tag}",),
    )


def claim(**changes: Any) -> ClaimFact:
    facts = {
        "name": "node1-000008000",
        "node": "node1",
        "address": "0000:08:00.0",
        "carried_out": True,
        "owned": True,
    }
    return ClaimFact(**facts | changes)


def facts(cluster: dict[str, Any] | None = None, **more: Any) -> TakeoverFacts:
    found: dict[str, Any] = {"harvester": Harvester(daemon_set=daemon_set(), saved=True)}
    return TakeoverFacts(cluster=ClusterFacts(**found | (cluster or {})), **more)


def of(findings: list[Finding], check: str, level: Level = Level.ADVICE) -> list[str]:
    return [one.what for one in findings if (one.check, one.level) == (check, level)]


@pytest.mark.parametrize(
    ("tag", "known"),
    [
        ("v1.8.1", True),
        ("v1.7.0-rc2", True),
        ("1.8.3", True),
        ("v1.9.0", False),
        ("master-head", False),
        ("v1.80.1", False),
    ],
)
def test_releases_that_were_read_differ_from_others(tag: str, known: bool) -> None:
    harvester = Harvester(daemon_set=daemon_set(tag))
    found = before(facts({"harvester": harvester}))
    assert (of(found, "HarvesterController") == []) == known
    assert healthy(found)


def test_an_addon_is_to_stay_enabled_and_says_what_disabling_would_cost() -> None:
    addon = Addon(enabled=True, status="AddonDeploySuccessful")
    harvester = Harvester(daemon_set=daemon_set(), addon=addon)
    mild = before(facts({"harvester": harvester}))
    [words] = [one.remedy for one in mild if one.check == "Addon"]
    assert "Leave it enabled" in words
    assert "would delete" not in words
    of_helm = Definition(name=CRD, present=True, established=True, release="pcidevices-controller")
    worse = before(facts({"harvester": harvester, "definitions": (of_helm,)}))
    [words] = [one.remedy for one in worse if one.check == "Addon"]
    assert f"would delete {CRD}, and with them every claim" in words
    off = Harvester(daemon_set=daemon_set(), addon=Addon(enabled=False))
    assert of(before(facts({"harvester": off})), "Addon") == []


def test_fields_that_are_gained_and_lost_are_reported() -> None:
    gains = Definition(name=CRD, present=True, established=True, lacks=(".status.bars",))
    loses = Definition(name="nodes", present=True, established=True, adds=(".status.gpuAddresses",))
    found = before(facts({"definitions": (gains, loses)}))
    assert "1 definition will gain 1 field from Laneway" in of(found, "Definitions", Level.OK)[0]
    assert ".status.gpuAddresses" in of(found, "Definitions")[0]


def test_what_laneway_would_do_at_once_is_reported() -> None:
    found = before(
        facts(
            claims=(claim(carried_out=False), claim(name="node1-000009000", leaving=True)),
            waiting=("VGPUDevice node1-000008004",),
        )
    )
    leaving, waiting = of(found, "PendingChanges")
    assert "node1-000009000" in leaving
    assert waiting.endswith("PCIDeviceClaim node1-000008000, VGPUDevice node1-000008004")


def test_claims_that_laneway_will_not_adopt_are_reported() -> None:
    found = before(facts(claims=(claim(name="mine"),)))
    assert "PCIDeviceClaim mine does not have the name" in of(found, "Claims")[0]


def test_vms_are_reported_with_what_they_have() -> None:
    vm = VmFact(name="default/vm1", runs=True, devices=("node1-000008000",))
    assert of(before(facts(vms=(vm,))), "InUse", Level.OK) == [
        "default/vm1 runs and has node1-000008000: not touched"
    ]


def test_the_way_back_is_refused_while_laneway_is_here() -> None:
    agent = Workload(kind="DaemonSet", namespace="harvester-system", name="laneway-agent")
    hook = Hook(configuration="laneway-validator", kind="Validating", name="x")
    found = before_going_back(facts({"agents": agent, "hooks": (hook, hook)}))
    parts, hooks = of(found, "Laneway", Level.PROBLEM)
    assert "laneway-agent" in parts
    assert hooks.endswith(": laneway-validator")


def test_the_way_back_is_refused_where_it_would_unbind_everything() -> None:
    found = before_going_back(facts(claims=(claim(), claim(name="b", owned=False))))
    assert of(found, "Claims", Level.PROBLEM) == [
        "claims without their PCIDevice as first owner: b"
    ]
    assert healthy(before_going_back(facts(claims=(claim(),))))


def test_the_way_back_is_refused_where_not_everything_could_be_seen() -> None:
    hidden = Harvester(seen=False)
    found = before_going_back(facts({"harvester": hidden}, unknown=("you may not list x",)))
    assert [one.what for one in found] == ["you may not list x"]
    assert not healthy(found)


@pytest.mark.parametrize(
    ("resource", "name", "blocks"),
    [
        ("usbdevices.devices.harvesterhci.io", "stick", False),
        ("deployments.apps", "default/shop", False),
        ("pcideviceclaims.devices.harvesterhci.io", "node1-000008000", True),
        ("daemonsets.apps", "harvester-system/laneway-agent", True),
    ],
)
def test_only_what_decides_about_the_way_back_must_be_readable(
    resource: str, name: str, blocks: bool
) -> None:
    odd = Unreadable(resource=resource, name=name, problem="Expected `int`, got `str`")
    found = before_going_back(facts(unreadable=(odd,)))
    assert healthy(found) != blocks
    [reported] = [one for one in found if one.check == "Unreadable"]
    assert reported.what == f"{resource} {name} cannot be read: Expected `int`, got `str`"
    assert reported.remedy == "Correct or delete it."
    there = before(facts(unreadable=(odd,)))
    assert healthy(there)
    assert of(there, "Unreadable") == [reported.what]


def test_what_could_not_be_seen_is_reported_before_a_takeover() -> None:
    found = before(facts({"unseen": frozenset({"kubevirts"})}, unknown=("you may not list x",)))
    assert of(found, "Rights") == ["you may not list x"]
    assert of(found, "PermittedDevices", Level.OK) == []
    assert healthy(found)
    # The last step would fail, with everything else done.
    visibility_error = before(facts({"unseen": frozenset({"kubevirts"})}, adoptable=False))
    [words] = of(visibility_error, "Rights", Level.PROBLEM)
    assert "which of KubeVirt's entries" in words
    hidden = Harvester(seen=False)
    assert not healthy(before(facts({"harvester": hidden})))


def test_the_way_back_needs_something_to_go_back_to() -> None:
    gone = Harvester(saved=True)
    assert not healthy(before_going_back(facts({"harvester": gone})))
    bare = Harvester(daemon_set=daemon_set(), saved=False)
    found = before_going_back(facts({"harvester": bare}, mediated=("a",), layouts=("b",)))
    assert healthy(found)
    assert [one.check for one in found] == ["HarvesterController", "MediatedDevices", "Layouts"]


def test_the_record_is_written_before_anything_else() -> None:
    first, *rest = steps(["MutatingWebhookConfiguration/pcidevices-mutator"], parked=False)
    assert first.startswith("save")
    assert len(rest) == 5
    assert len(steps([], parked=True)) == 4
