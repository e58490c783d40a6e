"""What Laneway remembers of a node: for one boot, for one process at a time."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from laneway.core.pci import PciAddress
from laneway.host.plans import files
from laneway.host.plans.files import StateError
from laneway.host.plans.journal import Journal
from laneway.host.plans.state import BusyError, StateFolder, open_state
from laneway.sim.spec import build, parse_spec

VF = PciAddress.parse("0000:08:00.4")
OTHER = PciAddress.parse("0000:08:00.5")


@pytest.fixture
def state(tmp_path: Path) -> StateFolder:
    return StateFolder(str(tmp_path / "state"), "boot 1")


def test_nothing_is_made_before_it_is_needed(state: StateFolder) -> None:
    assert state.interrupted() == []
    assert state.originals == {}
    assert not os.path.exists(state.path)


def test_the_folder_is_for_its_owner_only(state: StateFolder) -> None:
    with state.lock("test"):
        state.remember(VF, "nvme")
    assert stat.S_IMODE(os.stat(state.path).st_mode) == 0o700
    for name in os.listdir(state.path):
        assert stat.S_IMODE(os.stat(os.path.join(state.path, name)).st_mode) == 0o600


def test_the_first_driver_of_a_function_is_remembered(state: StateFolder) -> None:
    with state.lock("test"):
        state.remember(VF, "nvme")
        state.remember(VF, "vfio-pci")
        state.remember(OTHER, "")
        state.remember_usb("1-4", (0, 5))
        state.remember_usb("1-4", (107, 107))
    again = StateFolder(state.path, "boot 1")

    assert again.originals == {VF: "nvme", OTHER: ""}
    assert again.usb_originals == {"1-4": (0, 5)}
    again.forget(VF)
    again.forget_usb("1-4")
    assert state.originals == {OTHER: ""}
    assert state.usb_originals == {}


def test_a_quarantine_can_be_lifted(state: StateFolder) -> None:
    with state.lock("test"):
        state.quarantine(VF, "it stays silent")
    assert state.quarantined == {VF: "it stays silent"}
    assert state.lift_quarantine(VF)
    assert not state.lift_quarantine(VF)
    assert state.quarantined == {}


def test_what_was_done_to_devices_is_gone_with_a_reboot(state: StateFolder) -> None:
    with state.lock("test"):
        state.remember(VF, "nvme")
        state.quarantine(OTHER, "it stays silent")

    after = StateFolder(state.path, "boot 2")

    assert after.originals == {}
    assert after.quarantined == {}
    after.remember(OTHER, "ixgbe")
    assert after.originals == {OTHER: "ixgbe"}


def test_a_card_is_as_booted_until_it_is_settled(state: StateFolder) -> None:
    assert not state.is_as_booted(VF)  # What there was before this folder is not known.
    with state.lock("test"):
        state.settle(VF)
    for _ in ("a new agent", "and another one"):
        after = StateFolder(state.path, "boot 2")
        assert after.is_as_booted(VF)
        assert after.is_as_booted(OTHER)
        with after.lock("test"):
            after.remember(VF, "nvidia")
    with after.lock("test"):
        after.settle(VF)
    again = StateFolder(state.path, "boot 2")
    assert not again.is_as_booted(VF)
    assert again.is_as_booted(OTHER)
    assert StateFolder(state.path, "boot 3").is_as_booted(VF)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"\xff",
        b'{"boot":"\xff"}',
        b'{"boot":"boot 1","originals":{"../../etc":"x"}}',
    ],
)
def test_a_damaged_memory_says_so(state: StateFolder, content: bytes) -> None:
    with state.lock("test"):
        Path(state.path, "devices.json").write_bytes(content)
    with pytest.raises(StateError, match=r"devices\.json.* is damaged"):
        assert state.originals


def test_a_list_of_the_quarantine_shows_what_of_a_damaged_memory_can_be_read(
    state: StateFolder,
) -> None:
    state.quarantine_to_show()
    with state.lock("test"):
        state.quarantine(VF, "EIO")
    assert state.quarantine_to_show() == ({str(VF): "EIO"}, "")
    file = Path(state.path, "devices.json")
    file.write_bytes(file.read_bytes().replace(b'"boot"', b'"originals":[],"boot"'))
    found, problem = state.quarantine_to_show()
    assert found == {str(VF): "EIO"}
    assert str(file) in problem
    file.write_bytes(b"{")
    assert state.quarantine_to_show()[0] == {}
    assert str(file) in state.quarantine_to_show()[1]


@pytest.mark.parametrize("name", ["audit.jsonl", "devices.json", "lock"])
def test_a_full_disk_names_the_file_and_says_what_helps(
    state: StateFolder, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    with state.lock("test"):
        pass

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for call in ("write", "pwrite", "fsync"):
        monkeypatch.setattr(os, call, full)
    write = {
        "audit.jsonl": lambda: files.append(state.audit, b"{}", create=True),
        "devices.json": lambda: state.quarantine(VF, "EIO"),
        "lock": lambda: state.lock("another").__enter__(),
    }
    with pytest.raises(OSError, match="free some space") as refused:
        write[name]()
    assert refused.value.errno == errno.ENOSPC
    assert refused.value.filename == os.path.join(state.path, name)
    assert not Path(state.path, f"{name}.new").exists()


def test_one_lock_at_a_time(state: StateFolder) -> None:
    other = StateFolder(state.path, "boot 1")
    with state.lock("laneway agent"):
        with state.lock("again, in the same process"):
            pass
        with pytest.raises(BusyError) as busy, other.lock("laneway host"):
            pass
        assert busy.value.refusal.holder == f"laneway agent (process {os.getpid()})"
    with other.lock("laneway host"):
        pass


_HOLDER = """
import sys
from laneway.host.plans.state import StateFolder
with StateFolder(sys.argv[1], "boot 1").lock("the other"):
    print("locked", flush=True)
    sys.stdin.read()
