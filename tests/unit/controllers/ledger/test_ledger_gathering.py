"""The ledger of changed objects is that of all objects that there are, whatever changed before."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from laneway.api import decode
from laneway.controllers.cluster.caches import Caches
from laneway.controllers.ledger import demands, devices, nodes
from laneway.controllers.ledger.gathering import Gathering
from laneway.controllers.ledger.objects import asks
from laneway.core.ledger.build import build
from laneway.core.ledger.facts import Facts
from laneway.core.ledger.ledger import Ledger
from laneway.core.ledger.upkeep import Upkeep
from laneway.kube.client import Client
from laneway.kube.cluster import Cluster, ClusterConfig
from laneway.kube.kubevirt import LABEL_CREATED_BY
from laneway.kube.resource import Key

NAMES, RESOURCES = st.sampled_from("abc"), st.sampled_from(["r/a", "r/b"])
NODES = st.sampled_from(["", "n1", "n2"])


def vm(name: str, strategy: str, asked: list[str], *, leaving: bool) -> Any:
    spec = {"runStrategy": strategy, "template": {"spec": _domain(asked)}}
    gone = {"deletionTimestamp": "2026"} if leaving else {}
    return "vms", name, {"metadata": gone, "spec": spec}


def instance(name: str, phase: str, node: str, asked: list[str]) -> Any:
    body = {
        "metadata": {"uid": f"u{name}"},
        "spec": _domain(asked),
        "status": {"phase": phase, "nodeName": node},
    }
    return "instances", name, body


def pod(name: str, phase: str, node: str, uid: str, resource: str) -> Any:
    container = {"resources": {"limits": {resource: "1"}}}
    body = {
        "metadata": {"labels": {LABEL_CREATED_BY: uid} if uid else {}},
        "spec": {"nodeName": node, "containers": [container]},
        "status": {"phase": phase},
    }
    return "pods", name, body


def claim(name: str, node: str, resource: str, holder: str) -> Any:
    status: dict[str, Any] = {
        "resourceName": resource,
        "conditions": [{"type": "Advertised", "status": "True"}],
    }
    if holder:
        status["allocation"] = {"namespace": "", "virtualMachine": holder}
    return "claims", name, {"spec": {"nodeName": node}, "status": status}


def _domain(asked: list[str]) -> dict[str, Any]:
    found = [{"name": f"d{at}", "deviceName": one} for at, one in enumerate(asked)]
    return {"domain": {"devices": {"hostDevices": found}}}


ASKED = st.lists(RESOURCES, max_size=2)
UIDS = st.sampled_from(["", "ua", "ub"])
PHASES = st.sampled_from(["Pending", "Running", "Succeeded"])
CHANGES = st.one_of(
    st.builds(vm, NAMES, st.sampled_from(["Always", "Halted"]), ASKED, leaving=st.booleans()),
    st.builds(instance, NAMES, PHASES, NODES, ASKED),
    st.builds(pod, NAMES, PHASES, NODES, UIDS, st.sampled_from(["r/a", "r/b", "cpu"])),
    st.builds(claim, st.sampled_from("stuvw"), NODES, RESOURCES, st.sampled_from(["", "", "a"])),
    st.tuples(st.just("nodes"), st.sampled_from(["n1", "n2"]), st.just({})),
    st.tuples(st.sampled_from(["vms", "instances", "pods"]), NAMES, st.none()),
    st.tuples(st.just("claims"), st.sampled_from("stuvw"), st.none()),
)


def change(caches: Caches, kind: str, name: str, body: dict[str, Any] | None) -> None:
    informer: Any = caches.all[kind]
    if body is None:
        informer._remove(Key("", name))
        return
    body = {**body, "metadata": {**body.get("metadata", {}), "name": name}}
    obj = decode(informer.resource.type, body)
    informer._notify(informer.store.put(obj), obj)


def from_scratch(caches: Caches) -> Ledger:
    there = tuple(
        fact for one in caches.claims.store if (fact := devices.of_claim(one)) is not None
    )
    resources = {device.resource for device in there}
    pods = [pod for pod in caches.pods.store if asks(pod)]
    asking = (
        *demands.of_vms(caches.vms.store, caches.instances.store, pods),
        *(one for pod in pods if (one := demands.of_pod(pod, resources)) is not None),
    )
    return build(Facts(there, asking, tuple(map(nodes.of_node, caches.nodes.store))))


@given(st.lists(st.lists(CHANGES, min_size=1, max_size=6), max_size=8))
def test_changes_give_the_ledger_of_all_objects(steps: list[list[Any]]) -> None:
    caches = Caches.of(Client(ClusterConfig(Cluster("http://127.0.0.1:1"))))
    gathering = Gathering(
        lambda: None,
        vms=caches.vms,
        instances=caches.instances,
        pods=caches.pods,
        nodes=caches.nodes,
    )
    gathering.follow("claim", caches.claims, devices.of_claim)
    upkeep = Upkeep()
    for step in steps:
        for kind, name, body in step:
            change(caches, kind, name, body)
        assert upkeep.apply(gathering.take()) == from_scratch(caches)


def test_a_pod_requests_a_device_of_a_resource_that_comes_later() -> None:
    test_changes_give_the_ledger_of_all_objects.hypothesis.inner_test(
        [[pod("a", "Running", "n1", "", "r/a")], [claim("s", "n1", "r/a", "")]]
    )
