"""How a function is said to be, and why: never only that something is in progress."""

from __future__ import annotations

from msgspec.structs import replace

from laneway.api import Condition, LayoutGpu, VGPUDevice
from laneway.changes.vgpu_devices import crowded
from laneway.views.vgpu_state import State, state_of
from support.gpu_objects import Q4, device, layout, vgpu

ROOM = "No vGPU is requested, and the function has none. None can be configured: "


def said(one: VGPUDevice, status: str, reason: str, message: str, *others: Condition) -> VGPUDevice:
    ready = Condition(type="Ready", status=status, reason=reason, message=message)  # type: ignore[arg-type]
    return replace(one, status=replace(one.status, conditions=[ready, *others]))


def test_what_is_not_finished_says_what_it_waits_for() -> None:
    waits = state_of(vgpu(4, Q4), device())
    assert waits.kind == "progress"
    assert waits.why == "The agent of node1 has not answered to this desired state yet."
    works = said(vgpu(4, Q4), "False", "InProgress", "In progress: create A2-4Q.")
    assert state_of(works, device()) == State("progress", "In progress: create A2-4Q.")
    failed = said(vgpu(4, Q4), "False", "WriteFailed", "Writing failed: EBUSY.")
    assert state_of(failed, device()) == State("failed", "Writing failed: EBUSY.")


def test_the_step_of_a_layout_is_that_of_the_functions_of_its_gpu() -> None:
    idle = said(vgpu(4), "True", "NotConfigured", "None.")
    entry = LayoutGpu(name="node1-000008000", state="InProgress", steps=["create A2-4Q", "more"])
    at_work = state_of(idle, device(), [(layout("team"), entry)])
    assert at_work == State("progress", "VGPULayout team: 2 steps left: create A2-4Q")
    trial = state_of(idle, device(), [(layout("trial", dry_run=True), entry)])
    assert trial.kind == "exhausted"


def test_a_function_without_room_has_the_reason_of_its_own_gpu() -> None:
    idle = said(vgpu(4), "True", "NotConfigured", ROOM + "MIG only.")
    assert state_of(idle, device()) == State("exhausted", "MIG only.")
    full = device(configured={Q4: 4})
    assert state_of(idle, full) == State("exhausted", "The GPU has A2-4Q=4: no room for more.")
    off = state_of(idle, device(enabled=False))
    assert off.why == "SRIOVGPUDevice node1-000008000 is not enabled."
    offered = replace(idle, status=replace(idle.status, available_types={Q4: "nvidia-1"}))
    assert state_of(offered, full) == State("disabled")


def test_a_vgpu_that_no_vm_can_request_yet_says_why() -> None:
    hidden = Condition(type="Advertised", status="False", message="The kubelet has not asked.")
    there = said(vgpu(4, Q4, Q4), "True", "Configured", "It is.", hidden)
    assert state_of(there, device()) == State("enabled", "The kubelet has not asked.")
    gone = state_of(there, device(), stale="the cluster has no such node any more")
    assert gone == State("away", "The cluster has no such node any more.")


def test_functions_of_one_gpu_share_its_room() -> None:
    gpu = device(fits={Q4: 2})
    several = [(vgpu(number), gpu) for number in (4, 5, 6)]
    assert list(crowded(several, Q4)) == ["node1-000008006"]
    # One that has a vGPU already takes no room of the others.
    assert crowded([(vgpu(7, Q4, Q4), gpu), *several[:2]], Q4) == {}
