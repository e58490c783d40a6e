"""What the shells themselves make of the scripts, where they are installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from laneway.cli.completion_scripts import SCRIPTS
from laneway.sim.models import ABOUT, MODELS

_ZSH = """
words=("$@"); CURRENT=$#words
compdef() { :; }
compadd() { [[ $* == *"-S "* ]] && local end="|"; local list="${@[-1]}"
    for one in "${(@P)list}"; do print -r -- "$one$end"; done; }
_describe() { local list="$3"; for one in "${(@P)list}"; do print -r -- "$one"; done; }
_path_files() { print files; }
"""
"""What a script calls, printed; a bar stands where no space follows."""


@pytest.fixture(params=["fish", "zsh"])
def shell(request: pytest.FixtureRequest) -> str:
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    return str(request.param)


def completed(shell: str, folder: Path, line: str) -> list[str]:
    """The completions of a line, with the help as each shell has it."""
    script = folder / "script"
    script.write_text(SCRIPTS[shell])
    command = str(Path(sys.executable).parent / "laneway")
    words = [command, *line.split(" ")[1:]]
    arguments = {
        "fish": ["fish", "-c", f"source {script}; complete -C $argv[1]", " ".join(words)],
        "zsh": ["zsh", "-fc", f"{_ZSH} source {script}; _laneway", "zsh", *words],
    }
    done = subprocess.run(
        arguments[shell],
        env=os.environ | {"HOME": str(folder), "KUBECONFIG": str(folder / "none")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_commands_come_with_their_help(shell: str, tmp_path: Path) -> None:
    between = {"fish": "\t", "zsh": ":"}[shell]
    assert completed(shell, tmp_path, "laneway ca") == [
        f"capacity{between}Show which devices are allocated and free, and what could start.",
        f"capture{between}Write a dump of this host's devices.",
    ]


def test_a_kind_is_left_open_for_the_name(shell: str, tmp_path: Path) -> None:
    # fish itself adds no space after a slash.
    end = {"fish": "", "zsh": "|"}[shell]
    assert completed(shell, tmp_path, "laneway explain vgpul") == [f"vgpulayout/{end}"]


def test_a_value_after_an_equals_sign_keeps_its_option(shell: str, tmp_path: Path) -> None:
    line = "laneway gpu enable node1/17:00.0 --mode=Mix"
    assert completed(shell, tmp_path, line) == ["--mode=MixedSize"]
    assert completed(shell, tmp_path, line.replace("=", " ")) == ["MixedSize"]


def test_hosts_to_simulate_are_offered(shell: str, tmp_path: Path) -> None:
    assert set(ABOUT) == set(MODELS)
    for command in ("up", "devices"):
        found = completed(shell, tmp_path, f"laneway {command} --simulate ")
        assert [one.split("\t")[0].split(":")[0] for one in found] == [*ABOUT]


def test_a_dump_to_simulate_is_a_file(shell: str, tmp_path: Path) -> None:
    (tmp_path / "node.dump").touch()
    found = completed(shell, tmp_path, f"laneway devices --simulate {tmp_path}/n")
    assert found == {"fish": [f"{tmp_path}/node.dump"], "zsh": ["files"]}[shell]
