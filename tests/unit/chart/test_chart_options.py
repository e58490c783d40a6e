"""What each value of the chart changes."""

from __future__ import annotations

from typing import Any

import pytest

from support.chart import VALUES, Object, find, helm, render


def pod(objects: list[Object], kind: str, name: str) -> Any:
    return find(objects, kind, name)["spec"]["template"]["spec"]


def agent(values: Any) -> Any:
    return pod(render(values), "DaemonSet", "laneway-agent")


def kinds(values: Any) -> set[str]:
    return {found["kind"] for found in render(values)}


@pytest.mark.parametrize(
    ("image", "reference"),
    [
        ({"repository": "r.example/x"}, "r.example/x:0.1.0"),
        ({"repository": "r.example/x", "tag": "2"}, "r.example/x:2"),
        ({"tag": "2", "digest": f"sha256:{'0a' * 32}"}, f"laneway@sha256:{'0a' * 32}"),
    ],
)
def test_the_image(image: dict[str, str], reference: str) -> None:
    assert agent({"image": image})["containers"][0]["image"] == reference


def test_secrets_to_pull_with() -> None:
    assert agent({"image": {"pullSecrets": ["a"]}})["imagePullSecrets"] == [{"name": "a"}]


def test_an_agent_runs_on_every_node_by_default() -> None:
    spec = agent({})

    assert spec["tolerations"] == [{"operator": "Exists"}]
    assert "nodeSelector" not in spec
    assert spec["priorityClassName"] == "system-node-critical"


@pytest.mark.parametrize("component", ["agent", "manager", "webhook", "ui"])
def test_each_component_is_placed_by_its_own_values(component: str) -> None:
    placed = VALUES["the web interface" if component == "ui" else "placed otherwise"][component]
    kind = "DaemonSet" if component == "agent" else "Deployment"

    spec = pod(render({component: placed}), kind, f"laneway-{component}")

    for name in ("priorityClassName", "nodeSelector", "affinity", "tolerations"):
        assert spec[name] == placed[name]
    assert spec["containers"][0]["resources"]["limits"] == {"memory": "2Gi"}


def test_replicas_stand_apart() -> None:
    for component in ("manager", "webhook"):
        found = find(render(), "Deployment", f"laneway-{component}")
        spec = found["spec"]["template"]["spec"]
        terms = spec["affinity"]["podAntiAffinity"][
            "preferredDuringSchedulingIgnoredDuringExecution"
        ]

        assert found["spec"]["replicas"] == 2
        assert terms[0]["podAffinityTerm"]["topologyKey"] == "kubernetes.io/hostname"
        chosen = terms[0]["podAffinityTerm"]["labelSelector"]
        assert chosen == found["spec"]["selector"]


def test_a_priority_of_our_own_is_there_while_it_is_in_use() -> None:
    others = {"priorityClassName": "system-cluster-critical"}

    assert "PriorityClass" in kinds({})
    assert "PriorityClass" in kinds({"manager": others})
    assert "PriorityClass" not in kinds({"manager": others, "webhook": others})


def rules(values: Any, resource: str) -> list[tuple[Object, Any]]:
    """Every rule about a resource, with its role."""
    return [
        (found, rule)
        for found in render(values)
        if found["kind"] in ("Role", "ClusterRole")
        for rule in found["rules"]
        if resource in rule["resources"]
    ]


@pytest.mark.parametrize(
    ("where", "namespace"), [({}, "harvester-system"), ({"driverNamespace": "gpus"}, "gpus")]
)
def test_whose_the_drivers_pods_are_is_asked_in_their_namespace(
    where: dict[str, str], namespace: str
) -> None:
    ((role, rule),) = rules({"agent": where}, "daemonsets")

    assert (role["kind"], role["metadata"]["namespace"]) == ("Role", namespace)
    assert rule["verbs"] == ["get"]
    arguments = agent({"agent": where})["containers"][0]["args"]
    assert f"--driver-namespace={namespace}" in arguments


def test_where_the_driver_is_on_the_node_no_pods_are_looked_for() -> None:
    assert rules({"agent": {"driver": "node"}}, "daemonsets") == []
    assert "--no-driver-pod" in agent({"agent": {"driver": "node"}})["containers"][0]["args"]


@pytest.mark.parametrize("values", VALUES)
def test_no_user_runs_programs_in_pods(values: str) -> None:
    for resource in ("pods/exec", "pods/attach", "pods/ephemeralcontainers", "pods/*", "*", "*/*"):
        assert rules(VALUES[values], resource) == []


