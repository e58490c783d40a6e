"""`laneway host prepare` on a host as its installer left it, command by command."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click
import pytest

from laneway.cli.errors import Failure
from laneway.cli.host.hardware import opened
from laneway.cli.host.preparing import Request, huge_pages, prepare_host
from laneway.core.preparation.wanted import Wanted
from laneway.host.boot.prepare import prepare
from laneway.sim.faults import Killed
from laneway.sim.host import SimulatedHost

HOST = "a2,iommu=off"
USUAL = Request(
    iommu=True, iommu_passthrough=False, vfio=True, drivers=(), huge_pages=(), arguments=()
)


class Node:
    """A simulated host that outlives each command, and what the last one printed."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._folder = str(folder)
        self._capsys = capsys

    def run(self, action: str, request: Request = USUAL, *, reboot: bool = False) -> str:
        prepare_host(
            None if action.endswith("undo") else request,
            HOST,
            self._folder,
            plan_only=action.startswith("plan"),
            reboot=reboot,
        )
        return self._capsys.readouterr().out

    @property
    def errors(self) -> str:
        return self._capsys.readouterr().err


@pytest.fixture
def node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Node:
    return Node(tmp_path, capsys)


def states(out: str) -> dict[str, str]:
    rows = (line.split() for line in out.splitlines())
    known = ("Met", "RebootNeeded", "Missing", "Impossible")
    return {row[0]: row[1] for row in rows if len(row) > 1 and row[1] in known}


def test_planned_applied_rebooted_and_undone(node: Node) -> None:
    planned = node.run("plan")
    assert set(states(planned).values()) == {"Missing"}
    assert "add to the kernel command line: intel_iommu=on modprobe.blacklist=nouveau" in planned
    assert planned.endswith("run the same command with --apply.\n")

    applied = node.run("apply")
    assert states(applied)["Iommu"] == "RebootNeeded"
    assert "Done: 3 steps." in applied
    assert applied.endswith("run the same command with --apply --reboot.\n")

    assert node.run("apply", reboot=True).endswith("The host reboots.\n")
    ready = node.run("plan")
    assert set(states(ready).values()) == {"Met"}
    assert "Would do" not in ready
    assert "reboots" not in node.run("apply", reboot=True)

    assert "remove from the kernel command line: intel_iommu=on" in node.run("plan undo")
    undone = node.run("undo")
    assert "Done: 2 steps." in undone
    assert states(undone)["Removed/intel_iommu=on"] == "RebootNeeded"
    assert node.run("undo", reboot=True).endswith("The host reboots.\n")
    assert "Nothing is left to undo." in node.run("undo")
    assert "Nothing is left to undo." in node.run("plan undo")
    assert states(node.run("plan"))["Iommu"] == "Missing"


def test_what_an_earlier_command_left_half_done_is_said(node: Node, tmp_path: Path) -> None:
    wanted = Wanted(iommu=True, vfio_at_boot=True, blocked_drivers=("nouveau",))
    with opened(HOST, str(tmp_path)) as hardware:
        assert isinstance(hardware.host, SimulatedHost)
        hardware.host.faults.kill_at(3, "before")
        with pytest.raises(Killed):
            asyncio.run(prepare(hardware, wanted, actor="test", reason="earlier"))

    said = node.run("apply")

    assert "An interrupted plan (earlier) was finished." in said
    assert "Nothing is left to write." in said


def test_a_refusal_is_said_and_changes_nothing(node: Node) -> None:
    with pytest.raises(Failure, match="refused; nothing was changed"):
        node.run("apply", USUAL._replace(arguments=("root=/dev/sda1",)))

    assert "PreparationInvalid: " in node.errors
    assert states(node.run("plan"))["Iommu"] == "Missing"


def test_options_say_what_is_requested(node: Node) -> None:
    request = Request(
        iommu=False,
        iommu_passthrough=True,
        vfio=False,
        drivers=("none",),
        huge_pages=huge_pages(("1G=2",)),
        arguments=("pcie_aspm=off",),
    )

    found = states(node.run("plan", request))

    assert set(found) == {"IommuPassthrough", "HugePages/1G", "KernelArgument/pcie_aspm=off"}
    for wrong in ("1G", "1G=", "1G=x", "1G=-1", f"1G={'9' * 5000}"):
        with pytest.raises(click.UsageError, match="SIZE=COUNT"):
            huge_pages((wrong,))
