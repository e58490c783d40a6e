"""The built-in kinds' own ways: status, scale, binding, defaults, and what they refuse."""

from __future__ import annotations

import base64
from typing import Any

import pytest

LABELS = {"app": "x"}
POD = {"containers": [{"name": "main", "image": "example.com/app:1"}]}
WORKLOAD = {
    "selector": {"matchLabels": LABELS},
    "template": {"metadata": {"labels": LABELS}, "spec": POD},
}


async def make(kube: Any, plural: str, **fields: Any) -> Any:
    resource = kube.of(plural)
    return (await kube.post(resource.path(), resource.new("x", **fields))).ok


def within(part: Any, whole: Any) -> bool:
    """Whether everything that `part` says is so in `whole`."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(within(v, whole.get(k)) for k, v in part.items())
    if isinstance(part, list):
        return isinstance(whole, list) and len(part) == len(whole) and all(map(within, part, whole))
    return bool(part == whole)


DEFAULTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "pods": (
        {"spec": POD},
        {
            "spec": {
                "restartPolicy": "Always",
                "terminationGracePeriodSeconds": 30,
                "dnsPolicy": "ClusterFirst",
                "schedulerName": "default-scheduler",
                "securityContext": {},
                "enableServiceLinks": True,
                "containers": [
                    {
                        "imagePullPolicy": "IfNotPresent",
                        "terminationMessagePath": "/dev/termination-log",
                        "terminationMessagePolicy": "File",
                        "resources": {},
                    }
                ],
            },
            "status": {"phase": "Pending", "qosClass": "BestEffort"},
        },
    ),
    "services": (
        {"spec": {"ports": [{"port": 80}]}},
        {
            "spec": {
                "type": "ClusterIP",
                "sessionAffinity": "None",
                "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
            },
            "status": {"loadBalancer": {}},
        },
    ),
    "deployments": (
        {"spec": WORKLOAD},
        {
            "metadata": {"generation": 1},
            "spec": {
                "replicas": 1,
                "progressDeadlineSeconds": 600,
                "revisionHistoryLimit": 10,
                "strategy": {
                    "type": "RollingUpdate",
                    "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"},
                },
                "template": {"spec": {"restartPolicy": "Always"}},
            },
        },
    ),
    "daemonsets": (
        {"spec": WORKLOAD},
        {
            "metadata": {"generation": 1},
            "spec": {
                "revisionHistoryLimit": 10,
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}},
            },
        },
    ),
    "secrets": (
        {"stringData": {"a": "text"}},
        {"type": "Opaque", "data": {"a": base64.b64encode(b"text").decode()}, "stringData": None},
    ),
}


@pytest.mark.whole_kubernetes
@pytest.mark.parametrize("plural", DEFAULTS)
async def test_defaults_of_built_in_kinds(kube: Any, plural: str) -> None:
    sent, expected = DEFAULTS[plural]

    made = await make(kube, plural, **sent)

    assert within(expected, made), made


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("pods", {"spec": {"containers": []}}, "spec.containers"),
    ("pods", {"spec": {"containers": [{"name": "A", "image": "i"}]}}, "spec.containers[0].name"),
    ("pods", {"spec": {"containers": [{"name": "a"}]}}, "spec.containers[0].image"),
    ("pods", {"spec": {**POD, "restartPolicy": "Maybe"}}, "spec.restartPolicy"),
    ("services", {"spec": {}}, "spec.ports"),
    ("services", {"spec": {"ports": [{"port": 70000}]}}, "spec.ports[0].port"),
    ("services", {"spec": {"type": "Odd", "ports": [{"port": 80}]}}, "spec.type"),
    ("deployments", {"spec": {**WORKLOAD, "selector": {}}}, "spec.selector"),
    (
        "deployments",
        {"spec": {**WORKLOAD, "selector": {"matchLabels": {"app": "y"}}}},
        "spec.template.metadata.labels",
    ),
    ("deployments", {"spec": {**WORKLOAD, "replicas": -1}}, "spec.replicas"),
    ("secrets", {"type": "kubernetes.io/tls"}, "data[tls.crt]"),
    ("secrets", {"data": {"a/b": ""}}, "data[a/b]"),
    ("configmaps", {"data": {"a": "1"}, "binaryData": {"a": "MQ=="}}, "data[a]"),
    ("roles", {"rules": [{"verbs": ["get"]}]}, "rules[0].apiGroups"),
    ("roles", {"rules": [{"apiGroups": [""], "resources": ["x"]}]}, "rules[0].verbs"),
    ("rolebindings", {}, "roleRef.name"),
    ("leases", {"spec": {"leaseDurationSeconds": 0}}, "spec.leaseDurationSeconds"),
]


@pytest.mark.whole_kubernetes
@pytest.mark.parametrize(("plural", "fields", "field"), REFUSED)
async def test_what_built_in_kinds_refuse(
    kube: Any, plural: str, fields: dict[str, Any], field: str
) -> None:
    resource = kube.of(plural)

    answer = await kube.post(resource.path(), resource.new("x", **fields))

    assert answer.refusal[:2] == (422, "Invalid")
    assert field in {cause[0] for cause in answer.causes}, answer.causes


STAYS: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    (
        "deployments",
        {"spec": WORKLOAD},
        {"spec": {"selector": {"matchLabels": {"b": "c"}}}},
        "spec.selector",
    ),
    ("secrets", {"type": "Opaque"}, {"type": "other"}, "type"),
    ("secrets", {"immutable": True}, {"data": {"a": "MQ=="}}, "data"),
    ("configmaps", {"immutable": True}, {"data": {"a": "1"}}, "data"),
    ("configmaps", {"immutable": True}, {"immutable": False}, "immutable"),
    ("pods", {"spec": POD}, {"spec": {"restartPolicy": "Never"}}, "spec"),
    # not to another address, which chance may have given to this very service
    ("services", {"spec": {"ports": [{"port": 80}]}}, {"spec": {"clusterIP": "None"}}, "spec"),
]


@pytest.mark.whole_kubernetes
@pytest.mark.parametrize(("plural", "fields", "change", "field"), STAYS)
async def test_what_cannot_be_changed_later(
    kube: Any, plural: str, fields: Any, change: Any, field: str
) -> None:
    await make(kube, plural, **fields)

    answer = await kube.patch(kube.of(plural).path("x"), change)

    assert answer.refusal[:2] == (422, "Invalid")
    assert any(cause[0].startswith(field) for cause in answer.causes), answer.causes


@pytest.mark.parametrize(
    ("plural", "fields", "status"),
    [
        ("pods", {"spec": POD}, {"phase": "Running"}),
        ("deployments", {"spec": WORKLOAD}, {"replicas": 1, "observedGeneration": 1}),
        (
            "daemonsets",
            {"spec": WORKLOAD},
            {
                "currentNumberScheduled": 1,
                "desiredNumberScheduled": 1,
                "numberMisscheduled": 0,
                "numberReady": 1,
            },
        ),
        (
            "services",
            {"spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}},
            {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}},
        ),
    ],
)
async def test_status_has_a_path_of_its_own(
    kube: Any, plural: str, fields: Any, status: Any
) -> None:
    made = await make(kube, plural, **fields, status=status)
    assert not within(status, made.get("status"))
    resource = kube.of(plural)

    done = (await kube.patch(resource.path("x", "status"), {"status": status})).ok

    assert within(status, done["status"])
    done["metadata"]["labels"] = {"by": "status"}
    done["spec"]["other"] = 1
    after = (await kube.put(resource.path("x", "status"), done)).ok
    assert after["spec"] == made["spec"]
    assert (await kube.get(resource.path("x", "status"))).ok["status"] == done["status"]


async def test_nodes_report_their_status(kube: Any) -> None:
    nodes = kube.of("nodes")
    await kube.outside(nodes, nodes.new(kube.name()))
    condition = {"type": "Ready", "status": "True", "reason": "Up"}
    status = {"capacity": {"cpu": "2"}, "conditions": [condition]}

    change = {"status": status}
    done = await kube.patch(nodes.path(kube.name(), "status"), change, "strategic")

    assert within(status, done.ok["status"])
    more = {"status": {"conditions": [{"type": "Disk", "status": "False"}]}}
    merged = (await kube.patch(nodes.path(kube.name(), "status"), more, "strategic")).ok
    assert sorted(c["type"] for c in merged["status"]["conditions"]) == ["Disk", "Ready"]


@pytest.mark.whole_kubernetes
async def test_a_deployment_can_be_scaled(kube: Any) -> None:
    await make(kube, "deployments", spec={**WORKLOAD, "replicas": 2})
    path = kube.of("deployments").path("x", "scale")

    scale = (await kube.get(path)).ok

    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert scale["spec"] == {"replicas": 2}
    assert scale["status"] == {"replicas": 0, "selector": "app=x"}
    assert (await kube.patch(path, {"spec": {"replicas": 4}})).ok["spec"] == {"replicas": 4}
    after = (await kube.get(kube.of("deployments").path("x"))).ok
    assert after["spec"]["replicas"] == 4
    assert after["metadata"]["generation"] == 2
    scale["spec"]["replicas"] = 5
    assert (await kube.put(path, scale)).refusal[:2] == (409, "Conflict")
    assert (await kube.patch(path, {"spec": {"replicas": -1}})).refusal[:2] == (422, "Invalid")


@pytest.mark.whole_kubernetes
async def test_a_pod_is_bound_to_a_node_once(kube: Any) -> None:
    await make(kube, "pods", spec=POD)
    pods = kube.of("pods")
    target = {"apiVersion": "v1", "kind": "Node", "name": "n1"}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "x"}, "target": target}

    bound = await kube.post(pods.path("x", "binding"), binding)

    assert bound.status == 201
    assert (bound.json["kind"], bound.json["status"]) == ("Status", "Success")
    pod = (await kube.get(pods.path("x"))).ok
    assert pod["spec"]["nodeName"] == "n1"
    states = {c["type"]: c["status"] for c in pod["status"]["conditions"]}
    assert states["PodScheduled"] == "True"
    code, reason, message = (await kube.post(pods.path("x", "binding"), binding)).refusal
    assert (code, reason) == (409, "Conflict")
    assert 'pod x is already assigned to node "n1"' in message


@pytest.mark.whole_kubernetes
async def test_a_dry_eviction_evicts_nothing(kube: Any) -> None:
    pod = await make(kube, "pods", spec=POD)
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    path = kube.of("pods").path(name)
    group = "policy/v1" if kube.minor >= 22 else "policy/v1beta1"
    body = {"apiVersion": group, "kind": "Eviction", "metadata": {"name": name}}

    for params in ({"dryRun": "All"}, {}):
        sent = body if params else {**body, "deleteOptions": {"dryRun": ["All"]}}
        assert (await kube.call("POST", f"{path}/eviction", sent, **params)).status == 201
        assert (await kube.get(path)).ok["metadata"]["uid"] == pod["metadata"]["uid"], namespace


@pytest.mark.whole_kubernetes
async def test_a_disruption_budget_refuses_what_it_does_not_allow(kube: Any) -> None:
    kube.needs(21, "disruption budgets of v1")
    pods, budgets = kube.of("pods"), kube.of("poddisruptionbudgets")
    for name in ("a", "b"):
        body = {"metadata": {"name": name, "labels": {"app": "db"}}, "spec": POD}
        await kube.post(pods.path(), body)
        running = {"status": {"phase": "Running"}}
        (await kube.patch(pods.path(name, "status"), running)).ok
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "db"}}}
    (await kube.post(budgets.path(), {"metadata": {"name": "db"}, "spec": spec})).ok

    async def evict(name: str) -> Any:
        body = {"metadata": {"name": name}}  # of whatever version the server has
        return await kube.post(pods.path(name, "eviction"), body)

    unknown = await evict("a")
    assert unknown.refusal[:2] == (429, "TooManyRequests")  # no controller has counted yet
    counted = {
        "observedGeneration": 1,
        "disruptionsAllowed": 1,
        "currentHealthy": 2,
        "desiredHealthy": 1,
        "expectedPods": 2,
    }
    (await kube.patch(budgets.path("db", "status"), {"status": counted})).ok

    assert (await evict("a")).status == 201
    refused = await evict("b")

    assert refused.refusal[:2] == (429, "TooManyRequests")
    assert refused.json["details"]["causes"][0]["message"] == (
        "The disruption budget db needs 1 healthy pods and has 2 currently"
    )
    assert (await kube.get(pods.path("b"))).status == 200


@pytest.mark.whole_kubernetes
@pytest.mark.parametrize("spec", ["x", 5, [], {"replicas": "x"}, {"replicas": 1.5}])
async def test_a_scale_must_be_one(kube: Any, spec: Any) -> None:
    deployment = await make(kube, "deployments", spec={**WORKLOAD, "replicas": 2})
    path = kube.of("deployments").path(deployment["metadata"]["name"], "scale")
    scale = (await kube.get(path)).ok

    assert (await kube.put(path, {**scale, "spec": spec})).refusal[:2] == (400, "BadRequest")
    assert 400 <= (await kube.patch(path, {"spec": spec})).status < 500
    assert (await kube.get(path)).ok["spec"] == scale["spec"]


@pytest.mark.parametrize(
    "change",
    [{"target": "n"}, {"target": {}}, {"metadata": "x"}, {"metadata": {"annotations": ["x"]}}],
)
async def test_a_binding_must_be_one(kube: Any, change: Any) -> None:
    pod = await make(kube, "pods", spec=POD)
    path = kube.of("pods").path(pod["metadata"]["name"])
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {}, "target": {"name": "n"}}

    refused = await kube.post(f"{path}/binding", {**body, **change})

    assert 400 <= refused.status < 500
    assert "nodeName" not in (await kube.get(path)).ok["spec"]


async def test_a_generation_counts_changes_of_the_desired_state(kube: Any) -> None:
    await make(kube, "deployments", spec=WORKLOAD)
    path = kube.of("deployments").path("x")

    async def generation(change: dict[str, Any]) -> int:
        return (await kube.patch(path, change)).ok["metadata"]["generation"]

    assert await generation({"metadata": {"labels": {"a": "b"}}}) == 1
    assert await generation({"spec": {"replicas": 3}}) == 2
    assert await generation({"spec": {"replicas": 3}}) == 2


@pytest.mark.whole_kubernetes
async def test_a_service_has_an_address_of_its_own(kube: Any) -> None:
    first = await make(kube, "services", spec={"ports": [{"port": 80}]})
    services = kube.of("services")
    body = services.new("y", spec={"ports": [{"port": 80}]})
    second = (await kube.post(services.path(), body)).ok
    headless = services.new("z", spec={"clusterIP": "None", "ports": [{"port": 80}]})

    assert first["spec"]["clusterIP"] != second["spec"]["clusterIP"]
    assert (await kube.post(services.path(), headless)).ok["spec"]["clusterIP"] == "None"
    taken = services.new("t", spec=second["spec"])
    assert (
        "provided IP is already allocated" in (await kube.post(services.path(), taken)).refusal[2]
    )


@pytest.mark.whole_kubernetes
async def test_events_are_one_thing_in_two_groups(kube: Any) -> None:
    now = "2026-01-01T00:00:00.000000Z"
    body = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "x"},
        "eventTime": now,
        "reportingController": "laneway.example/agent",
        "reportingInstance": "agent-1",
        "action": "Paint",
        "reason": "Painted",
        "type": "Normal",
        "note": "it is blue",
        "regarding": {"kind": "Pod", "name": "p", "namespace": kube.namespace},
    }
    path = f"/apis/events.k8s.io/v1/namespaces/{kube.namespace}/events"

    made = (await kube.post(path, body)).ok

    assert (made["note"], made["regarding"]["name"]) == ("it is blue", "p")
    core = (await kube.get(kube.of("events").path("x"))).ok
    assert core["apiVersion"] == "v1"
    assert (core["message"], core["involvedObject"]["name"]) == ("it is blue", "p")
    assert (core["reportingComponent"], core["reportingInstance"]) == (
        "laneway.example/agent",
        "agent-1",
    )


@pytest.mark.parametrize("field", ["reason", "type", "involvedObject.name"])
async def test_events_are_found_by_field(kube: Any, field: str) -> None:
    events = kube.of("events")
    for name, kind in (("x", "Normal"), ("y", "Warning")):
        involved = {"kind": "Pod", "name": f"p-{name}", "namespace": kube.namespace}
        body = events.new(name, involvedObject=involved, reason=f"Because-{name}", type=kind)
        (await kube.post(events.path(), body)).ok
    value = {"reason": "Because-x", "type": "Normal", "involvedObject.name": "p-x"}[field]

    found = (await kube.get(events.path(), fieldSelector=f"{field}={value}")).ok["items"]

    assert [item["metadata"]["name"] for item in found] == ["x"]


@pytest.mark.whole_kubernetes
async def test_an_event_is_of_the_namespace_that_it_is_about(kube: Any) -> None:
    events = kube.of("events")
    body = events.new("x", involvedObject={"kind": "Pod", "name": "p", "namespace": "default"})

    assert (await kube.post(events.path(), body)).refusal[:2] == (422, "Invalid")


@pytest.mark.parametrize(
    ("plural", "field", "value"),
    [
        ("pods", "spec.nodeName", "n1"),
        ("pods", "status.phase", "Pending"),
        pytest.param("pods", "spec.restartPolicy", "Always", marks=pytest.mark.whole_kubernetes),
        ("secrets", "type", "Opaque"),
        ("namespaces", "status.phase", "Active"),
    ],
)
async def test_fields_that_select(kube: Any, plural: str, field: str, value: str) -> None:
    if plural == "pods":
        await make(kube, "pods", spec={**POD, "nodeName": "n1"})
    elif plural == "secrets":
        await make(kube, "secrets")
    path = kube.of(plural).path()

    found = (await kube.get(path, fieldSelector=f"{field}={value}")).ok["items"]
    others = (await kube.get(path, fieldSelector=f"{field}!={value}")).ok["items"]

    mine = {"x", kube.namespace}
    assert mine & {item["metadata"]["name"] for item in found}
    assert not mine & {item["metadata"]["name"] for item in others}
