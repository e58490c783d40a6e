"""`laneway doctor node` as people and programs read it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from laneway.cli import run
from laneway.cli.source import opened
from laneway.core.programs import SRIOV_MANAGE

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


def test_a_problem_is_reported_with_its_remedy_and_the_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump = tmp_path / "node.umockdev"
    dump.write_text(NO_IOMMU)
    assert run(["doctor", "node", "--simulate", str(dump)]) == 3
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "problem  Iommu: the IOMMU is off: there are no IOMMU groups"
    assert lines[2].strip().startswith("-> Enable the IOMMU")


def test_programs_get_findings_as_data(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "node", "--simulate", "workstation", "-o", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["healthy"] is True
    levels = {one["check"]: one["level"] for one in told["findings"]}
    assert levels["Iommu"] == "ok"
    assert levels["Kubelet"] == "advice"


def test_a_kubelet_elsewhere_can_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    run(["doctor", "node", "--simulate", "a2", "--kubelet-dir", "/somewhere"])
    assert "no kubelet at /somewhere" in capsys.readouterr().out


def test_in_the_pod_of_an_agent_it_looks_where_the_agent_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LANEWAY_KUBELET_DIR", "/elsewhere")
    monkeypatch.setenv("LANEWAY_NODE_ROOT", "/no/such/folder")
    assert run(["doctor", "node", "--simulate", "a2", "--node-root", "/"]) == 0
    assert "no kubelet at /elsewhere" in capsys.readouterr().out
    assert run(["doctor", "node"]) == 1
    assert "the folder '/no/such/folder' does not exist" in capsys.readouterr().err


async def test_the_drivers_programs_are_below_the_nodes_root_and_notes_where_they_are_kept(
    tmp_path: Path,
) -> None:
    program = tmp_path / "node" / SRIOV_MANAGE.removeprefix("/")
    program.parent.mkdir(parents=True)
    program.touch(0o755)
    _, on_node, state = opened(None, "/data/laneway", str(tmp_path / "node"))
    assert await on_node.has(SRIOV_MANAGE)
    assert state == "/data/laneway"
    assert opened(None)[2] == "/var/lib/laneway"


def test_options_of_the_sample_are_not_overlooked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["doctor", "node", "--simulate", "a2", "--vector-add"]) == 2
    assert "--vector-add and --simulate exclude each other" in capsys.readouterr().err
    for option in ("--node", "--image"):
        assert run(["doctor", "node", "--simulate", "a2", option, "node2"]) == 2
        assert "--node and --image go with --vector-add" in capsys.readouterr().err
    monkeypatch.setenv("NODE_NAME", "node2")  # as in the pod of an agent
    assert run(["doctor", "node", "--simulate", "a2"]) == 0
