"""What the chart installs to judge machine pools: in a management cluster, and in Harvester's."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from prometheus_client import CollectorRegistry

from kapilite.cel.program import CALL_LIMIT, Budget, program
from laneway.admission.machine_pools.harvesters import FollowedHarvesters
from laneway.admission.machine_pools.kinds import PoolRules
from laneway.admission.machine_pools.managed import ManagedSource
from laneway.admission.machine_pools.metrics import PoolMetrics
from laneway.controllers.machine_pools.following import Informers
from laneway.kube.access import REVIEWS
from laneway.kube.client import Client
from laneway.kube.cluster import Cluster, ClusterConfig
from support.chart import MANAGEMENT, NAMESPACE, Object, find, render

NAME, READER = "laneway-pools-webhook", "laneway-pools-reader"
NOWHERE = ClusterConfig(Cluster("http://127.0.0.1:1"))


def readable(role: Object) -> set[tuple[str, str]]:
    return {
        (group, resource)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


@pytest.fixture
def configuration() -> Object:
    return find(render(MANAGEMENT), "ValidatingWebhookConfiguration", NAME)


def test_a_management_cluster_gets_nothing_else() -> None:
    objects = render(MANAGEMENT)
    others = {(one["kind"], one["metadata"]["name"]) for one in objects}
    others = {(kind, name) for kind, name in others if not name.startswith(NAME)}
    expected = {"PriorityClass", "ServiceMonitor", "PrometheusRule"}
    assert others == {(kind, "laneway") for kind in expected}
    assert not [one for one in objects if one["kind"] == "MutatingWebhookConfiguration"]


def test_accounts_may_list_and_watch_what_is_followed_and_nothing_else() -> None:
    role = find(render(MANAGEMENT), "ClusterRole", NAME)
    reader = find(render({"machinePools": {"reader": {"enabled": True}}}), "ClusterRole", READER)
    client = Client(NOWHERE)
    followed = {
        (one.resource.group, one.resource.plural)
        for one in ManagedSource(client).informers.values()
    }
    *lists, asks = role["rules"]
    assert readable({"rules": lists}) == followed
    assert readable({"rules": [asks]}) == {(REVIEWS.group, REVIEWS.plural)}
    assert asks["verbs"] == ["create"]
    assert readable(reader) == {
        (one.resource.group, one.resource.plural) for one in Informers.of(client).all
    }
    for rule in (*lists, *reader["rules"]):
        assert rule["verbs"] == ["list", "watch"]


def test_what_is_asked_about_is_what_is_judged(configuration: Object, tmp_path: Path) -> None:
    asked = {
        (group, resource)
        for webhook in configuration["webhooks"]
        for rule in webhook["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    metrics = PoolMetrics(CollectorRegistry())
    managed = ManagedSource(Client(NOWHERE))
    rules = PoolRules(managed, FollowedHarvesters(str(tmp_path), metrics), metrics)
    assert asked == set(rules.kinds)


def test_writes_never_depend_on_the_webhook(configuration: Object) -> None:
    service = find(render(MANAGEMENT), "Service", NAME)
    for webhook in configuration["webhooks"]:
        assert webhook["failurePolicy"] == "Ignore"
        assert webhook["timeoutSeconds"] <= 5
        [rule] = webhook["rules"]
        assert rule["operations"] == ["CREATE", "UPDATE"]
        assert webhook["clientConfig"]["service"] == {
            "name": service["metadata"]["name"],
            "namespace": NAMESPACE,
            "path": "/v1/webhook/validation",
            "port": service["spec"]["ports"][0]["port"],
        }


def test_the_certificate_is_good_for_the_service_and_trusted(configuration: Object) -> None:
    secret = find(render(MANAGEMENT), "Secret", f"{NAME}-tls")
    read = {name: base64.b64decode(text) for name, text in secret["data"].items()}
    leaf = x509.load_pem_x509_certificate(read["tls.crt"])
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == [f"{NAME}.{NAMESPACE}.svc"]
    leaf.verify_directly_issued_by(x509.load_pem_x509_certificate(read["ca.crt"]))
    for webhook in configuration["webhooks"]:
        assert base64.b64decode(webhook["clientConfig"]["caBundle"]) == read["ca.crt"]


@pytest.mark.parametrize("certificates", ["cert-manager", "none"])
def test_others_may_make_the_certificate(certificates: str) -> None:
    objects = render({"machinePools": {"webhook": {"enabled": True, "certificates": certificates}}})
    configuration = find(objects, "ValidatingWebhookConfiguration", NAME)
    assert all("caBundle" not in one["clientConfig"] for one in configuration["webhooks"])
    assert f"{NAME}-tls" not in {o["metadata"]["name"] for o in objects if o["kind"] == "Secret"}
    injected = configuration["metadata"].get("annotations", {}).values()
    if certificates == "cert-manager":
        certificate = find(objects, "Certificate", NAME)
        assert list(injected) == [f"{NAMESPACE}/{certificate['metadata']['name']}"]
        assert certificate["spec"]["secretName"] == f"{NAME}-tls"


POOL = {"machineConfigRef": {"kind": "HarvesterConfig", "name": "nc"}, "quantity": 1}
OTHER = {"machineConfigRef": {"kind": "Amazonec2Config", "name": "nc"}}


def cluster(*pools: Any, **metadata: Any) -> Object:
    return {"metadata": metadata, "spec": {"rkeConfig": {"machinePools": list(pools)}}}


def config(metadata: Any = None, **fields: Any) -> Object:
    return {"metadata": metadata or {}, **fields}


@pytest.mark.parametrize(
    ("which", "new", "old", "is_asked"),
    [
        ("clusters", cluster(POOL), None, True),
        ("clusters", cluster(POOL), cluster({**POOL, "quantity": 2}), True),
        ("clusters", cluster(OTHER, POOL), cluster(OTHER), True),
        ("clusters", cluster(POOL, labels={"a": "b"}), cluster(POOL), False),
        ("clusters", {**cluster(POOL), "status": {"ready": True}}, cluster(POOL), False),
        ("clusters", cluster(POOL, POOL, deletionTimestamp="now"), cluster(POOL), False),
        ("clusters", cluster(OTHER), None, False),
        ("clusters", {"metadata": {}, "spec": {}}, None, False),
        ("clusters", {"metadata": {}, "spec": {"rkeConfig": None}}, None, False),
        ("clusters", {"metadata": {}, "spec": {"rkeConfig": {"machinePools": None}}}, None, False),
        ("clusters", cluster({"name": "gpu"}, {"machineConfigRef": None}), None, False),
        ("configs", config(vgpuInfo="{"), None, True),
        ("configs", config(vgpuInfo=""), config(vgpuInfo="{"), True),
        ("configs", config(), config(vgpuInfo="{"), True),
        ("configs", config(imageName="b"), config(imageName="a"), True),
        ("configs", config({"labels": {"a": "b"}}, vgpuInfo="a"), config(vgpuInfo="a"), False),
        ("configs", config(common={"labels": {"a": "b"}}), config(), False),
        ("configs", config({"deletionTimestamp": "now"}, a="b"), config(), False),
    ],
)
def test_only_writes_that_ask_for_something_are_asked_about(
    configuration: Object, which: str, new: Object, old: Object | None, is_asked: bool
) -> None:
    name = f"{which}.pools.laneway.harvesterhci.io"
    [webhook] = [one for one in configuration["webhooks"] if one["name"] == name]
    scope = {"object": new, "oldObject": old}
    found = [
        program(one["expression"]).evaluate(scope, Budget(CALL_LIMIT))
        for one in webhook["matchConditions"]
    ]
    assert all(found) is is_asked