def test_slices_are_enabled_by_a_flag_and_need_a_right() -> None:
    def may_write(values: Any) -> bool:
        rules = find(render(values), "ClusterRole", "laneway-agent")["rules"]
        about = [rule["verbs"] for rule in rules if "resourceslices" in rule["resources"]]
        return any("create" in verbs for verbs in about)

    with_slices = {"agent": {"dra": True}}
    assert "--dra" in agent(with_slices)["containers"][0]["args"]
    assert "--dra" not in agent({})["containers"][0]["args"]
    assert (may_write(with_slices), may_write({})) == (True, False)


def test_one_value_has_every_role_send_traces() -> None:
    def sent(values: Any) -> list[str]:
        objects = [one for one in render(values) if one["kind"] in ("DaemonSet", "Deployment")]
        containers = [one["spec"]["template"]["spec"]["containers"][0] for one in objects]
        found = [(one["name"], arg) for one in containers for arg in one["args"]]
        return [f"{name} {arg}" for name, arg in found if "otlp" in arg or "audit" in arg]

    endpoint = "--otlp-endpoint=http://c.ns:4318"
    given = {
        "traces": {"endpoint": "http://c.ns:4318"},
        "agent": {"audit": "stdout"},
        "ui": {"enabled": True},
        "machinePools": {"webhook": {"enabled": True}},
    }
    assert sorted(sent(given)) == [
        "agent --audit=stdout",
        f"agent {endpoint}",
        f"manager {endpoint}",
        f"pools-webhook {endpoint}",
        f"ui {endpoint}",
        f"webhook {endpoint}",
    ]
    assert sent({}) == []


def test_cert_manager_issues_a_certificate_and_injects_its_authority() -> None:
    objects = render({"webhook": {"certificates": "cert-manager"}})
    certificate = find(objects, "Certificate", "laneway-webhook")
    mounted = pod(objects, "Deployment", "laneway-webhook")["volumes"][0]["secret"]["secretName"]

    assert certificate["spec"]["secretName"] == mounted
    assert "laneway-webhook.harvester-system.svc" in certificate["spec"]["dnsNames"]
    # What is injected is whom the certificate is of, not the certificate: it stays when that goes.
    issuer = find(objects, "Issuer", certificate["spec"]["issuerRef"]["name"])
    [authority] = [
        one["spec"]
        for one in objects
        if one["kind"] == "Certificate"
        and one["spec"]["secretName"] == issuer["spec"]["ca"]["secretName"]
    ]
    assert authority["isCA"] is True
    assert authority["secretName"] != mounted
    assert authority["privateKey"]["rotationPolicy"] == "Never"
    years = int(authority["duration"].removesuffix("h")) / 24 / 365
    assert years >= 5
    of = find(objects, "Issuer", authority["issuerRef"]["name"])
    assert of["spec"] == {"selfSigned": {}}
    for kind, name in (
        ("MutatingWebhookConfiguration", "laneway-mutator"),
        ("ValidatingWebhookConfiguration", "laneway-validator"),
    ):
        annotations = find(objects, kind, name)["metadata"]["annotations"]
        assert annotations == {"cert-manager.io/inject-ca-from": "harvester-system/laneway-webhook"}
        assert "annotations" not in find(render(), kind, name)["metadata"]


@pytest.mark.parametrize("certificates", ["own", "none"])
def test_without_cert_manager_nothing_of_its_kinds_is_made(certificates: str) -> None:
    assert not {"Certificate", "Issuer"} & kinds({"webhook": {"certificates": certificates}})


def webhooks(values: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        webhook
        for one in render(values)
        if one["kind"].endswith("WebhookConfiguration")
        for webhook in one["webhooks"]
    ]


