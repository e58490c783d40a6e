"""`laneway plan what-if` without a cluster: its report, exit statuses, and files."""

from __future__ import annotations

import json
from pathlib import Path

import click
import msgspec
import pytest
from click.testing import CliRunner, Result

from laneway.cli import cli
from laneway.core.fleet.inventory_file import write
from laneway.core.fleet.made_up import made_up

_REPORT = """\
No: of 5 VMs there is room for 4.
  new-1: node l40s-2: NVIDIA L40S-24Q on l40s-2-000001000, made
  new-2: node l40s-2: NVIDIA L40S-24Q on l40s-2-000001000, made
  new-3: node l40s-2: NVIDIA L40S-24Q on l40s-2-000002000, made
  new-4: node l40s-2: NVIDIA L40S-24Q on l40s-2-000002000, made
  no room for new-5: 1 x nvidia.com/NVIDIA_L40S-24Q: 2 GPUs with too little free memory
  room for nvidia.com/NVIDIA_L40S-24Q: 0, today 8
"""


def _ask(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["plan", "what-if", *arguments], standalone_mode=False)


def test_the_report_says_where_why_not_and_what_is_left() -> None:
    asked = _ask("--from", "2x l40s", "--vms", "5x L40S-24Q", "--leave", "l40s-1")
    assert (asked.return_value, asked.output) == (3, _REPORT)


def test_a_file_is_the_same_fleet_as_the_words(tmp_path: Path) -> None:
    for name in ("fleet.yaml", "fleet.json"):
        path = tmp_path / name
        path.write_text(write(made_up("2x l40s"), as_json=name.endswith(".json")))
        asked = _ask("--from", str(path), "--vms", "5x L40S-24Q", "--leave", "l40s-1")
        assert asked.output == _REPORT


def test_an_answer_about_a_fleet_that_was_not_read_completely_says_so(tmp_path: Path) -> None:
    fleet = msgspec.structs.replace(made_up("2x l40s"), unreadable=("VMs cannot be listed",))
    path = tmp_path / "fleet.json"
    path.write_text(write(fleet, as_json=True))
    question = ("--from", str(path), "--vms", "5x L40S-24Q", "--leave", "l40s-1")

    headline, *lines = _REPORT.splitlines()
    assert _ask(*question).stdout.splitlines() == [
        headline,
        "  This is of what could be read. The warnings say what is missing or assumed.",
        *lines,
    ]
    document = json.loads(_ask(*question, "-o", "json").stdout)
    assert document["unreadable"] == ["VMs cannot be listed"]


