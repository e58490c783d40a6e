"""`laneway doctor node` as people and programs read it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from laneway.cli import run

NO_IOMMU = """\
P: /devices/pci0000:00/0000:00:01.0
E: SUBSYSTEM=pci
A: vendor=0x8086
A: device=0x1521
A: class=0x020000

"""


def test_a_node_that_is_well_ends_with_nothing_amiss(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "node", "--simulate", "a2"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].startswith("ok       Iommu: the IOMMU is on")
    assert shown[-1] == "simulated a2: 1 piece of advice"  # It has no kubelet.


def test_a_problem_is_told_with_its_remedy_and_the_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump = tmp_path / "node.umockdev"
    dump.write_text(NO_IOMMU)
    assert run(["doctor", "node", "--simulate", str(dump)]) == 3
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "problem  Iommu: the IOMMU is off: there are no IOMMU groups"
    assert lines[2].strip().startswith("-> Switch the IOMMU on")


def test_programs_get_findings_as_data(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "node", "--simulate", "workstation", "-o", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["healthy"] is True
    levels = {one["check"]: one["level"] for one in told["findings"]}
    assert levels["Iommu"] == "ok"
    assert levels["Kubelet"] == "advice"


def test_a_kubelet_elsewhere_can_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    run(["doctor", "node", "--simulate", "a2", "--kubelet-dir", "/somewhere"])
    assert "there is no kubelet at /somewhere" in capsys.readouterr().out
