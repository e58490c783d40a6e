from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.core.kernel.uevent import OVERFLOW, Uevent, parse_uevent


def test_a_kernel_event_is_read() -> None:
    message = (
        b"add@/devices/pci0000:00/0000:00:03.0\0ACTION=add\0"
        b"DEVPATH=/devices/pci0000:00/0000:00:03.0\0SUBSYSTEM=pci\0PCI_ID=10DE:25B6\0EMPTY=\0"
    )

    event = parse_uevent(message)

    assert event is not None
    assert (event.action, event.devpath) == ("add", "/devices/pci0000:00/0000:00:03.0")
    assert event.subsystem == "pci"
    assert event.properties["PCI_ID"] == "10DE:25B6"
    assert event.properties["EMPTY"] == ""


def test_a_value_may_hold_an_equals_sign() -> None:
    event = parse_uevent(b"change@/devices/x\0A=b=c\0")

    assert event is not None
    assert event.properties == {"A": "b=c"}


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"libudev\0\xfe\xed\xca\xfe",
        b"add",
        b"add@",
        b"add@relative/path",
        b"@/devices/x",
        b"a b@/devices/x",
    ],
)
def test_other_messages_are_none(message: bytes) -> None:
    assert parse_uevent(message) is None


def test_an_event_without_subsystem_has_an_empty_one() -> None:
    assert Uevent("add", "/devices/x").subsystem == ""
    assert OVERFLOW.subsystem == ""


@given(st.binary())
def test_any_message_is_an_event_or_none(message: bytes) -> None:
    event = parse_uevent(message)

    assert event is None or event.devpath.startswith("/")


@given(st.binary())
def test_any_properties_after_a_good_head_are_read_or_ignored(rest: bytes) -> None:
    event = parse_uevent(b"bind@/devices/x\0" + rest)

    assert event is not None
    assert event.action == "bind"
