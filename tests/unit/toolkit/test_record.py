"""What a node remembers of its driver, where the disk takes nothing more."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from laneway.core.driver_toolkit.failure import ToolkitError
from laneway.core.driver_toolkit.settings import Settings
from laneway.core.driver_toolkit.state import Driver
from laneway.toolkit.places import Places
from laneway.toolkit.record import Record
from laneway.toolkit.run import run_toolkit

DRIVER = Driver("570.1.1", "0a" * 32)


def test_a_full_disk_ends_no_driver_that_serves(tmp_path: Path) -> None:
    folder = tmp_path / "driver"
    folder.mkdir()
    record = Record(str(folder / "state.json"))
    record.begin(DRIVER, "boot", "6.1")
    record.change(serving=DRIVER)
    folder.rename(tmp_path / "gone")

    record.note(stage="Waiting", reason="DriverInUse")
    with pytest.raises(ToolkitError, match="cannot be written"):
        record.change(loaded=None)  # the next container relies on it

    (tmp_path / "gone").rename(folder)
    record.note(message="again")
    written = json.loads((folder / "state.json").read_bytes())
    assert (written["stage"], written["message"]) == ("Waiting", "again")


def test_without_a_driver_a_full_disk_is_a_failure(tmp_path: Path) -> None:
    record = Record(str(tmp_path / "absent/state.json"))

    with pytest.raises(ToolkitError, match="cannot be written"):
        record.note(stage="Waiting")


async def test_a_folder_that_cannot_be_written_is_told_to_kubernetes(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    termination = tmp_path / "termination-log"
    termination.write_text("")
    places = Places(state=str(tmp_path / "file/driver"), termination=str(termination))
    settings = Settings(location="/driver/a.run", version="570.1.1", sha256="0a" * 32)

    with pytest.raises(ToolkitError):
        await run_toolkit(settings, places)

    assert termination.read_text().startswith(f"NodeFull: {places.state} cannot be written: ")
