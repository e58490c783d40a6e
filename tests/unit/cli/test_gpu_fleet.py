"""The GPUs of a cluster put together from its objects, and what is said about each."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from laneway.api import (
    LAYOUT_REFUSED,
    Condition,
    LayoutGpu,
    LayoutGpuSelector,
    MigConfiguration,
    MigConfigurationSpec,
    MigConfigurationStatus,
    MigProfileRequest,
    MigProfileStatus,
    ObjectMeta,
    PCIDevice,
    PCIDeviceClaim,
    PCIDeviceClaimSpec,
    PCIDeviceStatus,
    SRIOVGPUDevice,
    SRIOVGPUDeviceSpec,
    SRIOVGPUDeviceStatus,
    VGPUDevice,
    VGPUDeviceSpec,
    VGPUDeviceStatus,
    VGPULayout,
    VGPULayoutSpec,
    VGPULayoutStatus,
)
from laneway.changes.errors import RefusedError
from laneway.changes.gpus import Desired, against, differences
from laneway.changes.trial import passing, refusal_words
from laneway.changes.vgpus import known, own_layout
from laneway.cli import asking, fleet, gpus, table
from laneway.controllers.devices.layout import NOT_LATER
from laneway.views.answers import Answer, answer_of
from laneway.views.gpus import Gpu, Node, NodeStatus, assemble

ADDRESS = "0000:08:00.0"
NAME = "node1-000008000"
Q4 = "NVIDIA A2-4Q"


def device(
    *, enabled: bool = True, mode: str = "", answered: int = 1, **status: Any
) -> SRIOVGPUDevice:
    ready = Condition(type="Ready", status="True", reason="Enabled", observed_generation=answered)
    return SRIOVGPUDevice(
        metadata=ObjectMeta(name=NAME, generation=1),
        spec=SRIOVGPUDeviceSpec(address=ADDRESS, node_name="node1", enabled=enabled, mode=mode),
        status=SRIOVGPUDeviceStatus(**{"conditions": [ready], "mode": "SameSize", **status}),
    )


def vgpu(number: int, desired: str = "", carried: str = "", node: str = "node1") -> VGPUDevice:
    return VGPUDevice(
        metadata=ObjectMeta(name=f"{node}-00000800{number}"),
        spec=VGPUDeviceSpec(
            address=f"0000:08:00.{number}",
            node_name=node,
            parent_gpu_device_address=ADDRESS,
            enabled=bool(desired),
            vgpu_type_name=desired,
        ),
        status=VGPUDeviceStatus(
            vgpu_status="vGPUConfigured" if carried else "", configure_vgpu_type_name=carried
        ),
    )


def card(device_id: str = "25b6", subsystem: str = "157e") -> PCIDevice:
    return PCIDevice(
        metadata=ObjectMeta(name=NAME),
        status=PCIDeviceStatus(
            device_id=device_id,
            subsystem_device_id=subsystem,
            description="3D controller: NVIDIA Corporation GA107GL [A2 / A16]",
        ),
    )


def layout(name: str, created: str = "2026-01-01T00:00:00Z", **spec: Any) -> VGPULayout:
    return VGPULayout(
        metadata=ObjectMeta(name=name, creation_timestamp=created, generation=1),
        spec=VGPULayoutSpec(**spec),
    )


def done_by(name: str) -> VGPULayout:
    entry = LayoutGpu(name="node1-000008000", node_name="node1", state="Done")
    return msgspec.structs.replace(layout(name), status=VGPULayoutStatus(gpus=[entry]))


def one(*vgpus: VGPUDevice, of: SRIOVGPUDevice | None = None, **more: Any) -> Gpu:
    [found] = assemble([of or device()], vgpus, **more)
    return found


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
        ({"node1": Node()}, ""),
        ({"node1": "True"}, ""),
        ({"node1": "False"}, "the node is not ready"),
        ({"node1": "Unknown"}, "the node is not ready"),
    ],
)
def test_objects_are_stale_whose_node_is_gone_or_not_ready(nodes: Any, stale: str) -> None:
    def node(status: Any) -> Any:
        ready = [Condition(type="Ready", status=status)]
        return Node(status=NodeStatus(conditions=ready))

    known = nodes and {k: v if isinstance(v, Node) else node(v) for k, v in nodes.items()}
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


# --------------------------------------------------------------------------- against a desired
# state


def test_what_a_desired_state_changes() -> None:
    gpu = one(of=device(mode="MIG"))
    assert list(differences(gpu, Desired(enabled=True))) == []
    assert list(differences(gpu, Desired(enabled=False, mode="SameSize"))) == [
        "spec.enabled: true -> false",
        "spec.mode: MIG -> SameSize",
    ]


def test_nothing_stands_against_what_is_free() -> None:
    gpu = one(vgpu(4))
    assert list(against(gpu, Desired(enabled=False))) == []
    assert list(against(gpu, Desired(enabled=True, mode="MixedSize"))) == []


def test_enabled_vgpus_stand_against_what_would_take_them_away() -> None:
    gpu = one(vgpu(4, Q4, Q4), vgpu(5))
    for desired in (Desired(enabled=False), Desired(enabled=True, mode="MixedSize")):
        [reason] = against(gpu, desired)
        assert "node1-000008004" in reason
        assert "node1-000008005" not in reason
    assert list(against(gpu, Desired(enabled=True, mode="SameSize"))) == []


def test_a_command_does_not_advise_about_a_layout_that_it_leaves_as_it_was() -> None:
    answer = Answer("refused", "UpdateRejected", f"VM default/vm has it. {NOT_LATER}")
    assert passing(answer)
    assert asking.told(refusal_words(answer), advise=True) == [
        "UpdateRejected: VM default/vm has it.",
        "To store it and have it applied once it is possible, add --when-possible.",
    ]
    assert asking.told(refusal_words(answer), advise=False) == [
        "UpdateRejected: VM default/vm has it."
    ]


def test_who_does_not_wait_gives_the_agent_half_a_minute_for_its_answer() -> None:
    assert [asking.patience(300, wait=wait) for wait in (True, False)] == [300, 30]
    assert asking.patience(5, wait=False) == 5


def test_a_vgpu_that_is_not_requested_is_not_removed_unasked_either() -> None:
    gpu = one(vgpu(4, carried=Q4))
    for desired in (Desired(enabled=False), Desired(enabled=True, mode="MixedSize")):
        [reason] = against(gpu, desired)
        assert f"0000:08:00.4 is in use: vGPU {Q4} is configured on it" in reason
    assert list(against(gpu, Desired(enabled=True))) == []


@pytest.mark.parametrize(
    ("layout", "words"),
    [
        (
            "node1-000008000",
            f"laneway vgpu set node1/{ADDRESS} none; kubectl delete vgpulayout node1-000008000",
        ),
        ("everywhere", "Delete the layout first, which changes no vGPU: kubectl delete vgpulayout"),
    ],
)
def test_under_a_layout_only_what_the_layout_allows_is_advised(layout: str, words: str) -> None:
    """To disable the vGPUs one by one is refused as long as a layout owns them."""
    gpu = one(vgpu(4, Q4, Q4), layouts=[done_by(layout)])
    [reason] = against(gpu, Desired(enabled=False))
    assert words in reason


def test_a_claim_of_the_whole_card_stands_against_sharing_it() -> None:
    spec = PCIDeviceClaimSpec(address=ADDRESS, node_name="node1", user_name="eve")
    claim = PCIDeviceClaim(metadata=ObjectMeta(name="claimed"), spec=spec)
    gpu = one(claims=[claim], of=device(enabled=False))
    [reason] = against(gpu, Desired(enabled=True))
    assert "PCIDeviceClaim claimed of user eve" in reason
    assert list(against(gpu, Desired(enabled=False, mode="Passthrough"))) == []


def test_an_agent_answers_to_one_generation_only() -> None:
    def answer(status: Any, reason: str, generation: int = 1) -> str:
        found = Condition(type="Ready", status=status, reason=reason, observed_generation=1)
        return answer_of(SRIOVGPUDeviceStatus(conditions=[found]), generation).kind

    assert answer("True", "Enabled") == "done"
    assert answer("True", "Enabled", generation=2) == "none"
    assert answer("False", "InProgress") == "working"
    assert answer("False", "VgpusEnabled") == "refused"
    assert answer_of(SRIOVGPUDeviceStatus(), 1).kind == "none"


# ------------------------------------------------------------------------------- one layout a GPU


def test_a_layout_of_this_gpu_alone_is_changed() -> None:
    mine = layout(NAME, gpu_selector=LayoutGpuSelector(names=[NAME]))
    newer = layout("newer", "2026-06-01T00:00:00Z")
    assert own_layout(one(), [newer, mine], "this command") is mine
    assert (
        own_layout(
            one(), [layout("x", gpu_selector=LayoutGpuSelector(names=["y"]))], "this command"
        )
        is None
    )


def test_an_older_layout_keeps_its_gpu() -> None:
    mine = layout(NAME, gpu_selector=LayoutGpuSelector(names=[NAME]))
    older = layout("older", "2025-01-01T00:00:00Z")
    for layouts in ([older], [mine, older]):
        with pytest.raises(RefusedError, match="VGPULayout older configures"):
            own_layout(one(), layouts, "this command")
    assert own_layout(one(), [layout("asks", dry_run=True)], "this command") is None


def test_profiles_are_known_from_objects_and_from_the_catalogue() -> None:
    fits = {"NVIDIA A2-98Q": 1, "NVIDIA A2-97Q": 0}
    driver, catalogue = known(one(vgpu(4, "NVIDIA A2-99Q"), of=device(fits=fits), cards=[card()]))
    assert driver == {"NVIDIA A2-99Q", "NVIDIA A2-98Q"}
    assert Q4 in catalogue
    assert known(one(of=device())) == (set(), set())


def test_what_may_not_be_listed_is_said_and_not_taken_for_absent() -> None:
    [gpu] = assemble([device()], [], unreadable=["pcideviceclaims"])

    shown = gpus.one_view(gpu)

    assert shown.document["claimedBy"] is None
    assert shown.document["unreadable"] == ("pcideviceclaims",)
    assert shown.warnings == [
        "you may not list pcideviceclaims; what they say is missing here",
    ]
