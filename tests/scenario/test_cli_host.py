"""`laneway host` as a person with one server runs it, on simulated hosts that remember."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support import in_process

A2_4Q = "NVIDIA A2-4Q"
Laneway = Callable[..., subprocess.CompletedProcess[str]]


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "laneway", *arguments]


@pytest.fixture
def laneway(tmp_path: Path) -> Laneway:
    """Runs a command on a simulated host that the test keeps."""

    def run(*arguments: str, on: str = "a2", status: int = 0) -> subprocess.CompletedProcess[str]:
        kept = ("--simulate", on, "--state-dir", str(tmp_path / "state"))
        done = in_process.command("host", *arguments, *kept)
        assert "Traceback" not in done.stderr
        assert done.returncode == status, (done.stdout, done.stderr)
        return done

    return run


def lines(done: subprocess.CompletedProcess[str]) -> list[str]:
    return done.stdout.splitlines()


def test_a_plan_is_shown_and_nothing_is_done(laneway: Laneway, tmp_path: Path) -> None:
    desired = ("gpu", "08:00.0", "--vgpus", "A2-4Q=2")

    for shown in (laneway("plan", *desired), laneway("apply", *desired, "--dry-run")):
        head, *steps = lines(shown)
        assert head == "Would do, in this order:"
        assert [step[:6] for step in steps] == ["  1. c", "  2. c"]
        assert all("A2-4Q" in step for step in steps)

    assert not (tmp_path / "state" / "audit.jsonl").exists()


def test_vgpus_come_stay_and_go(laneway: Laneway) -> None:
    two = lines(laneway("apply", "gpu", "08:00.0", "--vgpus", f"{A2_4Q}=2"))
    again = lines(laneway("apply", "gpu", "08:00.0", "--vgpus", f"{A2_4Q}=2"))
    more = lines(laneway("apply", "gpu", "08:00.0", "--vgpus", "a2-4q=3"))
    gone = lines(laneway("release", "08:00.0"))

    assert two[-1] == "Done: 2 steps."
    assert again == ["Nothing to do: the device is as desired."]
    assert more[-1] == "Done: 1 step."
    assert [line for line in gone if "remove A2-4Q" in line] == gone[:3]
    assert "disable the 16 virtual functions of GPU 0000:08:00.0" in gone[3]
    assert gone[-1] == "Done: 4 steps."


def test_functions_and_vgpus_come_in_one_command(laneway: Laneway) -> None:
    laneway("release", "08:00.0")

    desired = ("gpu", "08:00.0", "--vgpus", f"{A2_4Q}")

    shown = lines(laneway("plan", *desired))
    done = lines(laneway("apply", *desired))

    assert shown[1] == "  1. enable the 16 virtual functions of GPU 0000:08:00.0 with sriov-manage"
    assert shown[2].startswith("Then")
    assert "A2-4Q=1" in shown[3]
    assert "enable the 16 virtual functions" in done[0]
    assert "A2-4Q" in done[1]
    assert done[-1] == "Done: 2 steps."


def test_everything_that_speaks_against_a_desired_state_is_reported_before_anything_is_done(
    laneway: Laneway, tmp_path: Path
) -> None:
    done = laneway("apply", "passthrough", "01:00.0", on="plain", status=1)

    assert done.stdout == ""
    *reasons, last = done.stderr.splitlines()
    assert reasons[0].startswith("DeviceUnusable: 0000:01:00.0 cannot be passed")
    assert "holds the root file system" in reasons[0]
    assert last == "laneway: refused; nothing was changed"
    assert not (tmp_path / "state" / "audit.jsonl").exists()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("gpu", "08:00.0", "--vgpus", "NVIDIA A2-4Q=5"), "LayoutDoesNotFit"),
        (("gpu", "08:00.0", "--vgpus", "NVIDIA A2-1B=17"), "LayoutDoesNotFit"),
        (("gpu", "08:00.0", "--vgpus", "NVIDIA A40-4Q=1"), "ProfileNotOffered"),
        (("gpu", "08:00.0", "--vgpus", "NVIDIA A2-4Q,NVIDIA A2-8Q"), "SizesMixed"),
        (("gpu", "01:00.0", "--vgpus", "NVIDIA A2-4Q=1"), "VgpuUnsupported"),
        (("gpu", "ff:00.0", "--vgpus", "NVIDIA A2-4Q=1"), "DeviceNotFound"),
        (("passthrough", "08:00.0"), "DeviceUnusable"),
        (("passthrough", "ff:00.0"), "DeviceNotFound"),
        (("vfs", "04:00.1", "--count", "8"), "VfCountInvalid"),
        (("vfs", "01:00.0", "--count", "2"), "NoSriov"),
        (("usb", "9-9"), "DeviceNotFound"),
    ],
)
def test_what_cannot_be_is_refused_with_its_reason(
    laneway: Laneway, arguments: tuple[str, ...], reason: str
) -> None:
    done = laneway("apply", *arguments, status=1)

    assert done.stderr.splitlines()[0].startswith(f"{reason}: ")


@pytest.mark.parametrize(
    "arguments",
    [
        ("apply", "passthrough", "../../etc/passwd"),
        ("apply", "passthrough", "0000:08:00.0; reboot"),
        ("apply", "gpu", "08:00.0", "--vgpus", "NVIDIA A2-4Q=0"),
        ("apply", "vfs", "04:00.1", "--count", "-1"),
        ("apply", "usb", "../1-1"),
        ("release", "usb1"),
    ],
)
def test_what_is_no_device_reaches_no_path(laneway: Laneway, arguments: tuple[str, ...]) -> None:
    done = laneway(*arguments, status=2)

    assert done.stdout == ""
    assert "Invalid value" in done.stderr


def test_a_device_goes_to_vfio_pci_and_back_to_its_driver(laneway: Laneway) -> None:
    given = lines(laneway("apply", "passthrough", "08:00.0", on="plain"))
    back = lines(laneway("release", "08:00.0", on="plain"))

    assert given[0].startswith("[1/3] unbind 0000:08:00.0 from driver nvme ... done")
    assert given[-1] == "Done: 3 steps."
    assert "let the kernel bind a driver to 0000:08:00.0" in back[-2]
    nothing = lines(laneway("release", "08:00.0", on="plain"))
    assert nothing == ["Nothing to do: the device is as desired."]


def test_every_write_is_on_record(laneway: Laneway, tmp_path: Path) -> None:
    laneway("apply", "vfs", "17:00.0", "--count", "2", on="plain")

    record = (tmp_path / "state" / "audit.jsonl").read_text().splitlines()
    written: list[dict[str, Any]] = [json.loads(line) for line in record]
    assert {one["actor"] for one in written} == {"laneway host"}
    assert {one["reason"] for one in written} == {"vfs 0000:17:00.0: 2"}
    steps = [one["words"] for one in written if one["outcome"] == "done" and "step" in one]
    assert steps[-1] == "create 2 virtual functions of 0000:17:00.0"


def test_two_at_once_do_not_mix(laneway: Laneway, tmp_path: Path) -> None:
    laneway("plan", "passthrough", "08:00.0", on="plain")
    held = (
        "import fcntl, os, sys\n"
        "fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)\n"
        "fcntl.flock(fd, fcntl.LOCK_EX)\n"
        "os.write(fd, b'another program\\n')\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", held, str(tmp_path / "state" / "lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        done = laneway("apply", "passthrough", "08:00.0", on="plain", status=1)
        assert holder.stdin is not None
        holder.stdin.close()

    assert "Another process is changing this host: another program" in done.stderr


def test_what_was_interrupted_is_ended_by_the_next_command(
    laneway: Laneway, tmp_path: Path
) -> None:
    desired = ("apply", "gpu", "08:00.0", "--vgpus", "NVIDIA A2-1B=16")
    kept = ("--simulate", "a2", "--state-dir", str(tmp_path / "state"))
    with subprocess.Popen(
        command("host", *desired, *kept),
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as begun:
        assert begun.stdout is not None
        seen = b""
        while b"[ 3/16]" not in seen:
            seen += os.read(begun.stdout.fileno(), 4096)
        begun.send_signal(signal.SIGKILL)

    shown = lines(laneway("plan", "gpu", "08:00.0", "--vgpus", "NVIDIA A2-1B=1"))
    done = lines(laneway(*desired))

    assert "interrupted plan" in shown[0]
    assert any("NVIDIA A2-1B=16) was finished" in line for line in done)
    assert lines(laneway(*desired)) == ["Nothing to do: the device is as desired."]


def test_a_state_folder_that_cannot_be_used_is_reported_before_anything_is_done(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").touch()
    done = subprocess.run(
        command(
            "host",
            "apply",
            "passthrough",
            "08:00.0",
            "--simulate",
            "plain",
            "--state-dir",
            str(tmp_path / "file"),
        ),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert line == f"laneway: --state-dir {tmp_path / 'file'} cannot be a folder: a file is there"


def test_an_empty_state_folder_is_no_folder() -> None:
    done = subprocess.run(
        command("host", "plan", "passthrough", "08:00.0", "--simulate", "plain", "--state-dir", ""),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert done.returncode == 2
    assert "--state-dir is empty" in done.stderr
