"""Which reports of NVIDIA's driver leave a GPU that must not be allocated."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.core.kernel.xids import FATAL, Fault, Need, Xid, after, words
from laneway.core.pci import PciAddress

CARD = PciAddress.parse("0000:08:00.0")
RECOVERY = "GPU recovery action changed from 0x0 (None) to "


def reported(*reports: tuple[int, str]) -> Fault | None:
    fault = None
    for code, text in reports:
        fault = after(fault, Xid(CARD, code, text))
    return fault


@pytest.mark.parametrize("code", [13, 31, 43, 45, 63, 94, 0, 99999])
def test_what_concerns_one_program_alone_is_no_fault(code: int) -> None:
    assert reported((code, "whatever")) is None


@pytest.mark.parametrize("code", [48, 62, 64, 74, 95, 119, 120])
def test_what_leaves_the_gpu_unreliable_needs_a_reset(code: int) -> None:
    fault = reported((code, ""))
    assert fault is not None
    assert (fault.code, fault.need) == (code, Need.RESET)


def test_a_gpu_that_fell_off_the_bus_needs_a_reboot_whatever_follows() -> None:
    fault = reported((79, ""), (31, ""), (119, ""))
    assert fault is not None
    assert words(CARD, fault) == (
        "0000:08:00.0 reported Xid 119 (the GPU system processor does not answer): "
        "the node must be rebooted"
    )


@pytest.mark.parametrize(
    ("action", "need"),
    [
        ("0x1 (GPU Reset Required)", Need.RESET),
        ("0x2 (Node Reboot Required)", Need.REBOOT),
        ("0x2 (OS Reboot)", Need.REBOOT),
        ("0x4 (Drain and Reset)", Need.RESET),
    ],
)
def test_the_driver_says_itself_what_it_needs(action: str, need: Need) -> None:
    assert reported((48, ""), (154, RECOVERY + action)) == Fault(48, FATAL[48][0], need)
    alone = reported((154, RECOVERY + action))
    assert alone is not None
    assert (alone.code, alone.need) == (154, need)


def test_the_driver_says_itself_when_it_needs_nothing_more() -> None:
    back = "GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"
    assert reported((120, ""), (154, RECOVERY + "0x1 (GPU Reset Required)"), (154, back)) is None


def test_a_recovery_that_cannot_be_read_changes_nothing() -> None:
    assert reported((154, "something new")) is None
    assert reported((48, ""), (154, "something new")) == reported((48, ""))


@given(st.lists(st.tuples(st.integers(0, 200), st.text()), max_size=8))
def test_any_reports_can_be_put_into_words(reports: list[tuple[int, str]]) -> None:
    fault = reported(*reports)
    assert fault is None or words(CARD, fault).startswith("0000:08:00.0 reported Xid")
