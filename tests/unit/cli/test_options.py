"""Options that all commands share: defaults that are spelled out, suggestions and statuses."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import get_args

import click
import pytest

from laneway.cli import cli, completion, run
from laneway.cli.commands import options, roles
from laneway.cli.statuses import EXIT_STATUSES
from laneway.core.gpu.modes import Mode
from laneway.core.refusals import MigOnly, NoGpuInstances, reason_of
from laneway.host import examine
from laneway.host.executors import pod
from laneway.host.plans import state
from laneway.roles import manager
from laneway.sim.models import MODELS
from laneway.views.state import NEXT


def test_what_help_texts_spell_out_is_what_counts() -> None:
    assert options.MODELS.split(", ") == list(MODELS)
    assert {options.NAMESPACE} == {manager.NAMESPACE, pod.NAMESPACE}
    assert options.LEASE == manager.LEASE
    assert options.STATE_FOLDER == state.STATE_FOLDER
    assert options.KUBELET_FOLDER == examine.KUBELET
    assert set(options.MODES) == set(Mode)
    assert set(options.SHARED_MODES) == {mode for mode in Mode if mode.has_vfs}
    assert get_args(manager.VsphereMode) == roles.VSPHERE
    assert set(NEXT) == {reason_of(NoGpuInstances), reason_of(MigOnly)}


def commands(group: click.Group, *path: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield " ".join((*path, name)), command
        if isinstance(command, click.Group):
            yield from commands(command, *path, name)


ALL = dict(commands(cli))


def test_a_shell_completes_the_nodes_of_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completion, "_asked", lambda *_: ["node1"])
    named = {
        (name, *(item.value for item in one.shell_complete(click.Context(command), "n")))
        for name, command in ALL.items()
        for one in command.params
        if "--node" in one.opts and name != "agent"
    }
    assert ("capacity", "node1") in named
    assert {names[1:] for names in named} == {("node1",)}


@pytest.mark.parametrize("name", [name for name in ALL if not isinstance(ALL[name], click.Group)])
def test_whatever_asks_a_cluster_takes_the_options_of_kubectl(name: str) -> None:
    taken = {option for one in ALL[name].params for option in one.opts}
    assert ("--kubeconfig" in taken) is ("--context" in taken)
    if "--kubeconfig" in taken and name not in ("agent", "pools-webhook", "ui"):
        assert "--namespace" in taken
    if "--output" in taken:
        assert "-o" in taken


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (("gpsu",), "gpus"),
        (("vgpu", "sett"), "set"),
        (("host", "aply"), "apply"),
        (("host", "apply", "gpus"), "gpu"),
        (("gpus", "--verbos"), "--verbose"),
    ],
)
def test_a_mistyped_word_is_answered_with_what_was_meant(
    arguments: tuple[str, ...], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    err = capsys.readouterr().err
    assert "Did you mean" in err
    assert meant in err.rpartition("Did you mean")[2]


def test_the_help_names_every_exit_status(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    listed = capsys.readouterr().out.partition("Exit status:\n")[2].splitlines()
    assert [int(line.split()[0]) for line in listed if line[4:9].strip().isdigit()] == list(
        EXIT_STATUSES
    )


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_has_a_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", shell]) == 0
    assert f"_LANEWAY_COMPLETE={shell}_complete" in capsys.readouterr().out


def test_bash_completes_addresses_in_spite_of_their_colons(tmp_path: os.PathLike[str]) -> None:
    fake = os.path.join(tmp_path, "laneway")
    with open(fake, "w", encoding="utf-8") as file:
        file.write('#!/bin/sh\necho "plain,node1/08:00.0"; echo "plain,node1/08:00.4"\n')
    os.chmod(fake, 0o755)
    script = subprocess.run(
        [sys.executable, "-m", "laneway", "completion", "bash"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    typed = f"{fake} gpus node1/08:0"
    script += f'COMP_LINE="{typed}" COMP_POINT={len(typed)} _laneway_completion\n'
    script += 'printf "%s\\n" "${COMPREPLY[@]}"\n'
    done = subprocess.run(
        ["bash", "-c", script],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["00.0", "00.4"], done.stderr
