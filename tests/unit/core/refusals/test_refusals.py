"""Refusals: a reason that never changes, and words that a person can act on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.core import refusals
from laneway.core.ledger.facts import Consumer, ConsumerKind
from laneway.core.refusals import (
    ClaimInUse,
    DeviceHeld,
    DeviceInUse,
    DriverMissing,
    NoNodeHasResource,
    Refusal,
    WriteFailed,
)
from laneway.core.use import Use, VmState
from support.values import built

VM = Consumer(ConsumerKind.VM, "b", "a")
POD = Consumer(ConsumerKind.POD, "b", "p")


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


def test_what_is_left_over_is_reported() -> None:
    assert "undone" not in WriteFailed("reset it", "no (EIO)").words
    left = WriteFailed("reset it", "no (EIO)", ("this", "that")).words
    assert left == "Could not reset it: no (EIO). These steps could not be undone: this; that."


def test_every_user_is_named() -> None:
    words = DeviceHeld("x", ("one", "two")).words
    assert words == "x is in use: one; two. End this use first."


def test_what_ends_a_use_is_reported() -> None:
    held = DeviceHeld("x", ("one", "two"), (9,), ("End the process: kill 9",))
    assert held.words == "x is in use: one; two. End the process: kill 9"


@pytest.mark.parametrize(
    ("use", "remedy"),
    [
        (
            Use(VM, VmState.RUNS),
            "Delete the VM, or remove the device from it and restart it: kubectl edit vm a -n b",
        ),
        (
            Use(VM, VmState.STOPPED),
            "Delete the VM, or remove the device from it: kubectl edit vm a -n b",
        ),
        (Use(POD, VmState.RUNS), "Delete the pod: kubectl delete pod p -n b"),
    ],
)
def test_how_a_user_releases_is_reported(use: Use, remedy: str) -> None:
    assert DeviceInUse("x", (use,)).words.endswith(f"). {remedy}")
    assert ClaimInUse("x", (use, use)).words.endswith(f"). {remedy}; {remedy}")


@pytest.mark.parametrize(
    ("resource", "remedy"),
    [
        (
            "nvidia.com/GRID_A100-8C",
            "To configure such a vGPU: laneway vgpu set NODE/ADDRESS A100-8C",
        ),
        ("nvidia.com/AD104GL_L4", "To claim such a device: laneway claim NODE/ADDRESS"),
    ],
)
def test_how_a_resource_comes_to_be_is_reported(resource: str, remedy: str) -> None:
    assert NoNodeHasResource(resource, ("x/y",)).words.endswith(f" x/y. {remedy}")
    assert NoNodeHasResource(resource, ()).words.endswith(f"such a device. {remedy}")
