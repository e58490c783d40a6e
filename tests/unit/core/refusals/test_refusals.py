"""Refusals: a reason that never changes, and words that a person can act on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.core import refusals
from laneway.core.refusals import DeviceHeld, DriverMissing, Refusal, WriteFailed
from support.values import built


def test_every_refusal_is_named_by_the_package() -> None:
    assert {kind.__name__ for kind in Refusal.__subclasses__()} == {*refusals.__all__} - {
        "Refusal",
        "reason_of",
    }


@pytest.mark.parametrize("kind", Refusal.__subclasses__(), ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_every_refusal_is_one_line(kind: type[Refusal], data: st.DataObject) -> None:
    refusal = data.draw(built(kind))
    words = refusal.words
    assert refusal.reason == refusals.reason_of(kind)
    assert words.isprintable()
    assert "  " not in words
    assert "None" not in words


def test_the_remedy_names_the_command() -> None:
    said = DriverMissing("0000:08:00.0", "vfio-pci", "nvidia").words
    assert said.endswith("laneway host release 0000:08:00.0")
    assert "has no driver" in DriverMissing("0000:08:00.0", "", "nvidia").words
    assert "is on driver ice" in DriverMissing("0000:08:00.0", "ice", "nvidia").words


def test_what_is_left_over_is_told() -> None:
    assert "undone" not in WriteFailed("reset it", "no (EIO)").words
    left = WriteFailed("reset it", "no (EIO)", ("this", "that")).words
    assert left == "Could not reset it: no (EIO). These steps could not be undone: this; that."


def test_every_user_is_named() -> None:
    words = DeviceHeld("x", ("one", "two")).words
    assert words == "x is in use: one; two. Stop the VM or end the process first."
