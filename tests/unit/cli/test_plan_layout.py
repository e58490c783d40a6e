"""`laneway plan layout` without a cluster: its table, its objects, and what it refuses."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner, Result
from msgspec.structs import replace

from laneway.cli import cli
from laneway.core.fleet.inventory_file import write
from laneway.core.fleet.made_up import made_up
from laneway.core.fleet.model import Vgpu, Vm
from laneway.core.ledger.facts import Phase
from support.planning import Q24, half_used

_ALL_SERVED = """\
Served: 34 of 34 vGPUs, 336 GiB.
LAYOUT  GPUS  MODE      VGPUS OF EACH GPU  NAMES OF THE GPUS
plan-1  5     SameSize  6 x L40S-8Q        l40s-1-000001000, l40s-1-000002000, l40s-2-000001000 and 2 more
plan-2  2     SameSize  2 x L40S-24Q       l40s-3-000002000, l40s-4-000001000
"""  # noqa: E501
_NOT_ALL = """\
Served: 12 of 31 vGPUs, 96 GiB.
No layout serves more memory. That is proved.
  not served: 1 x L40S-24Q
  not served: 18 x L40S-8Q
LAYOUT  GPUS  MODE      VGPUS OF EACH GPU  NAMES OF THE GPUS
plan-1  2     SameSize  6 x L40S-8Q        l40s-1-000001000, l40s-1-000002000
"""


def _ask(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["plan", "layout", *arguments], standalone_mode=False)


def test_the_table_says_what_each_gpu_gets() -> None:
    asked = _ask("--from", "8x l40s", "L40S-24Q=4", "l40s-8q=30")
    assert (asked.return_value, asked.output) == (0, _ALL_SERVED)


def test_what_is_not_served_is_said_with_the_proof() -> None:
    asked = _ask("--from", "l40s", "L40S-24Q", "L40S-8Q=30")
    assert (asked.return_value, asked.output) == (3, _NOT_ALL)


def test_a_proof_is_about_what_could_be_read(tmp_path: Path) -> None:
    file = tmp_path / "fleet.json"
    partly = replace(made_up("l40s"), unreadable=("GPUs of n2 cannot be read",))
    file.write_text(write(partly, as_json=True))
    proof = "No layout of the GPUs that could be read serves more memory. That is proved."
    assert proof in _ask("--from", str(file), "L40S-24Q", "L40S-8Q=30").output


def test_a_search_without_time_says_a_bound_and_claims_no_proof() -> None:
    asked = _ask("--from", "l40s", "L40S-24Q", "L40S-8Q=30", "--seconds", "1e-9")
    assert asked.return_value == 3
    assert "The search ended before a proof. No layout serves more than " in asked.output
    assert "That is proved" not in asked.output


def test_all_gpus_are_named_where_the_output_is_wide() -> None:
    asked = _ask("--from", "8x l40s", "L40S-8Q=30", "-o", "wide")
    assert "l40s-2-000002000, l40s-3-000001000\n" in asked.output


def test_the_objects_name_their_gpus_and_have_what_is_in_use(tmp_path: Path) -> None:
    fleet = made_up("a2")
    held = Vgpu(name="v", profile="NVIDIA A2-4Q", slot=0, holder="default/vm")
    gpu = replace(fleet.gpus[0], mode="MixedSize", vgpus=(held,))
    path = tmp_path / "fleet.json"
    vm = Vm(name="default/vm", node="a2-1", requests={"nvidia.com/NVIDIA_A2-4Q": 1})
    path.write_text(write(replace(fleet, gpus=(gpu,), vms=(vm,)), as_json=True))
    asked = _ask("--from", str(path), "A2-8Q", "A2-4Q", "--name", "lab", "-o", "yaml")
    [layout] = yaml.safe_load(asked.output)["items"]
    assert layout["kind"] == "VGPULayout"
    assert layout["metadata"] == {"name": "lab-1"}
    assert layout["spec"]["gpuSelector"] == {"names": ["a2-1-000001000"]}
    assert layout["spec"]["mode"] == "MixedSize"
    assert layout["spec"]["vgpus"] == [
        {"profile": "NVIDIA A2-4Q", "count": 2},
        {"profile": "NVIDIA A2-8Q", "count": 1},
    ]


@pytest.mark.parametrize("option", [("--seconds", "nan"), ("--name", "Ünï/ X")])
def test_what_is_no_time_and_no_name_is_refused_before_the_search(option: tuple[str, str]) -> None:
    asked = _ask("--from", "l40s", "L40S-24Q", *option)
    assert isinstance(asked.exception, click.BadParameter)


def test_without_the_solver_the_command_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "highspy", None)
    asked = _ask("--from", "l40s", "L40S-24Q")
    assert asked.output == ""
    assert "pip install 'laneway[planner]'" in str(asked.exception)


def test_without_profiles_the_demand_is_what_waits(tmp_path: Path) -> None:
    waits = Vm(name="d/w", phase=Phase.PENDING, requests={Q24: 1})
    path = tmp_path / "fleet.json"
    path.write_text(write(half_used(1, waits), as_json=True))
    asked = _ask("--from", str(path))
    assert asked.return_value == 0
    assert asked.output.startswith(
        "Demand: 1 x L40S-24Q; in use 1, 1 requested by VMs that wait.\n"
        "Served: 1 of 1 vGPUs, 24 GiB.\n"
    )
    path.write_text(write(half_used(1), as_json=True))
    asked = _ask("--from", str(path))
    assert (asked.return_value, asked.output) == (
        0,
        "No VM waits for a vGPU. Name profiles, or look at the history: --since 7d.\n",
    )


def test_profiles_are_named_or_taken_from_the_history() -> None:
    asked = _ask("--from", "l40s", "L40S-24Q", "--since", "7d")
    assert isinstance(asked.exception, click.BadParameter)
