"""The next step for a machine, state by state."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from laneway.core.vsphere.inventory.vms import (
    Attached,
    DynamicBacking,
    FixedBacking,
    TaskState,
    VgpuBacking,
    VmState,
)
from laneway.core.vsphere.placement.reservation import Reservation
from laneway.core.vsphere.provisioning.steps import (
    AwaitAddresses,
    AwaitClone,
    AwaitGuestShutdown,
    AwaitTask,
    CancelTask,
    CloneTemplate,
    DesiredVm,
    Destroy,
    DevicesLost,
    History,
    JoinVmGroup,
    PowerOff,
    PowerOffMode,
    PowerOn,
    Ready,
    Reconfigure,
    ReleaseReservation,
    Relocate,
    RemoveFinalizer,
    Reserve,
    SetGuestMetadata,
    ShutDownGuest,
    Step,
    Upgrade,
    VmDeleted,
    next_step,
)
from laneway.core.vsphere.spec.requests import (
    GroupRequest,
    PassthroughRequest,
    PciIds,
    Requested,
    VgpuRequest,
)

T4 = PciIds(0x10DE, 0x1EB8)
CARD = PassthroughRequest((T4,))
PROFILE = VgpuRequest("grid_t4-8q")
WISH = DesiredVm(Requested((CARD, PROFILE)))
RESERVED = Reservation("default/one", "host-1", ())
HAS_CARD = Attached(13000, DynamicBacking((T4,)))
HAS_PROFILE = Attached(13001, VgpuBacking("grid_t4-8q"))
OFF = VmState(
    ref="vm-1",
    name="one",
    instance_uuid="uid",
    bios_uuid="bios",
    hardware_version=19,
    on=False,
    host="host-1",
    devices=(HAS_CARD, HAS_PROFILE),
    memory_locked=True,
)
ON = replace(OFF, on=True, addresses=("10.0.0.7",))
RUNNING = ("task-1", TaskState(done=False))
GONE = replace(WISH, deleted=True)


def step(
    vm: VmState | None, desired: DesiredVm = WISH, reservation: Any = RESERVED, **history: Any
) -> Step:
    return next_step(desired, vm, reservation, None, History(**history))


def test_devices_are_reserved_before_anything_is_made() -> None:
    assert step(None, reservation=None) == Reserve()
    assert step(None, reservation=None, desired=DesiredVm()) == CloneTemplate("")


@pytest.mark.parametrize(("placed", "host"), [(True, "host-1"), (False, "")])
def test_a_clone_goes_to_the_reserved_host_unless_vcenter_places(placed: bool, host: str) -> None:
    assert step(None, replace(WISH, placed=placed)) == CloneTemplate(host)


def test_after_a_host_refused_the_next_is_ours_to_choose() -> None:
    assert step(None, excluded={"host-2"}) == CloneTemplate("host-1")
    assert step(OFF, excluded={"host-1"}) == Reserve()
    assert step(replace(OFF, host="host-2"), excluded={"host-2"}) == Relocate("host-1")
    assert step(replace(OFF, host="host-2")) == PowerOn()


@pytest.mark.parametrize("vm", [None, OFF, ON])
@pytest.mark.parametrize("desired", [WISH, DesiredVm()])
def test_nothing_is_ordered_while_a_task_is_at_work(vm: VmState | None, desired: DesiredVm) -> None:
    assert next_step(desired, vm, RESERVED, RUNNING, History()) == AwaitTask("task-1")


@pytest.mark.parametrize("desired", [WISH, GONE])
def test_a_task_that_only_the_vm_tells_of_is_waited_for(desired: DesiredVm) -> None:
    assert step(replace(OFF, tasks=("task-9",)), desired) == AwaitTask("task-9")


def test_a_finished_task_is_no_reason_to_wait() -> None:
    done = ("task-1", TaskState(done=True))
    assert next_step(WISH, OFF, RESERVED, done, History()) == PowerOn()


def test_a_clone_whose_answer_was_lost_is_waited_for_first() -> None:
    assert step(None, ordered=True) == AwaitClone()
    assert step(None, ordered=True, clone_awaited=True) == CloneTemplate("")
    assert step(OFF, ordered=True) == PowerOn()


def test_a_vm_that_vanished_is_not_made_again_and_holds_nothing() -> None:
    assert step(None, made=True) == ReleaseReservation()
    assert step(None, made=True, reservation=None) == VmDeleted()


def test_hardware_is_upgraded_before_devices_are_attached() -> None:
    old = replace(OFF, hardware_version=13, devices=())
    assert step(old) == Upgrade(17)
    assert step(old, DesiredVm(Requested((GroupRequest("pair"),)))) == Upgrade(17)
    assert step(old, replace(WISH, hardware_version=20)) == Upgrade(20)
    assert step(old, DesiredVm(Requested((PROFILE,)))) == Reconfigure((PROFILE,))
    assert step(replace(OFF, hardware_version=21), replace(WISH, hardware_version=20)) == PowerOn()


def test_all_that_is_missing_is_attached_in_one_request() -> None:
    assert step(replace(OFF, devices=())) == Reconfigure((CARD, PROFILE))
    assert step(replace(OFF, devices=(HAS_PROFILE,))) == Reconfigure((CARD,))


def test_devices_that_were_not_requested_are_taken_away() -> None:
    fixed = Attached(13002, FixedBacking("0000:3b:00.0"))
    second = Attached(13003, VgpuBacking("grid_t4-8q"))
    assert step(replace(OFF, devices=(HAS_CARD, fixed))) == Reconfigure((PROFILE,), (fixed,))
    assert step(replace(OFF, devices=(HAS_CARD, HAS_PROFILE, second))) == Reconfigure((), (second,))


def test_a_machine_that_requests_no_devices_keeps_those_of_its_template() -> None:
    has = replace(OFF, devices=(HAS_CARD,))
    assert step(replace(has, memory_locked=False), DesiredVm()) == Reconfigure()
    assert step(has, DesiredVm()) == PowerOn()


def test_after_a_refusal_each_device_has_a_request_of_its_own() -> None:
    fixed = Attached(13002, FixedBacking("0000:3b:00.0"))
    assert step(replace(OFF, devices=(fixed,)), one_by_one=True) == Reconfigure((), (fixed,))
    assert step(replace(OFF, devices=()), one_by_one=True) == Reconfigure((CARD,))
    assert step(replace(OFF, devices=(HAS_CARD,)), one_by_one=True) == Reconfigure((PROFILE,))


def test_memory_is_locked_before_it_is_switched_on() -> None:
    assert step(replace(OFF, memory_locked=False)) == Reconfigure()
    assert step(replace(OFF, memory_locked=False, devices=()), DesiredVm()) == PowerOn()


def test_a_group_is_joined_before_it_is_switched_on() -> None:
    desired = replace(WISH, group="gpus")
    assert step(OFF, desired) == JoinVmGroup()
    assert step(OFF, desired, in_vm_group=True) == PowerOn()


def test_a_machine_that_is_on_has_devices_and_addresses() -> None:
    assert step(ON) == Ready()
    assert step(replace(ON, addresses=())) == AwaitAddresses()


@pytest.mark.parametrize("addresses", [(), ("10.0.0.7",)])
def test_a_machine_that_lost_a_device_is_not_mended_while_it_is_on(
    addresses: tuple[str, ...],
) -> None:
    lost = replace(ON, devices=(HAS_PROFILE,), addresses=addresses)
    assert step(lost) == DevicesLost((CARD,))
    assert step(replace(lost, on=False)) == Reconfigure((CARD,))


def test_a_machine_is_switched_off_at_once_if_its_spec_says_so() -> None:
    assert step(ON, GONE) == PowerOff()


@pytest.mark.parametrize("mode", [PowerOffMode.SOFT, PowerOffMode.TRY_SOFT])
def test_a_guest_is_asked_to_shut_down_and_given_time(mode: PowerOffMode) -> None:
    desired = replace(GONE, power_off=mode)
    assert step(ON, desired) == ShutDownGuest()
    assert step(ON, desired, guest_asked=True) == AwaitGuestShutdown()
    assert step(OFF, desired, guest_asked=True) == Destroy()


def test_only_one_of_the_soft_ways_ends_the_patience() -> None:
    late = {"guest_asked": True, "patience": False}
    assert step(ON, replace(GONE, power_off=PowerOffMode.TRY_SOFT), **late) == PowerOff()
    assert step(ON, replace(GONE, power_off=PowerOffMode.SOFT), **late) == AwaitGuestShutdown()


def test_devices_are_released_after_the_vm_and_the_object_last() -> None:
    assert step(OFF, GONE) == Destroy()
    assert step(None, GONE) == ReleaseReservation()
    assert step(None, GONE, reservation=None) == RemoveFinalizer()


def test_a_clone_of_a_deleted_machine_is_given_up_or_waited_for() -> None:
    assert next_step(GONE, None, RESERVED, RUNNING, History()) == CancelTask("task-1")
    assert next_step(GONE, None, RESERVED, RUNNING, History(cancelled=True)) == AwaitTask("task-1")
    assert next_step(GONE, OFF, RESERVED, RUNNING, History()) == AwaitTask("task-1")
    assert step(None, GONE, ordered=True) == AwaitClone()
    assert step(None, GONE, ordered=True, clone_awaited=True) == ReleaseReservation()
    assert step(None, GONE, made=True, ordered=True) == ReleaseReservation()


def test_a_guest_gets_its_network_settings_once_before_it_is_switched_on() -> None:
    desired = replace(WISH, metadata_set=True)
    assert step(OFF, desired) == SetGuestMetadata()
    assert step(OFF, desired, metadata_set=True) == PowerOn()
    assert step(replace(OFF, memory_locked=False), desired) == Reconfigure()
