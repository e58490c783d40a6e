"""`laneway plan mix` without a cluster: its report, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

from laneway.cli import cli
from laneway.core.fleet.inventory_file import write
from laneway.core.fleet.made_up import made_up
from laneway.core.fleet.model import Vm

_MIX = ("L40S-24Q=1", "L40S-8Q=3")
_REPORT = """\
2 GPUs with 96 GiB. Requests come for 80 % of it, each for 1d on average. A request without room waits up to 2h.
MODE                FIRST CHOICE     SERVED  GIB SERVED  BY SEED           GIB IN USE  WAITED  MEAN WAIT
SameSize, as today  emptiest GPU     77.5 %  58.8 %      58.8 % to 58.8 %  47.9 %      2.3 %   57m
SameSize, as today  fullest GPU      81.3 %  73.0 %      73.0 % to 73.0 %  61.2 %      5.5 %   57m
SameSize, as today  least room lost  81.3 %  73.0 %      73.0 % to 73.0 %  61.2 %      5.5 %   57m
MixedSize           emptiest GPU     77.0 %  67.2 %      67.2 % to 67.2 %  54.7 %      8.8 %   55m
MixedSize           fullest GPU      77.1 %  68.3 %      68.3 % to 68.3 %  55.5 %      8.3 %   57m
MixedSize           least room lost  76.8 %  68.2 %      68.2 % to 68.2 %  56.0 %      8.2 %   55m

PROFILE     REQUESTED  SERVED  WAITED  MEAN WAIT
SameSize, as today, least room lost
  L40S-8Q   75.1 %     89.5 %  5.6 %   55m
  L40S-24Q  24.9 %     56.4 %  5.1 %   62m
MixedSize, least room lost
  L40S-8Q   75.1 %     85.4 %  8.3 %   54m
  L40S-24Q  24.9 %     51.0 %  8.0 %   60m
"""  # noqa: E501


def _ask(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["plan", "mix", *arguments], standalone_mode=False)


def test_the_report_compares_modes_and_policies() -> None:
    asked = _ask("--from", "l40s", *_MIX, "--wait", "2h", "--seeds", "1")
    assert asked.output == _REPORT


def test_the_mix_is_that_of_the_vms_where_none_is_given(tmp_path: Path) -> None:
    vms = tuple(
        Vm(name=f"d/{n}", requests={f"nvidia.com/NVIDIA_L40S-{size}Q": 1})
        for n, size in enumerate((24, 8, 8, 8))
    )
    path = tmp_path / "fleet.json"
    path.write_text(write(replace(made_up("l40s"), vms=vms), as_json=True))
    seen = _ask("--from", str(path), "--seeds", "1", "-o", "json")
    typed = _ask("--from", str(path), "--seeds", "1", "-o", "json", *_MIX)
    assert json.loads(seen.output) == json.loads(typed.output)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--from", "l40s"), "no VM and no pod of the source requests a vGPU"),
        (("--from", "l40s", "L40S-23Q"), "no node has a resource L40S-23Q"),
        (("--from", "l40s", "A2-4Q"), "no node has a resource A2-4Q"),
        (("--from", "l40s", "L40S-8Q", "--lifetime", "long"), "write a time such as 90m"),
        (("--from", "l40s", "L40S-8Q", "--lifetime", "0s"), "--lifetime 0 is no time"),
    ],
)
def test_what_cannot_be_simulated_is_refused_in_one_line(
    arguments: tuple[str, ...], words: str
) -> None:
    asked = _ask(*arguments)
    assert asked.exception is not None
    said = asked.exception
    assert words in (said.message if isinstance(said, click.ClickException) else str(said))
