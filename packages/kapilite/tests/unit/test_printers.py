"""The cells of built-in kinds that are computed read as on a cluster."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapilite import builtin
from kapilite.builtin import convert
from kapilite.printers.tables import render

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
READY = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
KINDS = {kind.kind: kind for kind in builtin.KINDS if kind.group != "events.k8s.io"}


def cells(kind: str, obj: dict[str, Any]) -> dict[str, Any]:
    table = render(KINDS[kind], [obj], now=NOW)
    names = [column["name"] for column in table["columnDefinitions"]]
    return dict(zip(names, table["rows"][0]["cells"], strict=True))


@pytest.mark.parametrize(
    ("node", "shown"),
    [
        (READY, "Ready"),
        (READY | {"spec": {"unschedulable": True}}, "Ready,SchedulingDisabled"),
        ({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}, "NotReady"),
        ({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}, "NotReady"),
        ({"status": {"conditions": [{"type": "DiskPressure", "status": "True"}]}}, "Unknown"),
        ({"status": {"conditions": None}}, "Unknown"),
        ({"spec": {"unschedulable": True}}, "Unknown,SchedulingDisabled"),
        ({}, "Unknown"),
    ],
)
def test_the_status_of_a_node(node: dict[str, Any], shown: str) -> None:
    assert cells("Node", node)["Status"] == shown


@pytest.mark.parametrize(
    ("labels", "shown"),
    [
        ({}, "<none>"),
        ({"kubernetes.io/hostname": "n1"}, "<none>"),
        ({"node-role.kubernetes.io/": ""}, "<none>"),
        (
            {"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/etcd": "true"},
            "etcd,worker",
        ),
    ],
)
def test_the_roles_of_a_node(labels: dict[str, str], shown: str) -> None:
    assert cells("Node", {"metadata": {"labels": labels}})["Roles"] == shown


@pytest.mark.parametrize(
    ("about", "shown"),
    [
        ({"kind": "VGPUDevice", "name": "n1-000008004"}, "vgpudevice/n1-000008004"),
        ({"kind": "Node"}, "node"),
        ({}, ""),
    ],
)
def test_the_object_of_an_event(about: dict[str, str], shown: str) -> None:
    assert cells("Event", {"involvedObject": about})["Object"] == shown


def test_an_event_reads_the_same_in_both_groups() -> None:
    event = {
        "involvedObject": {"kind": "Pod", "name": "p", "fieldPath": "spec.containers{a}"},
        "message": " why ",
        "reason": "R",
        "type": "Normal",
        "count": 3,
        "source": {"component": "c", "host": "h"},
        "firstTimestamp": "2026-01-02T03:00:05Z",
        "lastTimestamp": "2026-01-02T03:04:00Z",
        "metadata": {"name": "e"},
    }
    new = next(kind for kind in builtin.KINDS if kind.group == "events.k8s.io")
    rows = [
        render(kind, [convert.to_view(kind, event)], now=NOW)["rows"][0]["cells"]
        for kind in (KINDS["Event"], new)
    ]
    assert rows[0] == rows[1]
    assert rows[0][:6] == ["5s", "Normal", "R", "pod/p", "spec.containers{a}", "c, h"]
    assert rows[0][6:] == ["why", "4m", 3, "e"]


def waiting(reason: str) -> dict[str, Any]:
    return {"state": {"waiting": {"reason": reason}}}


UP = {"ready": True, "state": {"running": {}}}


@pytest.mark.parametrize(
    ("status", "word"),
    [
        ({"phase": "Pending"}, "Pending"),
        ({"phase": "Running", "containerStatuses": [UP]}, "Running"),
        ({"phase": "Pending", "containerStatuses": [waiting("ErrImagePull")]}, "ErrImagePull"),
        (
            {
                "phase": "Failed",
                "containerStatuses": [{"state": {"terminated": {"exitCode": 3}}}],
            },
            "ExitCode:3",
        ),
        (
            {
                "phase": "Succeeded",
                "containerStatuses": [
                    {"state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}
                ],
            },
            "Completed",
        ),
        ({"phase": "Pending", "initContainerStatuses": [{"state": {}}]}, "Init:0/2"),
        (
            {"phase": "Pending", "initContainerStatuses": [waiting("CrashLoopBackOff")]},
            "Init:CrashLoopBackOff",
        ),
        ({"phase": "Failed", "reason": "Evicted"}, "Evicted"),
    ],
)
def test_the_status_of_a_pod(status: dict[str, Any], word: str) -> None:
    spec = {"containers": [{"name": "a"}], "initContainers": [{"name": "i"}, {"name": "j"}]}
    assert cells("Pod", {"spec": spec, "status": status})["Status"] == word
    gone = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
    assert cells("Pod", gone | {"spec": spec, "status": status})["Status"] == "Terminating"


def test_a_pod_tells_how_often_it_was_restarted() -> None:
    again = UP | {
        "restartCount": 2,
        "lastState": {"terminated": {"finishedAt": "2026-01-02T03:01:05Z"}},
    }
    pod = {"spec": {"containers": [{}, {}]}, "status": {"containerStatuses": [again]}}
    assert cells("Pod", pod)["Ready"] == "1/2"
    assert cells("Pod", pod)["Restarts"] == "2 (3m ago)"


def test_workloads_tell_how_far_they_are() -> None:
    template = {"spec": {"containers": [{"name": "a", "image": "x:1"}, {"name": "b"}]}}
    terms = [{"key": "k", "operator": "In", "values": ["2", "1"]}]
    spec = {
        "replicas": 3,
        "template": template,
        "selector": {"matchLabels": {"z": "y"}, "matchExpressions": terms},
    }
    row = cells("Deployment", {"spec": spec, "status": {"readyReplicas": 1}})
    assert (row["Ready"], row["Up-to-date"], row["Containers"]) == ("1/3", 0, "a,b")
    assert row["Selector"] == "k in (1,2),z=y"


@pytest.mark.parametrize(
    ("spec", "outside", "ports"),
    [
        ({"type": "ClusterIP", "ports": [{"port": 80, "protocol": "TCP"}]}, "<none>", "80/TCP"),
        (
            {"type": "NodePort", "ports": [{"port": 1, "nodePort": 30001, "protocol": "UDP"}]},
            "<none>",
            "1:30001/UDP",
        ),
        ({"type": "LoadBalancer"}, "<pending>", "<none>"),
        ({"type": "ExternalName", "externalName": "example.com"}, "example.com", "<none>"),
    ],
)
def test_where_a_service_is_reached(spec: dict[str, Any], outside: str, ports: str) -> None:
    row = cells("Service", {"spec": spec})
    assert (row["External-IP"], row["Port(s)"]) == (outside, ports)


odd = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@given(odd, st.sampled_from(sorted(KINDS)))
def test_no_object_breaks_a_table(value: Any, kind: str) -> None:
    """Objects that an older server stored may hold anything."""
    for obj in (
        {"spec": value, "status": value, "metadata": {"labels": value}, "involvedObject": value},
        {"spec": {"template": value, "selector": value, "ports": [value], "containers": [value]}},
        {"status": {"conditions": [value], "containerStatuses": [value], "addresses": [value]}},
    ):
        cells(kind, obj)
