"""The journal of desired states that follow their cards."""

from __future__ import annotations

from pathlib import Path

import pytest

from laneway.core.pci import PciAddress
from laneway.core.renumbering import DesiredState, Gone, Move, Renumbering
from laneway.host.plans import moved
from laneway.host.plans.files import StateError
from laneway.host.plans.state import StateFolder

A2, NEXT = PciAddress.parse("0000:08:00.0"), PciAddress.parse("0000:09:00.0")
BEGUN = Renumbering(
    (Move("GPU-A", A2, NEXT),),
    (
        DesiredState(
            "SRIOVGPUDevice", NEXT, NEXT, {"enabled": True, "mode": ""}, {"gpuUUID": "GPU-A"}
        ),
    ),
    (Gone("SRIOVGPUDevice", "node1-000008000", "uid"),),
    {str(NEXT): "GPU-B"},
)


@pytest.fixture
def state(tmp_path: Path) -> StateFolder:
    return StateFolder(str(tmp_path), "boot")


def test_what_was_begun_is_known_in_every_later_boot_until_it_is_ended(state: StateFolder) -> None:
    assert moved.read(state) is None

    moved.begin(state, BEGUN)
    later = StateFolder(state.path, "later boot")
    assert moved.read(later) == BEGUN

    moved.end(later)
    assert moved.read(state) is None


def test_it_is_no_journal_of_a_plan(state: StateFolder) -> None:
    moved.begin(state, BEGUN)

    assert state.interrupted() == []


@pytest.mark.parametrize("damage", [b"", b"{", b'{"moves": 1}', b"\xff"])
def test_damage_is_said(state: StateFolder, tmp_path: Path, damage: bytes) -> None:
    moved.begin(state, BEGUN)
    (tmp_path / "renumbering.json").write_bytes(damage)

    with pytest.raises(StateError, match=r"renumbering.json is damaged"):
        moved.read(state)
