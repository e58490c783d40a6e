"""Lines of the kernel's log about GPUs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.core.kernel.xids import Xid
from laneway.core.pci import PciAddress
from laneway.host.xids import parse_reset, parse_xid, reset_message

CARD = PciAddress.parse("0000:08:00.0")
LOST = "GPU has fallen off the bus."


@pytest.mark.parametrize(
    ("line", "xid"),
    [
        (f"NVRM: Xid (PCI:0000:08:00): 79, pid=4711, name=python3, {LOST}", Xid(CARD, 79, LOST)),
        (
            f"NVRM: Xid (PCI:0000:08:00): 79, pid='<unknown>', name=<unknown>, {LOST}",
            Xid(CARD, 79, LOST),
        ),
        (f"NVRM: Xid (PCI:0000:08:00): 79, {LOST}", Xid(CARD, 79, LOST)),
        (f"NVRM: Xid (PCI:0000:08:00.0): 79, {LOST}", Xid(CARD, 79, LOST)),
        (f"NVRM: Xid (0000:08:00): 79, {LOST}", Xid(CARD, 79, LOST)),
        (f"NVRM: Xid (PCI:00000000:08:00): 79, {LOST}", Xid(CARD, 79, LOST)),
        (f"[  12.5] nvidia: NVRM: Xid (PCI:0000:08:00): 79, {LOST}", Xid(CARD, 79, LOST)),
        ("NVRM: Xid (PCI:0000:08:00): 62, 223b6a66 00002100", Xid(CARD, 62, "223b6a66 00002100")),
        ("NVRM: Xid (PCI:0000:08:00): 31, pid=1, name=a", Xid(CARD, 31, "")),
        ("NVRM: Xid (PCI:0000:08:00): 31", Xid(CARD, 31, "")),
        (
            "NVRM: Xid (PCI:10000:C1:1F): 48, x",
            Xid(PciAddress.parse("10000:c1:1f.0"), 48, "x"),
        ),
    ],
)
def test_a_report_is_read(line: str, xid: Xid) -> None:
    assert parse_xid(line) == xid


@pytest.mark.parametrize(
    "line",
    [
        "",
        "NVRM: loading NVIDIA UNIX x86_64 Kernel Module",
        "NVRM: Xid (PCI:0000:08:00): abc",
        "NVRM: Xid (PCI:0000:08:20): 79",
        "NVRM: Xid (PCI:08:00): 79",
        "NVRM: Xid (PCI:0000:08:00) 79",
        "NVRM: Xid (PCI:0000:08:00): 123456",
    ],
)
def test_other_lines_are_no_reports(line: str) -> None:
    assert parse_xid(line) is None


def test_what_says_that_a_function_was_reset_can_be_read_back() -> None:
    assert parse_reset(reset_message(CARD)) == CARD
    assert parse_reset("laneway: ../.. has been reset") is None
    assert parse_reset("somebody says laneway: 0000:08:00.0 has been reset") is None


@given(st.text() | st.text().map(lambda text: f"NVRM: Xid (PCI:0000:08:00): 154, {text}"))
def test_no_line_is_too_strange(line: str) -> None:
    parse_reset(line)
    xid = parse_xid(line)
    assert xid is None or xid.card == CARD