@pytest.mark.parametrize("policy", ["Ignore", "Fail"])
def test_what_becomes_of_virtual_machines_while_no_webhook_answers(policy: str) -> None:
    objects = render({"webhook": {"virtualMachines": {"failurePolicy": policy}}})
    found = {
        webhook["name"]: webhook["failurePolicy"]
        for one in objects
        if one["kind"].endswith("WebhookConfiguration")
        for webhook in one["webhooks"]
    }

    # What requests devices is never stored unseen, whatever is said of the rest.
    assert found["machines.laneway.harvesterhci.io"] == "Fail"
    assert found.pop("kept-machines.laneway.harvesterhci.io") == policy
    assert found.pop("nodes.laneway.harvesterhci.io") == "Ignore"
    # Allocate is the last guard: an unseen pod gets nothing that is claimed.
    assert found.pop("pods.laneway.harvesterhci.io") == "Ignore"
    assert found.pop("vsphere.laneway.harvesterhci.io") == "Ignore"
    assert found.pop("kubevirt-machines.laneway.harvesterhci.io") == "Ignore"
    assert set(found.values()) == {"Fail"}


@pytest.mark.parametrize("hints", [True, False])
def test_pods_prefer_nodes_unless_the_values_say_no(*, hints: bool) -> None:
    (webhook,) = (
        one
        for one in render({"webhook": {"placementHints": hints}})
        if (one["kind"], one["metadata"]["name"]) == ("Deployment", "laneway-webhook")
    )
    (container,) = webhook["spec"]["template"]["spec"]["containers"]
    assert ("--no-placement-hints" in container["args"]) != hints


@pytest.mark.parametrize("policy", ["Ignore", "Fail"])
def test_what_becomes_of_machines_on_vsphere_while_no_webhook_answers(policy: str) -> None:
    found = webhooks({"webhook": {"vsphere": {"failurePolicy": policy}}})

    assert [one["failurePolicy"] for one in found if one["name"].startswith("vsphere.")] == [
        policy,
        policy,
    ]


@pytest.mark.parametrize(
    ("vsphere", "kubevirt", "asked"),
    [
        (True, True, {"vspheremachines", "kubevirtmachinetemplates", "machinedeployments"}),
        (True, False, {"vspheremachines", "machinedeployments"}),
        (False, True, {"kubevirtmachinetemplates", "machinedeployments"}),
        (False, False, set()),
    ],
)
def test_machines_of_cluster_api_are_judged_where_that_is_on(
    vsphere: bool, kubevirt: bool, asked: set[str]
) -> None:
    """And a set that is scaled is judged once."""
    values = {"vsphere": {"enabled": vsphere}, "kubevirtMachines": {"enabled": kubevirt}}
    found = webhooks({"webhook": values})

    resources = [
        resource
        for one in found
        if one["clientConfig"]["service"]["path"].endswith("validation")
        for rule in one["rules"]
        if any(group.endswith("cluster.x-k8s.io") for group in rule["apiGroups"])
        for resource in rule["resources"]
    ]
    assert len(resources) == len(set(resources))
    kinds = {"vspheremachines", "kubevirtmachinetemplates", "machinedeployments"}
    assert kinds & set(resources) == asked


@pytest.mark.parametrize("policy", ["Ignore", "Fail"])
def test_what_becomes_of_machines_on_kubevirt_while_no_webhook_answers(policy: str) -> None:
    found = webhooks({"webhook": {"kubevirtMachines": {"failurePolicy": policy}}})

    [one] = [one for one in found if one["name"].startswith("kubevirt-machines.")]
    assert one["failurePolicy"] == policy


def test_the_manager_writes_capacity_only_where_it_may() -> None:
    """It may change sets of machines only where it is to; a policy says what of them."""

    def found(capacity: bool) -> tuple[bool, bool, bool]:
        objects = render({"manager": {"kubevirtMachines": {"capacity": capacity}}})
        args = pod(objects, "Deployment", "laneway-manager")["containers"][0]["args"]
        rules = find(objects, "ClusterRole", "laneway-manager")["rules"]
        policies = {one["metadata"]["name"] for one in objects if one["kind"].endswith("Policy")}
        return (
            "--machine-capacity" in args,
            any("machinedeployments" in rule["resources"] for rule in rules),
            "laneway-manager-machine-sets" in policies,
        )

    assert found(True) == (True, True, True)
    assert found(False) == (False, False, False)


@pytest.mark.parametrize("inventory", ["warn", "refuse"])
def test_the_webhook_gets_what_to_do_about_devices_that_a_vcenter_lacks(inventory: str) -> None:
    objects = render({"webhook": {"vsphere": {"inventory": inventory}}})
    [container] = find(objects, "Deployment", "laneway-webhook")["spec"]["template"]["spec"][
        "containers"
    ]

    assert f"--vsphere-inventory={inventory}" in container["args"]


