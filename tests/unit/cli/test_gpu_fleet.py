"""The GPUs of a cluster put together from its objects, and what is said about each."""

from __future__ import annotations

from typing import Any

import pytest

from laneway.api import (
    LAYOUT_REFUSED,
    Condition,
    CoreNode,
    DeviceNode,
    LayoutGpu,
    MigConfiguration,
    MigConfigurationSpec,
    MigConfigurationStatus,
    MigProfileRequest,
    MigProfileStatus,
    ObjectMeta,
    SRIOVGPUDevice,
    SRIOVGPUDeviceSpec,
    VGPULayout,
    VGPULayoutSpec,
    VGPULayoutStatus,
)
from laneway.api.nodes import CoreNodeStatus, DeviceNodeStatus
from laneway.cli import fleet, gpus, table
from laneway.views.gpus import Gpu, assemble
from support.gpu_objects import ADDRESS, NAME, Q4, card, device, one, vgpu


def shown(*found: Gpu, verbose: bool = False) -> list[str]:
    sections = gpus.sections(fleet.Fleet(gpus=found), verbose=verbose)
    return table.plain(gpus.COLUMNS, list(sections)).splitlines()[1:]


# ------------------------------------------------------------------------------------ assembled


def test_what_belongs_to_a_gpu_is_found_by_node_and_address() -> None:
    gpu = one(vgpu(5), vgpu(4), vgpu(4, node="node2"), cards=[card()])
    assert [one.spec.address[-1] for one in gpu.vgpus] == ["4", "5"]
    assert gpu.title == f"node1/{ADDRESS}"


@pytest.mark.parametrize(
    ("cards", "board"),
    [
        ([card()], "A2"),
        ([card(subsystem="14a9")], "A16"),
        ([card(subsystem="")], "A2 / A16"),
        ([card(device_id="ffff")], "A2 / A16"),
        ([], ""),
    ],
)
def test_a_board_is_called_by_the_catalogue_or_the_database(cards: Any, board: str) -> None:
    assert one(cards=cards).board == board


@pytest.mark.parametrize(
    ("nodes", "stale"),
    [
        (None, ""),
        ({}, "the cluster has no such node any more"),
        ({"node1": CoreNode()}, ""),
        ({"node1": "True"}, ""),
        ({"node1": "False"}, "the node is not ready"),
        ({"node1": "Unknown"}, "the node is not ready"),
    ],
)
def test_objects_are_stale_whose_node_is_gone_or_not_ready(nodes: Any, stale: str) -> None:
    def node(status: Any) -> Any:
        ready = [Condition(type="Ready", status=status)]
        return CoreNode(status=CoreNodeStatus(conditions=ready))

    known = nodes and {k: v if isinstance(v, CoreNode) else node(v) for k, v in nodes.items()}
    gpu = one(nodes=known if nodes else nodes)
    assert gpu.stale == stale
    assert gpu.abandoned == (nodes == {})


# ---------------------------------------------------------------------------------------- shown


def test_an_idle_gpu_takes_one_line() -> None:
    assert shown(one()) == [
        "node1",
        f"  {ADDRESS}  -      SameSize  -      Enabled",
    ]


def test_a_node_cannot_command_a_terminal() -> None:
    odd = SRIOVGPUDevice(spec=SRIOVGPUDeviceSpec(address=ADDRESS, node_name="a\x1b[2J\nb"))
    assert shown(one(of=odd))[0] == "a [2J b"


def test_an_answer_to_an_earlier_desired_state_is_none() -> None:
    assert shown(one(of=device(answered=0)))[1].endswith("to be enabled: no agent has answered yet")


def test_a_mode_that_is_desired_and_not_there_is_reported() -> None:
    assert "SameSize, desired MIG" in shown(one(of=device(mode="MIG")))[1]


def test_what_is_carried_and_what_is_missing_are_distinguished() -> None:
    gpu = one(vgpu(4, Q4, Q4), vgpu(5, Q4), vgpu(6, "", Q4), vgpu(7, "NVIDIA A2-8Q", Q4), vgpu(8))
    lines = shown(gpu)
    assert "3 of 5" in lines[1]
    assert lines[2:4] == [
        "    has A2-4Q=3",
        "    desired and missing: A2-4Q=1, A2-8Q=1",
    ]


def test_instances_are_reported_with_the_desired_state_where_it_differs() -> None:
    def mig(requested: int, status: str = "synced", message: str = "") -> MigConfiguration:
        return MigConfiguration(
            spec=MigConfigurationSpec(
                enabled=True,
                gpu_address=ADDRESS,
                node_name="node1",
                profile_spec=[MigProfileRequest(name="MIG 1g.10gb", id=19, requested=requested)],
            ),
            status=MigConfigurationStatus(
                status=status,
                message=message,
                profile_status=[
                    MigProfileStatus(name="MIG 1g.10gb", id=19, available=5, vgpu_ids=["1", "2"])
                ],
            ),
        )

    room = "    room for GPU instances 5 x 1g.10gb"
    assert shown(one(migs=[mig(2)]))[2:] == ["    GPU instances 1g.10gb=2", room]
    assert shown(one(migs=[mig(9, "out-of-sync", "no room")]))[2:] == [
        "    GPU instances 1g.10gb=2, desired 1g.10gb=9 (out-of-sync: no room)",
        room,
    ]


def test_layouts_are_reported_but_for_dry_runs() -> None:
    entry = LayoutGpu(name=NAME, observed_generation=1, state=LAYOUT_REFUSED, message="No.")
    mine = VGPULayout(
        metadata=ObjectMeta(name="mine", generation=1), status=VGPULayoutStatus(gpus=[entry])
    )
    asking = VGPULayout(
        metadata=ObjectMeta(name="asking"),
        spec=VGPULayoutSpec(dry_run=True),
        status=VGPULayoutStatus(gpus=[entry]),
    )
    assert shown(one(layouts=[mine, asking]))[2:] == ["    layout mine: Refused: No."]


def test_other_conditions_that_do_not_hold_are_reported() -> None:
    conditions = [
        Condition(type="Ready", status="True", reason="Enabled", observed_generation=1),
        Condition(type="ProfilesOffered", status="False", reason="MigOnly", message="Only MIG."),
    ]
    assert shown(one(of=device(conditions=conditions)))[2:] == ["    MigOnly: Only MIG."]


def test_what_may_not_be_listed_is_said_and_not_taken_for_absent() -> None:
    [gpu] = assemble([device()], [], unreadable=["pcideviceclaims"])

    shown = gpus.one_view(gpu)

    assert shown.document["claimedBy"] is None
    assert shown.document["unreadable"] == ("pcideviceclaims",)
    assert shown.warnings == [
        "you may not list pcideviceclaims; what they say is missing here",
    ]


def test_a_gpu_without_a_driver_says_what_its_toolkit_is_at() -> None:
    missing = Condition(
        type="Ready",
        status="False",
        reason="DriverMissing",
        message="no driver is bound",
        observed_generation=1,
    )
    said = Condition(
        type="Driver", status="False", reason="DriverInstalling", message="17 of 40 MiB."
    )
    agent = DeviceNode(
        metadata=ObjectMeta(name="node1"), status=DeviceNodeStatus(conditions=[said])
    )
    gpu = device(conditions=[missing])

    assert "to be enabled: DriverMissing" in shown(one(of=gpu))[1]
    _node, row, note, *_ = shown(one(of=gpu, agents=[agent]))
    assert "to be enabled: DriverInstalling" in row
    assert "DriverInstalling: 17 of 40 MiB." in note
