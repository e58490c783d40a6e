from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.core import ids


@pytest.mark.parametrize(
    ("device", "word"),
    [
        ("25b6", "A2 / A16"),
        ("27b8", "L4"),
        ("26b9", "L40S"),
        ("2330", "H100"),
        ("2331", "H100"),
        ("2335", "H200"),
        ("2bb1", "RTX PRO 6000"),
        ("2bb4", "RTX PRO 6000"),
        ("2bb5", "RTX PRO 6000"),
    ],
)
def test_current_gpus_have_names(device: str, word: str) -> None:
    assert word in ids.pci_device("10de", device)


def test_names_are_found_at_every_level() -> None:
    assert ids.pci_vendor("10de") == "NVIDIA Corporation"
    assert ids.pci_subsystem("1000", "0073", "1028", "1f78") == "PERC H310"
    assert ids.pci_class("030200") == "Display controller"
    assert ids.pci_subclass("030200") == "3D controller"
    assert ids.usb_vendor("1d6b") == "Linux Foundation"
    assert ids.usb_product("1d6b", "0002") == "2.0 root hub"
    assert ids.usb_class("03") == "Human Interface Device"


def test_a_device_is_never_taken_from_another_vendor() -> None:
    assert ids.pci_device("10de", "1af4") == ""
    # 25b6 is an NVIDIA device; the vendors around it in the file have none of that id.
    assert ids.pci_device("10dd", "25b6") == ""
    assert ids.pci_device("10df", "25b6") == ""


@pytest.mark.parametrize(
    "bad", ["", "10DE", "10de\n", "10de  NVIDIA", "C 03", "10de\udcff", "#", "\x00", "1"]
)
def test_what_is_no_id_has_no_name(bad: str) -> None:
    assert ids.pci_device("10de", bad) == ""
    assert ids.pci_device(bad, "27b8") == ""
    assert ids.usb_product(bad, bad) == ""
    assert ids.pci_subclass(bad) == ""


@given(st.text(), st.text(), st.text(), st.text())
def test_any_text_is_an_answerable_question(one: str, two: str, three: str, four: str) -> None:
    assert ids.pci_vendor(one) == "" or len(one) == 4
    assert isinstance(ids.pci_subsystem(one, two, three, four), str)
    assert isinstance(ids.pci_class(one) + ids.usb_class(two), str)


DATABASE = b"""# a comment
0001  First
\t00aa  Child of first
# between
\t00ab  Second child
\t\t0001 0002  Board
\tbad
0002  Second \xff
\t00aa  Child of second"""


def test_entries_end_where_the_next_of_their_level_begins() -> None:
    first = ids.find_entry(DATABASE, "0001", 0, 0, len(DATABASE))
    assert first is not None
    child = ids.find_entry(DATABASE, "00ab", 1, first.start, first.end)
    assert child is not None
    board = ids.find_entry(DATABASE, "0001 0002", 2, child.start, child.end)
    second = ids.find_entry(DATABASE, "0002", 0, 0, len(DATABASE))
    assert second is not None
    last = ids.find_entry(DATABASE, "00aa", 1, second.start, second.end)

    assert (first.name, child.name) == ("First", "Second child")
    assert board is not None
    assert board.name == "Board"
    assert second.name == "Second \N{REPLACEMENT CHARACTER}"
    assert last is not None
    assert last.name == "Child of second"
    earlier = ids.find_entry(DATABASE, "00aa", 1, first.start, first.end)
    assert earlier is not None
    assert ids.find_entry(DATABASE, "0001 0002", 2, earlier.start, earlier.end) is None


@given(st.lists(st.sampled_from([b"\n", b"\t", b"0001", b"  ", b"#", b"\xff", b"x", b"C 03"])))
def test_a_malformed_database_never_raises(parts: list[bytes]) -> None:
    data = b"".join(parts)
    start, end = 0, len(data)

    for level, key in enumerate(("0001", "0001", "0001 0001")):
        entry = ids.find_entry(data, key, level, start, end)
        if entry is None:
            break
        assert start <= entry.start <= entry.end <= end
        assert "\n" not in entry.name
        start, end = entry.start, entry.end
