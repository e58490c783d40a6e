"""What a node is expected to show, and what the Job on it is called."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.kube.capv import MachineSpec
from laneway.vsphere.node_checks.job import Job, JobStatus, Node, NodeStatus, job, outcome
from laneway.vsphere.node_checks.reconciler import gpus_of, job_name, requested_gpus

T4 = {"vendorId": 4318, "deviceId": 7864}
NIC = {"vendorId": 5555, "deviceId": 4129}


@pytest.mark.parametrize(
    ("fields", "gpus"),
    [
        ({}, 0),
        ({"pci_devices": [T4, {"vGPUProfile": "grid_t4-8q"}]}, 2),
        ({"pci_devices": [T4, NIC], "peer_to_peer": True}, 1),
        ({"pci_devices": [NIC]}, 0),
        ({"pci_devices": [{"allowedDevices": [T4, {**T4, "deviceId": 9008}]}]}, 1),
        ({"pci_devices": [{"deviceGroupName": "two-h100"}]}, 1),
        ({"vgpudevices": [{"profileName": "grid_t4-8q"}]}, 1),
        ({"pci_devices": ["nonsense"]}, 0),
    ],
)
def test_network_cards_are_no_gpus(fields: dict[str, Any], gpus: int) -> None:
    assert requested_gpus(MachineSpec(**fields)) == gpus


@pytest.mark.parametrize(("shown", "gpus"), [("4", 4), (2, 2), ("nonsense", 0), (None, 0)])
def test_a_node_shows_a_quantity_or_nothing(shown: Any, gpus: int) -> None:
    allocatable = {} if shown is None else {"nvidia.com/gpu": shown}
    assert gpus_of(Node(status=NodeStatus(allocatable=allocatable))) == gpus


@given(st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,250}[a-z0-9])?", fullmatch=True))
def test_a_job_can_be_called_so_for_every_machine(machine: str) -> None:
    name = job_name(machine)
    assert len(name) <= 63
    assert re.fullmatch(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", name)
    assert name == job_name(machine)


def test_long_names_that_differ_at_their_end_stay_apart() -> None:
    assert job_name("m" * 80 + "a") != job_name("m" * 80 + "b")


def test_a_job_ends_and_goes_by_itself() -> None:
    spec = job("a", "node1", "image", "nvidia.com/gpu")["spec"]
    assert spec["activeDeadlineSeconds"] > 0
    assert spec["ttlSecondsAfterFinished"] > 0
    assert outcome(Job(status=JobStatus())) == (False, "")
