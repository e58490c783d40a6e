"""`laneway up` with directories, dumps and specs that it cannot use."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.processes import DEVICES, PROFILE, READY, SPEC, VGPU, Api, Laneway, failure

Start = Callable[..., Laneway]


def contents(directory: Path) -> dict[str, str]:
    """Digests of all files but the lock, which carries the process id of its last owner."""
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name != "lock"
    }


def damage(text: str, content: bytes | None) -> Any:
    return pytest.param(text, content, id=f"{text}-{'gone' if content is None else content[:7]!r}")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "content"),
    [
        damage("laneway.json", b"{"),
        damage("laneway.json", b'{"version": 2}'),
        damage("laneway.json", None),
        damage("state.db", b"garbage" * 3000),
        damage("token", b""),
        damage("token", b"\xff\xfe\x00"),
        damage("pki/ca.crt", b"garbage"),
        damage("pki/ca.key", None),
        damage("pki/server.crt", b"garbage"),
        damage("hosts/sim-a2-1.log", b"garbage\n"),
        damage("hosts/sim-a2-1.log", b'{"format":1,"base":"model l40s"}\n'),
    ],
)
def test_damaged_file_is_named_and_nothing_is_changed(
    stopped_dir: Path, tmp_path: Path, name: str, content: bytes | None
) -> None:
    copy = shutil.copytree(stopped_dir, tmp_path / "data")
    if content is None:
        (copy / name).unlink()
    else:
        (copy / name).write_bytes(content)
    before = contents(copy)
    line = failure("up", *SPEC, "--data-dir", str(copy))
    assert str(copy) in line
    if name != "laneway.json":
        assert str(copy / name) in line
    assert contents(copy) == before


@pytest.mark.slow
def test_truncated_database_is_named_and_not_changed(stopped_dir: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(stopped_dir, tmp_path / "data")
    os.truncate(copy / "state.db", (copy / "state.db").stat().st_size // 2)
    before = contents(copy)
    assert str(copy / "state.db") in failure("up", *SPEC, "--data-dir", str(copy))
    assert contents(copy) == before


@pytest.mark.slow
def test_what_can_be_made_again_is(stopped_dir: Path, tmp_path: Path, start: Start) -> None:
    copy = shutil.copytree(stopped_dir, tmp_path / "data")
    (copy / "kubeconfig").write_text("a: [")
    (copy / "pki" / "server.crt").unlink()
    with (copy / "hosts" / "sim-a2-1.log").open("a") as log:
        log.write('{"path": "/sys/bus')  # the process was killed while it wrote this
    start("up", *SPEC, "--data-dir", str(copy)).until(READY)
    vgpu = Api(copy).call(f"{DEVICES}/vgpudevices/{VGPU}")
    assert vgpu["status"]["configureVGPUTypeName"] == PROFILE


@pytest.mark.slow
def test_dump_that_is_cut_off_or_was_changed_is_refused(
    start: Start, tmp_path: Path, a2_dump_path: Path
) -> None:
    dump, kept = tmp_path / "a2.umockdev", tmp_path / "data"
    whole = a2_dump_path.read_text()
    dump.write_text(whole)
    arguments = (
        "--no-local",
        "--simulate",
        str(dump),
        "--port",
        "0",
        "--ui-port",
        "0",
        "--data-dir",
        str(kept),
    )
    up = start("up", *arguments)
    up.until(READY)
    assert up.until("  sim-a2-1  ").endswith(f"simulated from {dump}")
    carried = Api(kept).call(f"{DEVICES}/vgpudevices?labelSelector=nodename=sim-a2-1")["items"]
    assert sum(vgpu["spec"]["enabled"] for vgpu in carried) == 3
    assert up.end() == 0

    before = contents(kept)
    dump.write_text(whole[: len(whole) // 2].rstrip("\n"))
    assert dump.name in failure("up", *arguments)
    dump.write_text(whole.replace("A: numa_node=0", "A: numa_node=1"))
    assert str(kept / "hosts" / "sim-a2-1.log") in failure("up", *arguments)
    assert contents(kept) == before


@pytest.mark.slow
@pytest.mark.parametrize("spec", ["b7", "a2:0", "", "/proc/none/dump"])
def test_wrong_spec_makes_no_directory(tmp_path: Path, spec: str) -> None:
    target = tmp_path / "data"
    line = failure("up", "--no-local", "--simulate", spec, "--data-dir", str(target))
    assert "hgx-h100" in line or "1 to 1000" in line
    assert not target.exists()


@pytest.mark.slow
def test_directory_that_cannot_be_used_is_left_alone(tmp_path: Path) -> None:
    foreign = tmp_path / "photos"
    foreign.mkdir()
    (foreign / "cat.jpg").write_bytes(b"meow")
    file = tmp_path / "file"
    file.write_text("precious")
    assert "was not made by laneway" in failure("up", *SPEC, "--data-dir", str(foreign))
    assert f"{file}: Not a directory" in failure("up", *SPEC, "--data-dir", str(file))
    assert "/proc/laneway" in failure("up", *SPEC, "--data-dir", "/proc/laneway")
    assert contents(tmp_path).keys() == {"photos/cat.jpg", "file"}
    assert file.read_text() == "precious"


@pytest.mark.slow
def test_no_place_to_keep_data_is_said() -> None:
    assert "/proc/laneway: " in failure("up", *SPEC, XDG_DATA_HOME="/proc")
    assert "--data-dir" in failure("up", *SPEC, XDG_DATA_HOME="somewhere")
