from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.core.pci import PciAddress, PciFunction

ADDRESSES = st.builds(
    PciAddress,
    domain=st.integers(0, 2**32 - 1),
    bus=st.integers(0, 255),
    device=st.integers(0, 31),
    function=st.integers(0, 7),
)


@given(ADDRESSES)
def test_an_address_survives_being_written(address: PciAddress) -> None:
    assert PciAddress.parse(str(address)) == address


@pytest.mark.parametrize(
    "text",
    [
        "",
        "08:00.0",
        "0000:08:00",
        "0000:08:00.8",
        "0000:08:20.0",
        "0000:08:00.0\n",
        " 0000:08:00.0",
        "0000:0A:00.0",
        "00000:08:00.0",
        "0000:08:00.0/../..",
        "\N{ARABIC-INDIC DIGIT ZERO}" * 4 + ":08:00.0",
        "123456789:08:00.0",
    ],
)
def test_anything_else_is_refused_with_the_text(text: str) -> None:
    with pytest.raises(ValueError, match="not a PCI address"):
        PciAddress.parse(text)


@given(st.text())
def test_only_what_is_printed_the_same_is_accepted(text: str) -> None:
    try:
        address = PciAddress.parse(text)
    except ValueError:
        return
    assert str(address) == text


def test_addresses_sort_as_the_hardware_counts() -> None:
    texts = ["0000:08:00.4", "0000:08:01.0", "0000:0a:00.0", "0001:00:00.0", "10000:00:00.0"]

    assert [str(one) for one in sorted(map(PciAddress.parse, reversed(texts)))] == texts


@pytest.mark.parametrize(
    ("class_code", "gpu", "bridge"),
    [
        ("030000", True, False),
        ("030200", True, False),
        ("038000", False, False),
        ("060400", False, True),
        ("060000", False, False),
    ],
)
def test_the_class_says_what_a_function_is(class_code: str, gpu: bool, bridge: bool) -> None:
    function = PciFunction(
        address=PciAddress(0, 8, 0, 0), vendor="10de", device="25b6", class_code=class_code
    )

    assert (function.is_gpu, function.is_bridge) == (gpu, bridge)


@given(st.integers(0, 0xFFFF), st.integers(0, 0xFFFF), st.integers(0, 0xFFFF))
def test_functions_keep_their_distance_from_their_card(before: int, after: int, one: int) -> None:
    old, new, function = (PciAddress(0, n >> 8, n >> 3 & 31, n & 7) for n in (before, after, one))
    if not 0 <= one - before + after <= 0xFFFF:
        with pytest.raises(ValueError, match="no bus has room"):
            function.shifted(old, new)
        return
    there = function.shifted(old, new)
    assert there.shifted(new, old) == function
    assert (there == new) is (function == old)
    assert (there > new) is (function > old)
