"""The cells of built-in kinds that are computed read as on a cluster."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.apiserver import printers

READY = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}


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
    assert printers.node_status(node) == shown


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
    assert printers.node_roles({"metadata": {"labels": labels}}) == shown


@pytest.mark.parametrize(
    ("about", "shown"),
    [
        ({"kind": "VGPUDevice", "name": "n1-000008004"}, "vgpudevice/n1-000008004"),
        ({"kind": "Node"}, "node"),
        ({}, ""),
    ],
)
def test_the_object_of_an_event(about: dict[str, str], shown: str) -> None:
    assert printers.event_object({"involvedObject": about}) == shown


odd = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@given(odd)
def test_no_object_breaks_a_cell(value: Any) -> None:
    """What the schemas of the built-in kinds leave open may hold anything."""
    printers.node_status({"spec": value, "status": value})
    printers.event_object({"involvedObject": value})
