"""What a probe and a person learn of a node's driver."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from laneway.cli import run
from laneway.core.driver_toolkit.state import Driver, State
from laneway.toolkit import answering
from laneway.toolkit.record import Record

OLD, NEW = Driver("550.90.05", "0a" * 32), Driver("570.133.20", "0b" * 32)


def noted(folder: Path, **fields: object) -> list[str]:
    record = Record(str(folder / "state.json"), lambda: "2026-01-02T03:04:05Z")
    record.begin(NEW, "boot", "6.12.1")
    record.change(**fields)
    return [f"--state-dir={folder}"]


def smi(folder: Path, monkeypatch: pytest.MonkeyPatch, status: int, said: str = "") -> None:
    """A driver that answers so."""
    path = folder / "nvidia-smi"
    path.write_text(f"#!/bin/sh\necho {said}\nexit {status}\n")
    path.chmod(0o755)
    monkeypatch.setattr(answering, "NVIDIA_SMI", str(path))


def test_before_a_toolkit_has_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("ready", "status"):
        assert run(["driver-toolkit", command, f"--state-dir={tmp_path}"]) == 1
        assert "no driver toolkit has run on this node" in capsys.readouterr().err


@pytest.mark.parametrize("status", [0, 6])
def test_ready_is_a_driver_that_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    """6: every GPU is passed through, and the driver has none."""
    smi(tmp_path, monkeypatch, status)

    assert run(["driver-toolkit", "ready", *noted(tmp_path, stage="Ready", serving=NEW)]) == 0


def test_a_record_alone_is_not_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    smi(tmp_path, monkeypatch, 9, "cannot communicate with the driver")

    assert run(["driver-toolkit", "ready", *noted(tmp_path, stage="Ready", serving=NEW)]) == 1
    assert "cannot communicate with the driver" in capsys.readouterr().err


def test_a_driver_that_answers_is_not_ready_before_its_daemons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    smi(tmp_path, monkeypatch, 0)

    assert run(["driver-toolkit", "ready", *noted(tmp_path, stage="Loading")]) == 1
    assert "driver 570.133.20: Loading" in capsys.readouterr().err


def test_the_former_driver_serves_while_an_upgrade_waits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = noted(
        tmp_path, stage="Waiting", serving=OLD, reason="DriverInUse", message="a vGPU exists"
    )

    assert run(["driver-toolkit", "status", *where]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "Stage:      Waiting since 2026-01-02T03:04:05Z",
        "Requested:  570.133.20 (sha256 0b0b0b0b0b0b)",
        "In service: 550.90.05 (sha256 0a0a0a0a0a0a)",
        "Previous:   none",
        "Kernel:     6.12.1",
        "Reason:     DriverInUse",
        "Message:    a vGPU exists",
    ]
    assert run(["driver-toolkit", "status", "-o", "json", *where]) == 0
    assert json.loads(capsys.readouterr().out)["serving"]["version"] == "550.90.05"


def test_a_damaged_record_is_begun_again(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text("{")

    assert Record(str(tmp_path / "state.json")).state == State()
    assert run(["driver-toolkit", "status", f"--state-dir={tmp_path}"]) == 1