def test_changes_of_a_file_come_first(tmp_path: Path) -> None:
    path = tmp_path / "changes.yaml"
    path.write_text(
        "kind: FleetChanges\nversion: 1\nchanges:\n- {change: AddNodes, nodes: 2x a40}\n"
        "- {change: AddVMs, count: 2, requests: {A40-48Q: 1}, name: from-file}\n"
    )
    asked = _ask("--from", "l40s", "-f", str(path), "-o", "json")
    document = json.loads(asked.output)
    assert asked.return_value == 0
    assert document["answer"] is True
    assert [one["vm"] for one in document["placed"]] == ["from-file-1", "from-file-2"]
    assert {one["node"] for one in document["placed"]} == {"new-a40-1", "new-a40-2"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--from", "nothing.yaml"), "there is no such file"),
        (("--from", "l40s", "--vms", "L40S-23Q"), "no node has a resource L40S-23Q"),
        (("--from", "l40s", "--mode", "l40s-1-000001000=Fast"), "no mode 'Fast'"),
        (("--from", "plain"), "hgx-h100, rtx-pro-6000, 6000d, a10, a100d, "),
        (("--from", "l40s", "--leave", "n"), "the fleet has no node n"),
        (("--from", "l40s", "-f", __file__), "this is not a file of changes"),
        (
            ("--from", "l40s", "--vms", "1000000000x L40S-24Q"),
            "--vms 1000000000x L40S-24Q: use 1 to 10000 VMs",
        ),
        (("--from", "l40s", "--vms", "L40S-24Q=65"), "with a count of 1 to 64"),
        (("--from", "-1x l40s"), "use 1 to 1000 nodes"),
        (("--from", "l40s", "--vms", "L40S-24Q on zone"), "'zone': write KEY=VALUE"),
        (("--from", "a100", "--instances", "a100-1"), "write GPU=INSTANCE=COUNT"),
        (("--from", "l40s", "--add-gpus", "l40s-1:hgx-h100"), "no board 'hgx-h100' is known"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_one_line(
    arguments: tuple[str, ...], words: str
) -> None:
    asked = _ask(*arguments)
    said = asked.exception
    assert said is not None
    assert words in (said.message if isinstance(said, click.ClickException) else str(said))


def test_a_node_that_leaves_twice_leaves_once() -> None:
    asked = _ask("--from", "2x l40s", "--leave", "l40s-1", "--leave", "l40s-1")
    assert asked.output == "Yes: no VM waits or has to move.\n"


def test_vms_go_to_nodes_with_the_labels_that_they_ask_for(tmp_path: Path) -> None:
    fleet = made_up("2x l40s")
    nodes = (fleet.nodes[0], msgspec.structs.replace(fleet.nodes[1], labels={"zone": "b"}))
    path = tmp_path / "fleet.json"
    path.write_text(write(msgspec.structs.replace(fleet, nodes=nodes), as_json=True))
    asked = _ask("--from", str(path), "--vms", "5x L40S-24Q on zone=b", "-o", "json")
    placed = json.loads(asked.output)["placed"]
    assert [one["node"] for one in placed] == ["l40s-2"] * 4
    other = _ask("--from", str(path), "--vms", "L40S-24Q on zone=c").output
    assert "no room for new-1: no open node has the labels zone=c" in other


def test_gpus_in_mig_modes_are_a_change_and_their_devices_have_short_names() -> None:
    gpu, instances = "a100-1/0000:01:00.0", "3g.20gb,1g.5gb=3"
    asked = _ask("--from", "a100", "--mode", f"{gpu}=MIGBacked", "--vms", "7x A100-1-5C")
    assert asked.output.startswith("Yes: there is room for 7 VMs.")
    asked = _ask("--from", "a100", "--instances", f"{gpu}={instances}", "--vms", "4x mig-1g.5gb")
    assert asked.output.startswith("No: of 4 VMs there is room for 3.")


@pytest.mark.parametrize("command", ["moves", "mix"])
def test_mig_backed_vgpus_are_refused_where_only_time_slices_are_planned(command: str) -> None:
    arguments = ["plan", command, "--from", "a100", "A100-1-5C=2"]
    said = CliRunner().invoke(cli, arguments, standalone_mode=False).exception
    assert isinstance(said, click.ClickException)
    assert "laneway plan what-if --mode GPU=MIGBacked --vms A100-1-5C" in said.message


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (("layout", "L40S-24Q", "--seconds", "0"), "--seconds"),
        (("layout", "--since", "0d"), "--since"),
        (("layout", "--since", "-3d"), "--since"),
        (("layout", "--since", "2999-01-01"), "--since"),
        (("moves", "L40S-24Q", "--moves", "-1"), "--moves"),
        (("moves", "L40S-24Q", "--timeout", "0"), "--timeout"),
        (("mix", "L40S-24Q", "--load", "0"), "--load"),
        (("mix", "L40S-24Q", "--lifetime", "0s"), "--lifetime"),
        (("mix", "L40S-24Q", "--seeds", "0"), "--seeds"),
        (("what-if", "--vms", "0x L40S-24Q"), "--vms"),
        (("what-if", "--vms", "10001x L40S-24Q"), "--vms"),
        (("what-if", "--vms", "L40S-24Q=0"), "--vms"),
        (("what-if", "--add-nodes", "0x l40s"), "--add-nodes"),
        (("what-if", "--add-gpus", "l40s-1:-1x l40s"), "--add-gpus"),
        (("what-if", "--instances", "l40s-1-000001000=1g.5gb=0"), "--instances"),
        (("what-if", "--change", "a/b:L40S-8Q=0"), "--change"),
        (("what-if", "--from", "0x l40s"), "--from"),
    ],
)
def test_a_number_that_makes_no_sense_names_its_option(
    arguments: tuple[str, ...], option: str
) -> None:
    command, *others = arguments
    asked = CliRunner().invoke(cli, ["plan", command, "--from", "l40s", *others])
    assert asked.exit_code == 2
    assert option in asked.output.splitlines()[-1]
