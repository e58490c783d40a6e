"""The trees of the versions that meet: today's, and that of the newest one that was recorded.

Nothing is released yet, so the newest revision in `tests/data/earlier` stands for the previous
release. Its files come from git's history, into the user's cache folder.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import pytest

ROOT = Path(__file__).parents[3]
RECORDED = ROOT / "tests" / "data" / "earlier"
NEEDED = ("src", "packages", "charts")
SAFELY: Any = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
"""Python 3.11 has filters in later releases only; 3.12 wants one to be named."""


class Tree(NamedTuple):
    """One version's files."""

    name: str
    folder: Path

    @property
    def chart(self) -> Path:
        return self.folder / "charts" / "laneway"

    @property
    def path(self) -> str:
        """For PYTHONPATH: only this tree's packages, ahead of what is installed."""
        sources = [self.folder / "src", *sorted((self.folder / "packages").glob("*/src"))]
        return os.pathsep.join(map(str, sources))


TODAY = Tree("today", ROOT)


def previous() -> Tree:
    """The newest recorded version; without git's history the test is left out, in CI it fails."""
    recorded = tuple(path.name for path in RECORDED.iterdir() if path.is_dir())
    history = _git("rev-list", "HEAD").decode().split()
    commit = next((one for one in history if one.startswith(recorded)), "")
    if not commit:
        _left_out(f"none of {', '.join(sorted(recorded))} is in it")
    folder = _cache() / commit
    if not folder.exists():
        _unpack(commit, folder)
    return Tree("previous", folder)


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "laneway" / "earlier"


def _unpack(commit: str, folder: Path) -> None:
    """Others may do the same at the same time: the first that is done wins."""
    there = _git("ls-tree", "--name-only", commit).decode().split()
    archive = _git("archive", commit, *(name for name in NEEDED if name in there))
    folder.parent.mkdir(parents=True, exist_ok=True)
    unpacked = Path(tempfile.mkdtemp(dir=folder.parent))
    try:
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(unpacked, **SAFELY)
        unpacked.rename(folder)
    except OSError:
        shutil.rmtree(unpacked)
        if not folder.exists():
            raise


def _git(*arguments: str) -> bytes:
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=False)
    except FileNotFoundError:
        _left_out("git is not installed")
    if done.returncode:
        _left_out(done.stderr.decode().strip())
    return done.stdout


def _left_out(why: str) -> NoReturn:
    reason = f"the previous version's files are not to be had from git's history: {why}"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
