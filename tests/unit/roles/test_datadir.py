"""The data directory: whose it is, of which version, and how a wrong one is refused."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from kubebasics.files import FolderError
from laneway.roles.datadir import open_data_dir

HOLD = """
import sys
from laneway.roles.datadir import open_data_dir
with open_data_dir(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_new_directory_is_private_and_continues(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b"
    with open_data_dir(str(path)) as data:
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
        Path(data.kubeconfig).write_text("kept")
        Path(data.host_log("sim-a2-1")).write_text("kept")
    with open_data_dir(str(path)) as data:
        assert Path(data.kubeconfig).read_text() == "kept"
        assert Path(data.host_log("sim-a2-1")).read_text() == "kept"


def test_relative_path_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with open_data_dir("data") as data:
        assert data.kubeconfig == str(tmp_path / "data" / "kubeconfig")


def test_one_process_at_a_time_and_a_killed_one_holds_nothing(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with (
            pytest.raises(FolderError, match=rf"in use .* \(process {other.pid}\)"),
            open_data_dir(str(tmp_path)),
        ):
            pass
        other.kill()
        other.wait()
        with open_data_dir(str(tmp_path)):
            pass


def test_start_that_was_killed_at_once_left_a_usable_directory(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("4711\n")
    (tmp_path / "laneway.json.new").write_text('{"ver')
    with open_data_dir(str(tmp_path)):
        assert (tmp_path / "laneway.json").read_text() == '{"version":1}\n'


@pytest.mark.parametrize(
    ("marker", "said"),
    [
        ('{"version":2}', "version 2, this laneway reads version 1"),
        ('{"version":0}', "version 0"),
        ("", "damaged"),
        ("{", "damaged"),
        ("null", "damaged"),
        ('{"version":"1"}', "damaged"),
        ("\udcff", "damaged"),
    ],
)
def test_other_version_and_damage_are_refused_before_anything_is_written(
    tmp_path: Path, marker: str, said: str
) -> None:
    (tmp_path / "laneway.json").write_text(marker, errors="surrogateescape")
    with pytest.raises(FolderError, match=said), open_data_dir(str(tmp_path)):
        pass
    assert os.listdir(tmp_path) == ["laneway.json"]


def test_directory_of_others_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "cat.jpg").touch()
    with pytest.raises(FolderError, match="not made by laneway"), open_data_dir(str(tmp_path)):
        pass
    assert os.listdir(tmp_path) == ["cat.jpg"]


@pytest.mark.parametrize("obstacle", ["data", "data/lock", "data/laneway.json", "data/hosts"])
def test_what_stands_in_the_way_is_named(tmp_path: Path, obstacle: str) -> None:
    with open_data_dir(str(tmp_path / "data")):
        pass
    kept = tmp_path / obstacle
    if kept.is_dir():
        kept.rename(tmp_path / "aside")
        kept.touch()
    else:
        kept.unlink()
        kept.mkdir()
    with pytest.raises(FolderError) as caught, open_data_dir(str(tmp_path / "data")):
        pass
    assert str(caught.value).startswith(f"{kept}: ")


def test_dangling_link_is_no_directory(tmp_path: Path) -> None:
    link = tmp_path / "data"
    link.symlink_to(tmp_path / "unmounted")
    with pytest.raises(FolderError, match="Not a directory"), open_data_dir(str(link)):
        pass
    assert not (tmp_path / "unmounted").exists()
