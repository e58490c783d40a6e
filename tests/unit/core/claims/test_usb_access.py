"""Who may open a USB device: the claim, its end, and what may have happened in between."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from laneway.core.claims.usb_access import QEMU, claim, release
from laneway.core.inventory import Inventory, UsbDevice
from laneway.core.plan import Plan, Satisfied, SetNodeOwner, undo
from laneway.core.refusals import (
    DeviceHeld,
    DeviceNotFound,
    DeviceUnusable,
    HoldersUnknown,
    UsbDeviceReplaced,
)
from laneway.core.situation import Holder, Situation
from support.devices import stick
from support.effects import Kernel

STICK = stick("3-1.2", bus=3, number=12)
USER = Holder("process", "process 4711 (qemu-system-x86) has /dev/bus/usb/003/012 open")
GIVEN = SetNodeOwner("3-1.2", 3, 12, *QEMU, 0, 85)


def situation(**fields: object) -> Situation:
    start = Situation(
        node="node1", inventory=Inventory(usb=(STICK,)), usb_owners={STICK.port: (0, 85)}
    )
    return replace(start, **fields)


CLAIMED = situation(usb_owners={STICK.port: QEMU}, usb_originals={STICK.port: (0, 85)})


def test_qemu_gets_the_node_and_its_owner_gets_it_back() -> None:
    assert claim(STICK, situation()) == Plan((GIVEN,))
    assert release(STICK.port, CLAIMED) == Plan((undo(GIVEN),))


owners = st.tuples(st.integers(0, 2000), st.integers(0, 2000))


@given(owners)
def test_claim_and_release_cancel_out(original: tuple[int, int]) -> None:
    before = situation(usb_owners={STICK.port: original})
    plan = claim(STICK, before)
    if plan == Satisfied():
        assert original == QEMU
        return
    assert isinstance(plan, Plan)
    given_away = Kernel().run(plan.steps, before)
    assert claim(STICK, given_away) == Satisfied()
    recorded = replace(given_away, usb_originals={STICK.port: original})
    back = release(STICK.port, recorded)
    assert isinstance(back, Plan)
    after = Kernel().run(back.steps, recorded)
    assert after.usb_owners == before.usb_owners
    assert release(STICK.port, after) == Satisfied()


def test_a_claimed_device_in_use_is_as_desired_but_is_not_taken_from_its_user() -> None:
    used = replace(CLAIMED, usb_holders={STICK.port: (USER,)})
    assert claim(STICK, used) == Satisfied()
    assert release(STICK.port, used) == (DeviceHeld(STICK.port, (USER.text,)),)


def test_a_device_that_is_in_use_cannot_be_claimed() -> None:
    used = situation(usb_holders={STICK.port: (USER,)})
    assert claim(STICK, used) == (DeviceHeld(STICK.port, (USER.text,)),)


def test_nothing_is_done_while_users_cannot_be_seen() -> None:
    assert claim(STICK, situation(visibility_error="no root")) == (HoldersUnknown("no root"),)
    assert release(STICK.port, replace(CLAIMED, visibility_error="no root")) == (
        HoldersUnknown("no root"),
    )


@pytest.mark.parametrize(
    "now",
    [
        replace(STICK, number=13),
        replace(STICK, serial="4C530002"),
        replace(STICK, vendor="046d", product="c31c", serial=""),
    ],
)
def test_another_device_at_the_port_is_not_given_in_its_place(now: UsbDevice) -> None:
    replugged = replace(CLAIMED, inventory=Inventory(usb=(now,)), usb_owners={STICK.port: (0, 0)})
    decision = claim(STICK, replugged)
    assert isinstance(decision, tuple)
    [refusal] = decision
    assert isinstance(refusal, UsbDeviceReplaced)
    assert f"{now.vendor}:{now.product} at 003/{now.number:03d}" in refusal.words
    # Who asks by port looks at what is there now.
    assert isinstance(claim(STICK.port, replugged), Plan)
    # Its node is new and belongs to the node already.
    assert release(STICK.port, replugged) == Satisfied()


def test_a_device_that_was_unplugged() -> None:
    gone = replace(CLAIMED, inventory=Inventory(), usb_owners={})
    assert claim(STICK, gone) == (DeviceNotFound(STICK.port),)
    assert release(STICK.port, gone) == Satisfied()


def test_a_hub_and_what_the_node_runs_on_are_refused_with_all_reasons() -> None:
    hub = replace(STICK, class_code="09")
    inventory = Inventory(usb=(hub,), critical_usb={STICK.port: ("holds the file system /",)})
    decision = claim(hub, situation(inventory=inventory, usb_holders={STICK.port: (USER,)}))
    assert isinstance(decision, tuple)
    assert [type(refusal) for refusal in decision] == [DeviceUnusable, DeviceHeld]
    assert "holds the file system /" in decision[0].words
    assert "it is a hub" in decision[0].words


def test_a_device_without_a_node_cannot_be_opened_by_anybody() -> None:
    decision = claim(STICK, situation(usb_owners={}))
    assert isinstance(decision, tuple)
    assert "/dev/bus/usb/003/012 is missing" in decision[0].words


def test_a_node_that_qemu_had_before_laneway_came_stays_with_it() -> None:
    assert release(STICK.port, replace(CLAIMED, usb_originals={})) == Satisfied()
    assert release(STICK.port, replace(CLAIMED, usb_originals={STICK.port: QEMU})) == Satisfied()
