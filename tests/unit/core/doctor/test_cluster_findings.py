"""What is said of a cluster."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from laneway.core.doctor.cluster import OLDEST, judge
from laneway.core.doctor.cluster_facts import (
    Addon,
    Certificate,
    ClusterFacts,
    ClusterNode,
    Definition,
    Harvester,
    Hook,
    Installation,
    Stuck,
    Unseen,
    Workload,
)
from laneway.core.doctor.finding import Finding, Level

CRD = Definition(name="a.devices.harvesterhci.io", present=True, established=True)


def part(kind: str, name: str, **changes: Any) -> Workload:
    facts = {"namespace": "harvester-system", "wanted": 2, "ready": 2, "images": ("l/laneway:1.0",)}
    return Workload(kind=kind, name=name, **facts | changes)


def hook(**changes: Any) -> Hook:
    facts: dict[str, Any] = {
        "configuration": "laneway-validator",
        "kind": "Validating",
        "name": "claims",
        "failure_policy": "Fail",
        "trust": "fits",
        "resources": ("pcideviceclaims.devices.harvesterhci.io",),
    }
    return Hook(**facts | changes)


def cluster(**changes: Any) -> ClusterFacts:
    facts: dict[str, Any] = {
        "version": "v1.33.2+rke2r1",
        "definitions": (CRD,),
        "agents": part("DaemonSet", "laneway-agent"),
        "managers": part("Deployment", "laneway-manager"),
        "webhooks": part("Deployment", "laneway-webhook"),
        "hooks": (hook(),),
        "certificate": Certificate(secret="Secret a/b", expires="later", days=80),
        "kubevirts": (Installation(title="a/b", phase="Deployed", gates=("HostDevices",)),),
        "nodes": (ClusterNode(name="node1", gpus=True, agent=True),),
    }
    return ClusterFacts(**facts | changes)


def wrong(facts: ClusterFacts) -> list[Finding]:
    return [one for one in judge(facts) if one.level is not Level.OK]


def test_a_cluster_that_is_well_has_no_findings_but_good_ones() -> None:
    assert wrong(cluster()) == []


def test_the_oldest_version_that_will_do_does() -> None:
    oldest, older = f"v{OLDEST[0]}.{OLDEST[1]}.0", f"v{OLDEST[0]}.{OLDEST[1] - 1}.9"
    assert wrong(cluster(version=oldest)) == []
    assert [one.level for one in wrong(cluster(version=older))] == [Level.PROBLEM]


CASES: list[tuple[dict[str, Any], str, Level, str]] = [
    ({"version": "v1.24.1"}, "Kubernetes", Level.PROBLEM, "v1.24.1"),
    ({"version": "odd"}, "Kubernetes", Level.ADVICE, "odd"),
    ({"definitions": (Definition(name="x"),)}, "Definitions", Level.PROBLEM, "not know x"),
    (
        {"definitions": (Definition(name="x", present=True),)},
        "Definitions",
        Level.PROBLEM,
        "not served",
    ),
    (
        {"definitions": (replace(CRD, release="pcidevices-controller"),)},
        "Definitions",
        Level.ADVICE,
        "belong to the Helm release pcidevices-controller",
    ),
    (
        {"harvester": Harvester(daemon_set=part("DaemonSet", "h", present=1))},
        "HarvesterController",
        Level.PROBLEM,
        "side by side",
    ),
    (
        {"harvester": Harvester(daemon_set=part("DaemonSet", "h"), parked=True)},
        "HarvesterController",
        Level.ADVICE,
        "record of its former state is missing",
    ),
    (
        {"harvester": Harvester(hooks=("MutatingWebhookConfiguration/pcidevices-mutator",))},
        "HarvesterWebhooks",
        Level.PROBLEM,
        "pcidevices-mutator",
    ),
    ({"managers": None}, "Laneway", Level.PROBLEM, "manager is missing"),
    (
        {"agents": part("DaemonSet", "laneway-agent", ready=1)},
        "Laneway",
        Level.PROBLEM,
        "1 of 2 ready",
    ),
    (
        {"agents": part("DaemonSet", "laneway-agent", wanted=0, ready=0)},
        "Laneway",
        Level.PROBLEM,
        "scheduled to no node",
    ),
    ({"hooks": ()}, "Webhooks", Level.PROBLEM, "webhook configurations are missing"),
    ({"hooks": (hook(trust="other"),)}, "Webhooks", Level.PROBLEM, "has a wrong CA"),
    ({"hooks": (hook(trust="missing"),)}, "Webhooks", Level.PROBLEM, "has no CA"),
    (
        {"hooks": (hook(service="a/b", reachable=False),)},
        "Webhooks",
        Level.PROBLEM,
        "service a/b does not exist",
    ),
    ({"hooks": (hook(failure_policy="Ignore"),)}, "Webhooks", Level.ADVICE, "Ignore"),
    (
        {"certificate": Certificate(secret="s", expires="then", days=-1)},
        "Certificate",
        Level.PROBLEM,
        "expired on then",
    ),
    (
        {"certificate": Certificate(secret="s", expires="then", days=2)},
        "Certificate",
        Level.ADVICE,
        "expires on then",
    ),
    ({"kubevirts": ()}, "KubeVirt", Level.ADVICE, "no KubeVirt"),
    (
        {"kubevirts": (Installation(title="a/b"),)},
        "KubeVirt",
        Level.PROBLEM,
        "feature gate HostDevices",
    ),
    (
        {"nodes": (ClusterNode(name="node1", gpus=True),)},
        "Nodes",
        Level.PROBLEM,
        "no agent: node1",
    ),
    (
        {"nodes": (ClusterNode(name="node1", agent=True, driver="A: b", driver_failed=True),)},
        "DriverToolkit",
        Level.PROBLEM,
        "node node1: A: b",
    ),
    (
        {"nodes": (ClusterNode(name="node1", agent=True, driver="DriverInstalling: 17 MiB"),)},
        "DriverToolkit",
        Level.ADVICE,
        "node node1: DriverInstalling",
    ),
    (
        {
            "stuck": (
                Stuck(
                    resource="vgpudevices.devices.harvesterhci.io",
                    name="v",
                    since="t",
                    finalizers=("x/y",),
                ),
            )
        },
        "Deletion",
        Level.PROBLEM,
        "held by x/y",
    ),
    (
        {
            "stuck": (
                Stuck(
                    resource="pcideviceclaims.devices.harvesterhci.io",
                    name="c",
                    since="t",
                    ours=True,
                    answer="vm1 has it",
                ),
            )
        },
        "Deletion",
        Level.ADVICE,
        "vm1 has it",
    ),
    ({"unknown": ("you may not list secrets",)}, "Rights", Level.ADVICE, "secrets"),
]


@pytest.mark.parametrize(("changes", "check", "level", "words"), CASES)
def test_what_is_amiss_is_reported(
    changes: dict[str, Any], check: str, level: Level, words: str
) -> None:
    found = wrong(cluster(**changes))
    assert [(one.check, one.level) for one in found] == [(check, level)]
    assert words in found[0].what
    assert level is not Level.PROBLEM or (found[0].why and found[0].remedy)


NODE = Stuck(resource="nodes.devices.harvesterhci.io", name="n", since="t", finalizers=("x/y",))


def test_what_is_stuck_is_named_as_kubectl_finds_it() -> None:
    [found] = wrong(cluster(stuck=(NODE,)))
    assert found.what.startswith("nodes.devices.harvesterhci.io n is being deleted")
    # `kubectl edit node` would open the node of Kubernetes.
    assert "kubectl edit nodes.devices.harvesterhci.io n" in found.remedy


def test_definitions_of_a_release_are_not_said_to_be_saved_by_an_annotation_of_kubectl() -> None:
    [found] = wrong(cluster(definitions=(replace(CRD, release="r"),)))
    assert "templates" in found.remedy
    assert "helm upgrade" in found.remedy
    assert f"kubectl get {CRD.name} -o yaml" in found.remedy
    assert "kubectl annotate crd" not in found.remedy


UNSEEN: list[tuple[dict[str, Any], frozenset[Unseen]]] = [
    ({"definitions": ()}, frozenset({"definitions"})),
    ({"managers": None, "agents": None}, frozenset({"parts"})),
    ({"hooks": ()}, frozenset({"hooks"})),
    ({"kubevirts": ()}, frozenset({"kubevirts"})),
    ({"nodes": (ClusterNode(name="node1", gpus=True),)}, frozenset({"nodes"})),
    ({"harvester": Harvester(hooks=("x",), seen=False)}, frozenset()),
    ({"harvester": Harvester(daemon_set=part("D", "h"), parked=True, seen=False)}, frozenset()),
]


@pytest.mark.parametrize(("changes", "unseen"), UNSEEN)
def test_what_could_not_be_seen_is_not_taken_for_missing(
    changes: dict[str, Any], unseen: frozenset[Unseen]
) -> None:
    assert wrong(cluster(unseen=unseen, **changes)) == []
    seen = {key: replace(one, seen=True) for key, one in changes.items() if key == "harvester"}
    if changes != {"definitions": ()}:  # There are always some that should be there.
        assert wrong(cluster(**changes | seen)) != []


def test_a_policy_of_ignore_is_meant_for_machines() -> None:
    machines = hook(failure_policy="Ignore", resources=("virtualmachines.kubevirt.io",))
    assert wrong(cluster(hooks=(machines,))) == []


def test_a_cluster_without_laneway_is_reported_once() -> None:
    bare = cluster(agents=None, managers=None, webhooks=None, hooks=(), certificate=None, nodes=())
    assert [(one.check, one.level) for one in wrong(bare)] == [("Laneway", Level.ADVICE)]


def test_a_controller_that_is_parked_is_as_it_should_be() -> None:
    parked = Harvester(
        daemon_set=part("DaemonSet", "h"), parked=True, saved=True, addon=Addon(enabled=True)
    )
    assert wrong(cluster(harvester=parked)) == []


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("rancher/harvester-pcidevices:v1.8.1", "v1.8.1"),
        ("registry.example.com:5000/a/b:v2@sha256:00", "v2"),
        ("registry.example.com:5000/a/b", ""),
        ("a/b@sha256:00", ""),
        ("", ""),
    ],
)
def test_a_version_is_the_tag_of_an_image(image: str, version: str) -> None:
    assert part("DaemonSet", "x", images=(image,)).version == version
