"""Laws of the chart's objects, whatever the values: safety, names, and what fits what."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import click
import pytest

from kapilite.cel.program import CALL_LIMIT, Budget, program
from laneway.admission.kinds import KINDS as JUDGED
from laneway.api.fields import GROUP, VERSION
from laneway.api.registry import KINDS
from laneway.cli import cli
from laneway.core.keys import (
    ANNOTATION_REQUESTERS,
    LABEL_BAREMETAL_GPUS,
    LABEL_GPU_WORKLOAD,
    LABEL_NVIDIA_WORKLOAD,
)
from laneway.kube.kubevirt import ANNOTATION_ADMITTED
from support.chart import NAMESPACE, Object, find, own_templates, render, templates

KUBEVIRT = {
    ("kubevirt.io", "v1", "virtualmachines"),
    ("kubevirt.io", "v1", "virtualmachineinstancereplicasets"),
    ("kubevirt.io", "v1", "virtualmachineinstances"),
    ("pool.kubevirt.io", "v1alpha1", "virtualmachinepools"),
    ("pool.kubevirt.io", "v1beta1", "virtualmachinepools"),
}
CLUSTER_API = {
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
NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
CLUSTER_WIDE = {
    "ClusterRole",
    "ClusterRoleBinding",
    "MutatingWebhookConfiguration",
    "PriorityClass",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
}


PRIVILEGED = {"agent", "driver-toolkit"}
"""What works on the node itself. `test_chart_driver.py` is about the second."""
COMMON = {"agent", "manager", "webhook", "ui", "release"}
"""What serves its health, from one image."""


def containers(objects: list[Object]) -> Iterator[tuple[str, Object, Object]]:
    """Every container with the component and the pod that it is of."""
    for _, template in own_templates(objects):
        component = template["metadata"]["labels"]["app.kubernetes.io/component"]
        for kind in ("initContainers", "containers"):
            for container in template["spec"].get(kind, []):
                yield component, template["spec"], container


# ---- safety --------------------------------------------------------------------


def test_only_the_agent_and_the_driver_are_privileged(rendered: list[Object]) -> None:
    components = {component for component, _, _ in containers(rendered)}
    privileged = {
        component
        for component, _, container in containers(rendered)
        if container["securityContext"].get("privileged")
    }

    assert privileged == PRIVILEGED & components


def test_every_other_is_anonymous_and_can_do_nothing(rendered: list[Object]) -> None:
    for component, pod, container in containers(rendered):
        if component in PRIVILEGED:
            continue
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] == pod["securityContext"]["runAsGroup"] > 1000
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


def test_only_the_agent_and_the_driver_see_the_node(rendered: list[Object]) -> None:
    for component, pod, _ in containers(rendered):
        assert not pod.get("hostNetwork")
        assert not pod.get("hostIPC")
        if component not in PRIVILEGED:
            assert not pod.get("hostPID")
            assert all("hostPath" not in volume for volume in pod.get("volumes", []))


def test_the_agent_sees_of_the_node_what_it_needs(rendered: list[Object]) -> None:
    agent = find(rendered, "DaemonSet", "laneway-agent")["spec"]["template"]
    (container,) = agent["spec"]["containers"]
    options = dict(arg.split("=", 1) for arg in container["args"] if "=" in arg)
    kubelet = options["--kubelet-dir"]
    wanted = {"/sys", "/dev", "/lib/modules", options["--state-dir"]}
    wanted |= {f"{kubelet}/device-plugins", f"{kubelet}/pod-resources"}

    mounts = {one["name"]: one for one in container["volumeMounts"]}
    seen = {one["hostPath"]["path"]: mounts[one["name"]] for one in agent["spec"]["volumes"]}

    assert agent["spec"]["hostPID"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    if root := options.get("--node-root"):
        read_only = "--prepare-host" not in container["args"]
        assert (seen["/"]["mountPath"], seen["/"]["readOnly"]) == (root, read_only)
        del seen["/"]
    assert {path: mount["mountPath"] for path, mount in seen.items()} == {p: p for p in wanted}
    assert seen["/lib/modules"]["readOnly"] is True


def test_a_token_is_there_for_those_who_ask_the_server_only(rendered: list[Object]) -> None:
    accounts = {o["metadata"]["name"]: o for o in rendered if o["kind"] == "ServiceAccount"}
    used = {pod["serviceAccountName"] for _, pod, _ in containers(rendered)}

    assert used == set(accounts)
    assert all(one["automountServiceAccountToken"] is False for one in accounts.values())
    for component, pod, _ in containers(rendered):
        assert pod["automountServiceAccountToken"] is (component != "driver-toolkit")


def test_no_container_takes_the_memory_of_a_node(rendered: list[Object]) -> None:
    for _, _, container in containers(rendered):
        assert container["resources"]["limits"]["memory"]
        assert container["resources"]["requests"]["cpu"]


# ---- what fits what ------------------------------------------------------------


def test_there_is_one_image_but_for_the_drivers(rendered: list[Object]) -> None:
    images = {one["image"] for component, _, one in containers(rendered) if component in COMMON}
    assert len(images) == 1


def test_the_program_takes_what_a_pod_tells_it(
    rendered: list[Object], monkeypatch: pytest.MonkeyPatch
) -> None:
    for _, _, container in containers(rendered):
        for variable in container.get("env", []):
            monkeypatch.setenv(variable["name"], "node1")
        name, *arguments = container["args"]
        command = cli.get_command(click.Context(cli), name)
        assert command is not None, name
        command.make_context(name, list(arguments))


def test_a_command_in_the_agents_pod_looks_where_the_agent_does(
    rendered: list[Object],
) -> None:
    [agent] = [one for component, _, one in containers(rendered) if component == "agent"]
    reported = dict(one.split("=", 1) for one in agent["args"] if "=" in one)
    env = {one["name"]: one.get("value") for one in agent["env"]}
    command = cli.get_command(click.Context(cli), "doctor")
    assert isinstance(command, click.Group)

    for option in command.commands["node"].params:
        if option.envvar is not None:
            assert env.get(str(option.envvar)) == reported.get(option.opts[0]), option.name


def selected(objects: list[Object], labels: dict[str, str]) -> list[Object]:
    return [
        template
        for _, template in templates(objects)
        if labels.items() <= template["metadata"]["labels"].items()
    ]


def test_each_selector_chooses_the_pods_of_one_component(rendered: list[Object]) -> None:
    for found in rendered:
        spec = found.get("spec", {})
        match found["kind"]:
            case "Service":
                chosen = spec["selector"]
            case "NetworkPolicy":
                chosen = spec["podSelector"]["matchLabels"]
            case "PodDisruptionBudget" | "Deployment" | "DaemonSet":
                chosen = spec["selector"]["matchLabels"]
            case _:
                continue
        assert len(selected(rendered, chosen)) == 1, found["metadata"]["name"]


def test_every_port_that_is_asked_exists(rendered: list[Object]) -> None:
    for _, _, container in containers(rendered):
        ports = {port["name"] for port in container.get("ports", [])}
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            if "httpGet" in container.get(probe, {}):
                assert container[probe]["httpGet"]["port"] in ports
    for found in rendered:
        if found["kind"] == "Service":
            (template,) = selected(rendered, found["spec"]["selector"])
            ports = {p["name"]: p for c in template["spec"]["containers"] for p in c["ports"]}
            assert all(port["targetPort"] in ports for port in found["spec"]["ports"])
        if found["kind"] == "NetworkPolicy":
            (template,) = selected(rendered, found["spec"]["podSelector"]["matchLabels"])
            numbers = {
                p["containerPort"]
                for c in template["spec"]["containers"]
                for p in c.get("ports", [])
            }
            opened = {port["port"] for rule in found["spec"]["ingress"] for port in rule["ports"]}
            assert opened <= numbers


def test_those_that_run_on_and_on_are_asked_how_they_are(rendered: list[Object]) -> None:
    for owner, template in own_templates(rendered):
        component = template["metadata"]["labels"]["app.kubernetes.io/component"]
        if owner["kind"] != "Job" and component in COMMON:
            for container in template["spec"]["containers"]:
                assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
                assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_health_is_where_the_program_serves_it(rendered: list[Object]) -> None:
    for component, _, container in containers(rendered):
        command = cli.get_command(click.Context(cli), component)
        if command is None:
            continue
        options = {option.name: option for option in command.params}
        if "health_address" in options:
            (port,) = (p["containerPort"] for p in container["ports"] if p["name"] == "health")
            assert options["health_address"].default == f":{port}"


def test_every_account_that_gets_rights_exists(rendered: list[Object]) -> None:
    accounts = {
        (o["metadata"]["namespace"], o["metadata"]["name"])
        for o in rendered
        if o["kind"] == "ServiceAccount"
    }
    roles = {o["metadata"]["name"] for o in rendered if o["kind"] in ("Role", "ClusterRole")}
    for found in rendered:
        if found["kind"] in ("RoleBinding", "ClusterRoleBinding"):
            assert found["roleRef"]["name"] in roles
            for subject in found["subjects"]:
                assert (subject["namespace"], subject["name"]) in accounts


PODS = {
    ("", "v1", f"pods{part}")
    for part in ("", "/binding", "/ephemeralcontainers", "/resize", "/status")
}


def webhooks(objects: list[Object]) -> Iterator[tuple[Object, Object]]:
    for found in objects:
        if found["kind"].endswith("WebhookConfiguration"):
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


# ---- names ---------------------------------------------------------------------


def test_names_and_labels_are_those_that_kubernetes_recommends(rendered: list[Object]) -> None:
    for found in rendered:
        metadata = found["metadata"]
        assert NAME.fullmatch(metadata["name"])
        assert len(metadata["name"]) <= 63
        labels = metadata["labels"]
        assert labels["app.kubernetes.io/name"] == "laneway"
        assert labels["app.kubernetes.io/part-of"] == "laneway"
        assert labels["app.kubernetes.io/managed-by"] == "Helm"
        for label in ("instance", "component", "version"):
            assert labels[f"app.kubernetes.io/{label}"]
        assert all(len(value) <= 63 for value in labels.values())


def test_no_object_is_made_twice(rendered: list[Object]) -> None:
    keys = [(o["kind"], o["metadata"].get("namespace"), o["metadata"]["name"]) for o in rendered]

    assert len(keys) == len(set(keys))


def test_every_object_says_where_it_belongs(rendered: list[Object]) -> None:
    for found in rendered:
        assert ("namespace" in found["metadata"]) == (found["kind"] not in CLUSTER_WIDE)


def test_all_is_in_the_namespace_of_the_release() -> None:
    elsewhere = {
        (o["kind"], o["metadata"]["name"])
        for o in render(namespace="devices")
        if o["metadata"].get("namespace", "devices") != "devices"
    }

    # Events about what has no namespace are in `default`.
    assert {kind for kind, _ in elsewhere} <= {"Role", "RoleBinding"}
    assert NAMESPACE not in str(render(namespace="devices"))


def test_a_long_name_of_the_release_fits() -> None:
    objects: list[Any] = render(name="r" * 53)

    assert all(len(o["metadata"]["name"]) <= 63 for o in objects)
    assert find(objects, "DaemonSet", "laneway-agent")
