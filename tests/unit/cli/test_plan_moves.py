"""`laneway plan moves` without a cluster: its report, exit statuses, and refusals."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path

import click
import msgspec
import pytest
from click.testing import CliRunner, Result

from laneway.cli import cli
from laneway.cli.cluster_options import ClusterChoice
from laneway.cli.errors import Failure
from laneway.cli.planning.moves import report
from laneway.cli.planning.moving import Apply, again, confirm
from laneway.core.fleet.inventory_file import read, write
from laneway.core.fleet.made_up import made_up
from laneway.core.fleet.model import Vgpu
from laneway.core.fleet.moves import least_moves

_EXAMPLE = Path(__file__).parents[3] / "docs/examples/planning/fleet.yaml"

_FOUND = """\
Yes, after 2 moves. Fewer do not suffice.
  1. migrate default/desk-1 from node node1 to node node2: L40S-12Q to node2-00000a000
  2. reserve for the stopped default/desk-2 on node node3: L40S-12Q on node3-00000a000
  then room for L40S-24Q on node1-00000a000
"""
_NONE = """\
No: there is no room after 2 moves or fewer.
  not moved, as it is not known whether it is live-migratable: default/desk-1, default/web-1
  -> To allow restarts of VMs that are not live-migratable: add --restart
"""


def _ask(*arguments: str, source: str = str(_EXAMPLE)) -> Result:
    command = ["plan", "moves", "--from", source, *arguments]
    return CliRunner().invoke(cli, command, standalone_mode=False)


def test_the_report_says_which_vm_goes_where_and_what_fits_then() -> None:
    asked = _ask("L40S-24Q")
    assert (asked.return_value, asked.output) == (0, _FOUND)


def test_none_within_the_limit_is_a_no_with_the_reasons_of_those_that_stay(tmp_path: Path) -> None:
    fleet = read(_EXAMPLE.read_bytes())
    unknown = ("default/desk-1", "default/web-1")
    vms = [
        msgspec.structs.replace(vm, migratable=None if vm.name in unknown else vm.migratable)
        for vm in fleet.vms
    ]
    file = tmp_path / "fleet.json"
    file.write_text(write(msgspec.structs.replace(fleet, vms=tuple(vms)), as_json=True))
    asked = _ask("L40S-24Q", "--moves", "2", source=str(file))
    assert (asked.return_value, asked.output) == (3, _NONE)


def test_a_fleet_that_cannot_be_read_completely_is_no_proof_of_a_no(tmp_path: Path) -> None:
    fleet = read(_EXAMPLE.read_bytes())
    partly = msgspec.structs.replace(fleet, unreadable=("VMs cannot be listed",))
    file = tmp_path / "fleet.json"
    file.write_text(write(partly, as_json=True))

    assert "it is not known" in str(_ask("L40S-48Q=9", source=str(file)).exception)
    assert _ask("L40S-24Q", source=str(file)).return_value == 0


def test_an_unfinished_search_is_told_with_what_is_proved() -> None:
    fleet = read(_EXAMPLE.read_bytes())
    unknown = "Not known: the search ended before it had an answer."
    for effort, more in ((1, []), (36, ["  proved: there is no room after 1 move or fewer"])):
        found = least_moves(fleet, {"NVIDIA L40S-24Q": 1}, effort=effort)
        assert list(report(found)) == [unknown, *more]


def test_vgpus_in_the_way_come_first(tmp_path: Path) -> None:
    fleet = read(_EXAMPLE.read_bytes())
    free = Vgpu(name="node1-00000a006", profile="NVIDIA L40S-12Q")
    gpu = msgspec.structs.replace(fleet.gpus[0], vgpus=(free,))
    file = tmp_path / "fleet.yaml"
    file.write_text(write(msgspec.structs.replace(fleet, gpus=(gpu,), vms=())))
    assert _ask("L40S-24Q=2", source=str(file)).output == (
        "Yes: no VM has to move.\n"
        "  first disable VGPUDevice node1-00000a006: it is in the way, and no VM has it\n"
        "  then room for L40S-24Q=2 on node1-00000a000\n"
    )


def test_the_document_has_the_moves_and_the_proof() -> None:
    document = json.loads(_ask("L40S-24Q", "-o", "json").output)
    assert (document["outcome"], document["proved"]) == ("found", 1)
    assert [one["vm"] for one in document["moves"]] == ["default/desk-1", "default/desk-2"]
    assert _ask("L40S-24Q", "-o", "name").output == "default/desk-1\ndefault/desk-2\n"


@pytest.mark.parametrize(
    ("profiles", "words"),
    [
        (("L40S-23Q",), "Did you mean L40S-3Q, L40S-2Q or L40S-24Q?"),
        (("nvidia.com/x",), "no GPU offers nvidia.com/x as a vGPU"),
        (("L40S-1Q=101",), "a count of 1 to 100"),
        (("L40S-1Q=60", "L40S-2Q=60"), "these are 120 vGPUs; request at most 100"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_one_line(profiles: tuple[str, ...], words: str) -> None:
    asked = _ask(*profiles)
    assert asked.exception is not None
    assert words in str(asked.exception)


def test_a_mig_backed_profile_is_refused_only_while_no_gpu_is_in_the_mode(tmp_path: Path) -> None:
    refused = str(_ask("A100-4-20C", source="2x a100*1").exception)
    assert "A100-4-20C needs a GPU in mode MIGBacked, and no GPU that has it is" in refused
    assert refused.endswith("laneway plan what-if --mode GPU=MIGBacked --vms A100-4-20C")
    fleet = made_up("2x a100*1")
    gpu = msgspec.structs.replace(fleet.gpus[0], mode="MIGBacked")
    file = tmp_path / "fleet.yaml"
    file.write_text(write(msgspec.structs.replace(fleet, gpus=(gpu, *fleet.gpus[1:]))))
    found = _ask("A100-4-20C", source=str(file))
    assert found.output == f"Yes: no VM has to move.\n  room for A100-4-20C on {gpu.name}\n"


def test_with_restart_vms_move_that_cannot_be_migrated(tmp_path: Path) -> None:
    fleet = read(_EXAMPLE.read_bytes())
    vms = tuple(msgspec.structs.replace(vm, migratable=False) for vm in fleet.vms)
    file = tmp_path / "fleet.json"
    file.write_text(write(msgspec.structs.replace(fleet, vms=vms), as_json=True))
    assert _ask("L40S-24Q", "--moves", "2", source=str(file)).return_value == 3
    asked = _ask("L40S-24Q", "--moves", "2", "--restart", source=str(file))
    assert "  1. restart default/desk-1 from node node1 to node node" in asked.output


def test_moves_are_applied_to_a_live_cluster_only() -> None:
    asked = _ask("L40S-24Q", "--apply", "--yes")
    assert isinstance(asked.exception, click.UsageError)
    assert "--apply changes the live cluster, and --from names another fleet" in str(
        asked.exception
    )


def test_yes_answers_only_the_question_of_apply() -> None:
    assert isinstance(_ask("L40S-24Q", "--yes").exception, click.UsageError)


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("typed", "goes_on"), [("y\n", True), ("n\n", False), ("\n", False)])
def test_moves_are_made_only_after_a_yes(
    typed: str, goes_on: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = least_moves(read(_EXAMPLE.read_bytes()), {"NVIDIA L40S-24Q": 1})
    monkeypatch.setattr("sys.stdin", _Terminal(typed))
    asking = contextlib.nullcontext()
    with asking if goes_on else pytest.raises(Failure, match=r"^nothing was changed$"):
        confirm(found, Apply(yes=False, seconds=1, command=()))
    assert "Make these changes now? [y/N]" in "".join(capsys.readouterr())


@pytest.mark.parametrize(
    ("given", "restart", "repeated"),
    [
        ({}, False, ["--apply"]),
        (
            {"--moves": 2, "--timeout": 5},
            True,
            ["--restart", "--apply", "--moves=2", "--timeout=5"],
        ),
    ],
)
def test_the_command_that_goes_on_has_the_options_that_were_given(
    given: dict[str, object], restart: bool, repeated: list[str]
) -> None:
    where = ClusterChoice(context="lab")
    command = again(["L40S-24Q"], where, given, restart=restart)
    assert command == ["laneway", "plan", "moves", "L40S-24Q", *repeated, "--context=lab"]
