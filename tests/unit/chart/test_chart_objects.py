"""Laws of the chart's objects, whatever the values: safety, names, and what fits what."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import click
import pytest

from laneway.cli import cli
from support.chart import NAMESPACE, Object, find, own_templates, render, templates

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
OUTSIDE = "laneway-pools-reader"
"""The account of a webhook in another cluster."""
COMMON = {"agent", "manager", "webhook", "pools-webhook", "ui", "release"}
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

    assert used == set(accounts) - {OUTSIDE}
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