"""


def test_another_process_keeps_the_lock_until_it_dies(state: StateFolder) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _HOLDER, state.path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"locked\n"
        with pytest.raises(BusyError) as busy, state.lock("me"):
            pass
        holder.kill()
    with state.lock("me"):
        pass

    assert busy.value.refusal.holder == f"the other (process {holder.pid})"


def test_an_agent_serves_a_node_alone_and_lets_others_plan(state: StateFolder) -> None:
    other = StateFolder(state.path, "boot 1")
    with state.serving("laneway agent"):
        with other.lock("laneway host"):
            pass
        with pytest.raises(BusyError) as busy, other.serving("laneway agent"):
            pass
        assert busy.value.refusal.holder == f"laneway agent (process {os.getpid()})"
    with other.serving("laneway agent"):
        pass


def test_journals_of_running_plans_are_not_interrupted_ones(state: StateFolder) -> None:
    with state.lock("test"):
        paths = [state.new_journal() for _ in range(2)]
        for path in paths:
            Path(path).touch()
        with state.running(paths[0]):
            found = state.interrupted()
    assert found == sorted({*paths} - {paths[0]})
    assert state.interrupted() == sorted(paths)
    assert Journal(paths[0]).id.startswith("plan-")


def test_a_folder_that_cannot_be_listed_says_so(state: StateFolder) -> None:
    Path(state.path).write_text("in the way")
    with pytest.raises(StateError, match="Not a directory"):
        state.interrupted()


def test_a_folder_in_which_others_could_leave_a_plan_is_not_used(state: StateFolder) -> None:
    with state.lock("test"):
        pass
    os.chmod(state.path, 0o777)
    with pytest.raises(PermissionError, match="other users can write to it"), state.lock("test"):
        pass


def test_the_boot_is_what_the_node_says(tmp_path: Path) -> None:
    host = build(parse_spec("a2"), "node1")
    state = open_state(str(tmp_path), host)
    assert state.boot == host.read("/proc/sys/kernel/random/boot_id").decode().strip()
    assert state.boot
