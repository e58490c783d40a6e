"""Laws of the webhooks: what the API server asks about, whom, and what it must not ask."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kapilite.cel.program import CALL_LIMIT, Budget, program
from laneway.admission.kinds import KINDS as JUDGED
from laneway.api.fields import GROUP, VERSION
from laneway.api.registry import KINDS
from laneway.core.keys import (
    ANNOTATION_REQUESTERS,
    LABEL_BAREMETAL_GPUS,
    LABEL_GPU_WORKLOAD,
    LABEL_NVIDIA_WORKLOAD,
)
from laneway.kube.kubevirt import ANNOTATION_ADMITTED
from support.chart import Object, find

KUBEVIRT = {
    ("kubevirt.io", "v1", "virtualmachines"),
    ("kubevirt.io", "v1", "virtualmachineinstancereplicasets"),
    ("kubevirt.io", "v1", "virtualmachineinstances"),
    ("pool.kubevirt.io", "v1alpha1", "virtualmachinepools"),
    ("pool.kubevirt.io", "v1beta1", "virtualmachinepools"),
}
CLUSTER_API = {
    ("infrastructure.cluster.x-k8s.io", "v1alpha1", "kubevirtmachinetemplates"),
    *(
        ("infrastructure.cluster.x-k8s.io", "v1beta2", plural)
        for plural in ("vspheremachines", "vspheremachinetemplates", "vspherevms")
    ),
    *(
        ("cluster.x-k8s.io", "v1beta2", f"{plural}{subresource}")
        for plural in ("machinedeployments", "machinesets")
        for subresource in ("", "/scale")
    ),
    *(
        ("controlplane.cluster.x-k8s.io", "v1beta2", f"kubeadmcontrolplanes{subresource}")
        for subresource in ("", "/scale")
    ),
}
OURS = {(GROUP, VERSION, kind.plural) for kind in KINDS if kind.group == GROUP}
NODES = ("", "v1", "nodes")
PODS = {
    ("", "v1", f"pods{part}")
    for part in ("", "/binding", "/ephemeralcontainers", "/resize", "/status")
}


def webhooks(objects: list[Object]) -> Iterator[tuple[Object, Object]]:
    """Those about devices and VMs; `test_chart_machine_pools.py` is about others."""
    for found in objects:
        about_pools = found["metadata"]["name"] == "laneway-pools-webhook"
        if found["kind"].endswith("WebhookConfiguration") and not about_pools:
            for webhook in found["webhooks"]:
                yield found, webhook


def test_every_rule_of_a_webhook_is_about_a_kind_that_exists(rendered: list[Object]) -> None:
    for _, webhook in webhooks(rendered):
        for rule in webhook["rules"]:
            about = {
                (group, version, resource)
                for group in rule["apiGroups"]
                for version in rule["apiVersions"]
                for resource in rule["resources"]
            }
            assert about <= OURS | KUBEVIRT | CLUSTER_API | PODS | {NODES}
            namespaced = about <= KUBEVIRT | CLUSTER_API | PODS
            assert rule["scope"] == ("Namespaced" if namespaced else "Cluster")


def test_what_is_asked_about_is_what_is_judged(rendered: list[Object]) -> None:
    asked: dict[str, set[tuple[str, str]]] = {}
    for config, webhook in webhooks(rendered):
        for rule in webhook["rules"]:
            asked.setdefault(config["kind"], set()).update(
                (group, resource) for group in rule["apiGroups"] for resource in rule["resources"]
            )

    assert asked["ValidatingWebhookConfiguration"] == set(JUDGED)
    changed = {about for about, kind in JUDGED.items() if kind.mutate is not None}
    assert asked["MutatingWebhookConfiguration"] == changed


def test_every_kind_of_ours_that_people_write_is_validated_always(
    rendered: list[Object],
) -> None:
    validated = {
        (group, version, resource)
        for config, webhook in webhooks(rendered)
        for rule in webhook["rules"]
        for group in rule["apiGroups"]
        for version in rule["apiVersions"]
        for resource in rule["resources"]
        if config["kind"].startswith("Validating")
        and webhook["failurePolicy"] == "Fail"
        and set(rule["operations"]) == {"CREATE", "UPDATE", "DELETE"}
    }

    by_their_definition = (
        "hostpreparations",
        "nodes",
        "vcenters",
        "vspherehosts",
        "vspherereservations",
    )
    assert validated == OURS - {(GROUP, VERSION, plural) for plural in by_their_definition}


@pytest.mark.parametrize(
    ("before", "after", "asked"),
    [
        ({}, {LABEL_GPU_WORKLOAD: "containers"}, True),
        ({LABEL_BAREMETAL_GPUS: "true"}, None, True),
        ({LABEL_NVIDIA_WORKLOAD: "container"}, {LABEL_NVIDIA_WORKLOAD: "vm-vgpu"}, True),
        ({LABEL_GPU_WORKLOAD: "containers"}, {LABEL_GPU_WORKLOAD: "containers", "a": "b"}, False),
        (None, {"a": "b"}, False),
    ],
)
def test_of_nodes_only_those_are_asked_about_whose_gpus_are_to_serve_others(
    rendered: list[Object], before: Any, after: Any, asked: bool
) -> None:
    [webhook] = [
        webhook
        for _, webhook in webhooks(rendered)
        if any(rule["resources"] == ["nodes"] for rule in webhook["rules"])
    ]
    old, new = (
        {"metadata": {} if labels is None else {"labels": labels}} for labels in (before, after)
    )
    [condition] = webhook["matchConditions"]
    found = program(condition["expression"]).evaluate(
        {"object": new, "oldObject": old}, Budget(CALL_LIMIT)
    )
    assert found is asked
    assert webhook["failurePolicy"] == "Ignore"


def test_of_pods_only_those_are_asked_about_that_request_devices(rendered: list[Object]) -> None:
    """And a webhook that fails to answer blocks no pod; what says to be judged must have been."""
    asked = [
        (webhook["name"].partition(".")[0], webhook["failurePolicy"])
        for _, webhook in webhooks(rendered)
        if any("pods" in rule["resources"] for rule in webhook["rules"])
        and webhook["matchConditions"]
    ]

    assert asked == [("pods", "Ignore"), ("pods", "Ignore"), ("requesters", "Fail")]


def asks(rendered: list[Object], limits: Object, *, note: str = "", init: bool = False) -> set[str]:
    """The webhooks that are asked about a pod that is made."""
    container = {"name": "c", "resources": {"limits": limits}}
    spec = {"containers": [{"name": "x"}], "initContainers": [container]}
    pod = {"metadata": {}, "spec": spec if init else {"containers": [container]}}
    if note:
        pod["metadata"] = {"annotations": {ANNOTATION_REQUESTERS: note}}
    request = {"operation": "CREATE", "resource": {"resource": "pods"}}
    scope = {"object": pod, "oldObject": None, "request": request}
    return {
        f"{config['kind'][0]}:{webhook['name'].partition('.')[0]}"
        for config, webhook in webhooks(rendered)
        if any("pods" in rule["resources"] for rule in webhook["rules"])
        and all(
            program(one["expression"]).evaluate(scope, Budget(CALL_LIMIT))
            for one in webhook["matchConditions"]
        )
    }


NIC = {"intel.com/I350_GIGABIT_NETWORK_CONNECTION": "1"}


@pytest.mark.parametrize(
    ("limits", "more", "asked"),
    [
        ({"cpu": "1", "memory": "1Gi"}, {}, set()),
        ({"nvidia.com/gpu": "1", "nvidia.com/mig-1g.5gb": "1"}, {}, set()),
        ({"devices.kubevirt.io/kvm": "1", "scheduling.kubernetes.io/x": "1"}, {}, set()),
        (NIC, {}, {"M:pods", "V:pods"}),
        (NIC, {"init": True}, {"M:pods", "V:pods"}),
        (NIC, {"note": "[]"}, {"M:pods", "V:requesters"}),
        ({}, {"note": "[]"}, {"M:pods", "V:requesters"}),
        ({"nvidia.com/NVIDIA_A2-2Q": "1"}, {}, {"M:pods", "V:pods"}),
    ],
)
def test_which_pods_are_asked_about(
    rendered: list[Object], limits: Object, more: Any, asked: set[str]
) -> None:
    assert asks(rendered, limits, **more) == asked


def reviewers(rendered: list[Object], resource: str, new: Any, old: Any) -> set[str]:
    """The webhooks that validate a write and must not fail, whatever the values are."""
    request = {"operation": "UPDATE" if old else "CREATE", "resource": {"resource": resource}}
    scope = {"object": new, "oldObject": old, "request": request}
    return {
        webhook["name"].partition(".")[0]
        for config, webhook in webhooks(rendered)
        if config["kind"].startswith("Validating") and webhook["failurePolicy"] == "Fail"
        if not webhook["name"].startswith("kept-")
        for rule in webhook["rules"]
        if resource in rule["resources"] and request["operation"] in rule["operations"]
        if all(
            program(one["expression"]).evaluate(scope, Budget(CALL_LIMIT))
            for one in webhook["matchConditions"]
        )
    }


@pytest.mark.parametrize("resource", ["virtualmachines", "virtualmachineinstances"])
@pytest.mark.parametrize("key", [ANNOTATION_REQUESTERS, ANNOTATION_ADMITTED])
@pytest.mark.parametrize("devices", [False, True])
def test_nothing_of_kubevirts_is_stored_unseen_that_bears_a_note_of_laneways(
    rendered: list[Object], resource: str, key: str, *, devices: bool
) -> None:
    spec: Any = {"domain": {"devices": {"hostDevices": [{"name": "a"}]} if devices else {}}}
    spec = {"template": {"spec": spec}} if resource == "virtualmachines" else spec
    plain = {"metadata": {}, "spec": {**spec, "a": 1}}
    noted = {"metadata": {"annotations": {key: "x"}}, "spec": spec}
    labelled = {**plain, "metadata": {"labels": {"a": "b"}}}
    judged = {"machines"} if devices else {"requesters"}

    assert reviewers(rendered, resource, noted, None) == judged
    assert reviewers(rendered, resource, noted, {**noted, "metadata": {}}) == {"requesters"}
    # With another specification.
    on_update = judged if resource == "virtualmachines" else {"requesters"}
    assert reviewers(rendered, resource, noted, plain) == on_update
    assert reviewers(rendered, resource, labelled, plain) == set()


def test_a_review_goes_to_the_service_and_changes_nothing(rendered: list[Object]) -> None:
    service = find(rendered, "Service", "laneway-webhook")
    for config, webhook in webhooks(rendered):
        path = "mutation" if config["kind"].startswith("Mutating") else "validation"
        assert webhook["clientConfig"] == {
            "service": {
                "name": service["metadata"]["name"],
                "namespace": service["metadata"]["namespace"],
                "path": f"/v1/webhook/{path}",
                "port": service["spec"]["ports"][0]["port"],
            }
        }
        assert webhook["sideEffects"] == "None"
        assert webhook["admissionReviewVersions"] == ["v1", "v1beta1"]
        assert webhook["timeoutSeconds"] == 10


def test_nothing_is_asked_about_the_removal_of_a_virtual_machine(rendered: list[Object]) -> None:
    for _, webhook in webhooks(rendered):
        for rule in webhook["rules"]:
            if rule["apiGroups"] != [GROUP]:
                assert "DELETE" not in rule["operations"]
