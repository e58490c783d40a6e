"""Files that are replaced as a whole, alike on a real and on a simulated host."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from laneway.host.port import Host
from laneway.host.real import RealHost
from laneway.sim.spec import build, parse_spec


def _real(tmp_path: Path) -> Host:
    for folder in ("etc/default", "boot/efi", "sys"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "etc/default/grub").write_text("old")
    (tmp_path / "etc/grubenv").symlink_to("/boot/efi/grubenv")
    (tmp_path / "boot/efi/grubenv").write_text("old")
    return RealHost(str(tmp_path))


def _simulated(_tmp_path: Path) -> Host:
    host = build(parse_spec("plain"), "node1")
    host.tree.put("/etc/grubenv", "/boot/efi/grubenv")
    host.tree.put("/boot/efi/grubenv", b"old")
    return host


@pytest.fixture(params=[_real, _simulated])
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Host:
    make: Callable[[Path], Host] = request.param
    return make(tmp_path)


def test_a_file_comes_changes_and_goes(host: Host) -> None:
    path = "/etc/default/grub.d/90-laneway.cfg"

    host.replace(path, "one\n")
    assert host.read(path) == b"one\n"
    host.replace(path, "two ü\n")
    assert host.read(path) == "two ü\n".encode()
    host.replace(path, None)

    assert not host.exists(path)
    assert path.rpartition("/")[2] not in host.names("/etc/default/grub.d")
    host.replace(path, None)  # what is gone may go again


def test_a_folder_that_is_made_is_on_the_disk_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = _real(tmp_path)
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.readlink(f"/proc/self/fd/{fd}")))

    host.replace("/etc/default/grub.d/90-laneway.cfg", "one\n")

    made = str(tmp_path / "etc/default/grub.d")
    assert {str(tmp_path / "etc/default"), made} <= set(synced)


def test_a_link_stays_one(host: Host) -> None:
    host.replace("/etc/grubenv", "new")

    assert host.readlink("/etc/grubenv") == "/boot/efi/grubenv"
    assert host.read("/boot/efi/grubenv") == b"new"


def test_owner_and_mode_stay_and_nothing_else_is_left(tmp_path: Path) -> None:
    host = _real(tmp_path)
    file = tmp_path / "etc/default/grub"
    file.chmod(0o640)

    host.replace("/etc/default/grub", "new")

    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert os.listdir(tmp_path / "etc/default") == ["grub"]


def test_a_disk_that_refuses_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = _real(tmp_path)

    def full(_fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as caught:
        host.replace("/etc/default/grub", "new")

    assert caught.value.filename == "/etc/default/grub"
    assert host.read("/etc/default/grub") == b"old"
    assert os.listdir(tmp_path / "etc/default") == ["grub"]
