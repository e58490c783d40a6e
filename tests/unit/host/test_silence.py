"""Which functions have fallen off the bus."""

from __future__ import annotations

from pathlib import Path

import pytest

from laneway.core.pci import PciAddress
from laneway.host.real import RealHost
from laneway.host.silence import read_silent

CARD = PciAddress.parse("0000:08:00.0")
VF_HEADER = b"\xff\xff\xff\xff\x00\x00\x10\x00\xa1\x00\x02\x03" + bytes(52)
"""A VF shows FFFF for its ids in perfect health."""


@pytest.mark.parametrize(
    ("config", "silent"),
    [
        (b"\xff" * 4096, True),
        (b"\xff" * 64, True),
        (VF_HEADER + b"\xff" * 192, False),
        (b"\xff" * 8, False),  # cut short: who may not read more is not the judge
        (b"", False),
    ],
)
def test_all_ones_is_silence(tmp_path: Path, config: bytes, silent: bool) -> None:
    home = tmp_path / f"sys/bus/pci/devices/{CARD}"
    home.mkdir(parents=True)
    (home / "config").write_bytes(config)
    assert read_silent(RealHost(str(tmp_path)), [CARD]) == ({CARD} if silent else set())


def test_what_cannot_be_read_is_not_judged(tmp_path: Path) -> None:
    assert read_silent(RealHost(str(tmp_path)), [CARD]) == frozenset()
