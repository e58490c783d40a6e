"""What the webhook may read is what it looks at, and nothing else."""

from __future__ import annotations

from laneway.admission.caches import Informers
from laneway.kube.client import Client
from laneway.kube.cluster import Cluster, ClusterConfig
from support.chart import Object, find


async def test_the_webhook_may_read_what_it_follows(rendered: list[Object]) -> None:
    async with Client(ClusterConfig(Cluster("http://127.0.0.1:1"))) as client:
        followed = {
            (one.resource.group, one.resource.plural) for one in Informers.of(client).all.values()
        }
    role = find(rendered, "ClusterRole", "laneway-webhook")
    readable = {
        (group, resource)
        for rule in role["rules"]
        if set(rule["verbs"]) == {"list", "watch"}
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }

    assert readable == followed
