"""The frame of the command: what is imported when, and how a run ends."""

import errno
import subprocess
import sys

import click
import pytest

import laneway.cli
from laneway.cli import COMMANDS, run
from laneway.cli.errors import Failure, one_line
from laneway.cli.groups import Entry
from laneway.sim.models import MODELS


def modules_after(code: str) -> set[str]:
    script = f"{code}\nimport sys; print(*sys.modules, sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return set(done.stdout.splitlines())


def test_help_imports_no_subcommand_and_nothing_heavy() -> None:
    loaded = modules_after("from laneway.cli import run; run(['--help'])")
    targets = {entry.target.partition(":")[0] for entry in COMMANDS.values()}
    assert not loaded & (targets | {"aiohttp", "rich", "msgspec", "yaml"})


def test_looking_at_devices_needs_no_client_and_no_simulation() -> None:
    loaded = modules_after("from laneway.cli import run; run(['devices'])")
    assert "laneway.cli.devices" in loaded
    assert not loaded & {"aiohttp", "laneway.kube.client", "laneway.sim.host", "rich"}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([name, "--help"]) == 0
    assert "Example" in capsys.readouterr().out


@pytest.mark.parametrize("group", [[], ["doctor"], ["host", "apply"]])
def test_a_group_without_its_command_prints_its_help(
    group: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(group) == 2
    called = capsys.readouterr()
    assert called.out == ""
    assert run([*group, "--help"]) == 0
    assert called.err == capsys.readouterr().out


def test_no_help_of_a_command_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    for group in ([], ["gpu"], ["vgpu"], ["doctor"], ["host"], ["host", "apply"], ["vsphere"]):
        run([*group, "--help"])
        commands = capsys.readouterr().out.partition("Commands:")[2]
        assert "..." not in commands, group


def test_models_named_in_the_help_are_those_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run(["devices", "--help"])
    said = "".join(capsys.readouterr().out.split())  # lines end where names have a hyphen
    assert f"({','.join(MODELS)})" in said


def ending(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> int:
    """The exit status of a run in which a command raises."""

    @click.command()
    def broken() -> None:
        raise error

    monkeypatch.setitem(COMMANDS, "broken", Entry("", ""))
    monkeypatch.setattr(laneway.cli.LazyGroup, "get_command", lambda *_: broken)
    return run(["broken"])


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (Failure("bad\nthing;  mend it"), 1, "laneway: bad thing; mend it\n"),
        (OSError(errno.EACCES, "Permission denied", "/x"), 1, "laneway: /x: Permission denied\n"),
        (click.UsageError("wrongly called"), 2, "Error: wrongly called\n"),
        (KeyboardInterrupt(), 130, "\n"),
    ],
)
def test_every_ending_has_its_status_and_its_line(
    error: BaseException,
    status: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert ending(monkeypatch, error) == status
    out, err = capsys.readouterr()
    assert out == ""
    assert err.endswith(said)
    assert "Traceback" not in err


@pytest.mark.parametrize("variable", [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_colours_can_be_switched_off(
    variable: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    @click.command()
    def told() -> None:
        seen.append(click.get_current_context().color)

    monkeypatch.setitem(COMMANDS, "told", Entry("", ""))
    monkeypatch.setattr(laneway.cli.LazyGroup, "get_command", lambda *_: told)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    run(["told"])
    monkeypatch.setenv(*variable)
    run(["told"])

    assert seen == [None, False]


def test_defect_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ZeroDivisionError):
        ending(monkeypatch, ZeroDivisionError())


def test_one_line_keeps_terminals_safe() -> None:
    assert one_line("a\x1b]0;x\x07\n\tb\u202e") == "a ]0;x b"


@pytest.mark.parametrize(
    "wrong", [["gpus", "a", "\x1b[31mb"], ["gpus", "--\x1b[31m"], ["\x1b[31m"]]
)
def test_a_wrong_call_repeats_no_control_character(
    wrong: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(wrong) == 2
    assert "\x1b" not in capsys.readouterr().err


def test_an_empty_node_releases_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["release", "--node", ""]) == 2
    assert "--node is empty" in capsys.readouterr().err
