"""The session with Terraform in docs/tutorials/, typed again as it stands there."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.sessions import DOCS, Terminal, goes, sections
from support.terraform import PYTHON, program

TITLES = (
    "Two servers with three vGPUs",
    "A guest cluster with three workers",
    "The same with Terraform",
)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    """With Terraform, which finds the provider in a mirror."""
    one = Terminal(tmp_path)
    programs = tmp_path / "bin"
    programs.mkdir()
    terraform = programs / "terraform"
    terraform.write_text(f'#!/bin/sh\nexec {shlex.join(program())} "$@"\n')
    terraform.chmod(0o755)
    mirror = [PYTHON.parent / "laneway-terraform-provider", "mirror", tmp_path / "mirror"]
    said = subprocess.run(mirror, capture_output=True, text=True, check=True).stdout
    settings = tmp_path / "terraformrc"
    settings.write_text(said[said.index("provider_installation") :])
    one.environment |= {
        "PATH": f"{programs}{os.pathsep}{one.environment['PATH']}",
        "HOME": str(tmp_path / "home"),
        "TF_CLI_CONFIG_FILE": str(settings),
        "CHECKPOINT_DISABLE": "1",
    }
    yield one
    one.stop()


@pytest.mark.timeout(300)
def test_a_machine_pool_is_refused_set_grown_and_emptied(terminal: Terminal) -> None:
    goes(list(sections((DOCS / "guest-clusters.md").read_text(), *TITLES)), terminal)