def secret_rights(values: Any) -> set[tuple[str, str, str]]:
    """Where which accounts may read which Secrets, of those whose names are not known before."""
    objects = render(values)
    found = set()
    for binding in (one for one in objects if one["kind"].endswith("RoleBinding")):
        role = binding["roleRef"]
        namespace = binding["metadata"].get("namespace", "")
        rules = [
            rule
            for one in objects
            if (one["kind"], one["metadata"]["name"]) == (role["kind"], role["name"])
            and one["metadata"].get("namespace", "") in (namespace, "")
            for rule in one["rules"]
        ]
        about = [rule for rule in rules if "secrets" in rule["resources"]]
        for rule in (one for one in about if "resourceNames" not in one):
            assert rule["verbs"] in (["get"], ["create"]), "nobody lists Secrets"
            for subject in binding["subjects"] if rule["verbs"] == ["get"] else ():
                found.add((namespace, subject["namespace"], subject["name"]))
    return found


@pytest.mark.parametrize("mode", ["alongside", "standalone"])
def test_secrets_are_read_in_the_namespaces_that_are_named_alone(mode: str) -> None:
    values = {"manager": {"vsphere": {"mode": mode, "secretNamespaces": ["a", "123"]}}}

    assert secret_rights(values) == {
        (one, "harvester-system", "laneway-manager") for one in ("a", "123")
    }


@pytest.mark.parametrize("mode", ["alongside", "standalone"])
def test_missing_namespaces_of_secrets_are_refused_with_the_value_to_set(mode: str) -> None:
    with pytest.raises(helm().HelmError, match="secretNamespaces is empty: name the namespaces"):
        render({"manager": {"vsphere": {"mode": mode}}})


def test_without_vsphere_no_secret_is_read_that_is_not_known_by_name() -> None:
    assert secret_rights({"manager": {"vsphere": {"secretNamespaces": ["a"]}}}) == set()


def test_what_adds_vectors_in_workload_clusters_can_be_of_a_registry_of_ones_own() -> None:
    def reported(**vsphere: Any) -> set[str]:
        given = {"vectorAddImage": "r.example/add:1", "secretNamespaces": ["a"]}
        objects = render({"manager": {"vsphere": given | vsphere}})
        return set(pod(objects, "Deployment", "laneway-manager")["containers"][0]["args"])

    flag = "--vsphere-check-image=r.example/add:1"
    assert {flag, "--vsphere-check-nodes"} <= reported(mode="alongside", checkNodes=True)
    for otherwise in ({"mode": "alongside"}, {"checkNodes": True}):
        assert flag not in reported(**otherwise), "the program would refuse it"
    plain = reported(mode="alongside", checkNodes=True, vectorAddImage="")
    assert not [one for one in plain if one.startswith("--vsphere-check-image")]


def test_metrics_are_for_those_who_are_named_and_reviews_for_everybody() -> None:
    peers = [{"namespaceSelector": {"matchLabels": {"a": "b"}}}]
    objects = render({"networkPolicy": {"metricsFrom": peers}})
    rules = find(objects, "NetworkPolicy", "laneway-webhook")["spec"]["ingress"]

    def ports(number: int) -> list[Any]:
        return [{"port": number, "protocol": "TCP"}]

    assert rules == [{"ports": ports(8443)}, {"ports": ports(9642), "from": peers}]
    closed = render({"networkPolicy": {"metricsFrom": []}})
    assert not find(closed, "NetworkPolicy", "laneway-manager")["spec"]["ingress"]
    assert "NetworkPolicy" not in kinds({"networkPolicy": {"enabled": False}})


def test_devices_are_released_before_anything_is_removed_if_that_is_desired() -> None:
    objects = render({"uninstall": {"release": True}})
    job = find(objects, "Job", "laneway-release")
    hooks = {
        (o["kind"], o["metadata"]["annotations"]["helm.sh/hook"])
        for o in objects
        if "helm.sh/hook" in o["metadata"].get("annotations", {})
    }

    assert {hook for _, hook in hooks} == {"pre-delete"}
    assert {"Job", "ServiceAccount", "ClusterRole", "ClusterRoleBinding"} <= {k for k, _ in hooks}
    assert job["spec"]["template"]["spec"]["containers"][0]["args"][:2] == ["release", "--all"]
    # What the Job needs is there before it: smaller weights come first.
    assert int(job["metadata"]["annotations"]["helm.sh/hook-weight"]) > 0
    assert "Job" not in kinds({})
