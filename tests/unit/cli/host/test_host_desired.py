"""What `laneway host` takes on its command line."""

from __future__ import annotations

from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.cli.host.desired import address, device, usb_port, vgpus
from laneway.core.pci import PciAddress

A2 = PciAddress.parse("0000:08:00.0")


@pytest.mark.parametrize("text", ["0000:08:00.0", "08:00.0", " 0000:08:00.0 ", "00000000:08:00.0"])
def test_an_address_may_leave_out_its_domain(text: str) -> None:
    assert address(text) == A2


@pytest.mark.parametrize("text", ["", "8:0.0", "../../etc", "0000:08:00.0/../..", "0000:08:00.8"])
def test_what_is_no_address_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"0000:08:00\.0"):
        address(text)


@pytest.mark.parametrize(("text", "found"), [("3-1.2", "3-1.2"), ("1-4", "1-4"), ("08:00.0", A2)])
def test_a_device_is_a_usb_port_or_an_address(text: str, found: Any) -> None:
    assert device(text) == found


@pytest.mark.parametrize("text", ["", "usb1", "3-1/..", "3-1.2:1.0", "a-b"])
def test_what_is_no_usb_port_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"3-1\.2"):
        usb_port(text)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("A2-4Q=2,NVIDIA A2-8Q", {"A2-4Q": 2, "NVIDIA A2-8Q": 1}),
        ("NVIDIA A2-4Q, NVIDIA A2-4Q=2", {"NVIDIA A2-4Q": 3}),
        ("NVIDIA RTX Pro 6000 Blackwell DC-4Q", {"NVIDIA RTX Pro 6000 Blackwell DC-4Q": 1}),
        ("none", {}),
    ],
)
def test_vgpus_are_written_as_for_a_cluster(text: str, found: Any) -> None:
    assert vgpus(text) == found


@pytest.mark.parametrize("text", ["", ",", "NVIDIA A2-4Q=0", "A2-4Q,,", "A2-4Q\x1b[31m"])
def test_vgpus_that_make_no_sense_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(click.BadParameter, match="write A2-4Q, A2-4Q=2"):
        vgpus(text)


@pytest.mark.parametrize("text", ['2x"NVIDIA A2-4Q"', "A2-8Q,2 X NVIDIA A2-4Q"])
def test_a_count_before_the_profile_is_answered_with_how_it_is_written(text: str) -> None:
    with pytest.raises(click.BadParameter, match="write NVIDIA A2-4Q=2"):
        vgpus(text)


@given(st.text(max_size=40))
def test_any_text_is_taken_or_refused(text: str) -> None:
    for kind in (address, device, usb_port, vgpus):
        try:
            kind(text)
        except click.BadParameter:
            continue
