"""The message about a file that cannot be written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kubebasics.files import FolderError, naming_failures


def test_failure_says_the_file_that_a_person_knows(tmp_path: Path) -> None:
    source, target = tmp_path / ".token.x7f3", tmp_path / "token"
    source.touch()
    target.mkdir()
    with pytest.raises(FolderError, match="token: Is a directory"), naming_failures("data"):
        os.replace(source, target)
    with pytest.raises(FolderError, match="data: No space"), naming_failures("data"):
        raise OSError(28, "No space left on device")
