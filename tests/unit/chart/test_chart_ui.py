"""The web interface on a cluster reads what it shows, and its rights write nothing."""

from __future__ import annotations

from laneway.kube.client import Client
from laneway.kube.cluster import Cluster, ClusterConfig
from laneway.web.caches import Caches
from support.chart import VALUES, find, render

BEHIND_AN_INGRESS = "the web interface behind an Ingress"


def test_it_is_there_only_where_it_is_asked_for() -> None:
    names = {one["metadata"]["name"] for one in render()}

    assert not {name for name in names if name.startswith("laneway-ui")}


async def test_it_may_read_what_it_follows_and_write_nothing() -> None:
    async with Client(ClusterConfig(Cluster("http://127.0.0.1:1"))) as client:
        followed = {
            (one.resource.group, one.resource.plural) for one in Caches.of(client).all.values()
        }
    rules = find(render({"ui": {"enabled": True}}), "ClusterRole", "laneway-ui")["rules"]

    assert {verb for rule in rules for verb in rule["verbs"]} == {"list", "watch"}
    readable = {(g, r) for rule in rules for g in rule["apiGroups"] for r in rule["resources"]}
    assert readable == followed


def test_its_traffic_is_encrypted_up_to_the_pod_where_it_has_a_certificate() -> None:
    objects = render(VALUES[BEHIND_AN_INGRESS])

    spec = find(objects, "Deployment", "laneway-ui")["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert "--tls-cert-file=/tls/tls.crt" in container["args"]
    volumes = {one["name"]: one for one in spec["volumes"]}
    assert set(volumes) == {"history", "tls", "oidc-secret", "oidc-ca", "management"}
    assert "--management-kubeconfig=/management/kubeconfig" in container["args"]
    assert "--management-context=local" in container["args"]
    assert {"--history-dir=/history", "--history-days=30", "--history-size=64"} <= set(
        container["args"]
    )
    assert volumes["history"]["persistentVolumeClaim"] == {"claimName": "laneway-history"}
    assert volumes["management"]["secret"] == {"secretName": "rancher"}
    (port,) = find(objects, "Service", "laneway-ui")["spec"]["ports"]
    assert (port["name"], port["port"]) == ("https", 443)
    ingress = find(objects, "Ingress", "laneway-ui")["spec"]
    assert ingress["tls"] == [{"hosts": ["laneway.example"], "secretName": "laneway-example-tls"}]
    backend = ingress["rules"][0]["http"]["paths"][0]["backend"]["service"]
    assert backend == {"name": "laneway-ui", "port": {"name": "https"}}
