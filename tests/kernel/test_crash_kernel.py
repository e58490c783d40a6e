"""A process that is killed in the middle of a plan leaves work that the next one ends.

On the simulation every step of every plan is tried; here a few are, with real processes, real
signals and a real kernel that finishes its work although no process waits any more.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from laneway.core.pci import PciAddress
from laneway.core.plan import (
    CreateMdev,
    Plan,
    SetMixedSize,
    SetVgpuParameters,
    SetVgpuType,
    Step,
    SwitchGpuVfs,
)
from laneway.core.release.device import release
from laneway.host.hardware import Hardware
from laneway.host.plans.execute import execute
from laneway.host.plans.recover import recover
from laneway.host.situation import observe
from support.machines import RigMachine, hardware, until

TESTS = Path(__file__).parents[1]

_SLOW = {"msleep", "create_vgpu", "gpu_probe", "probe_vf"}
"""Where in the kernel a write is found that the driver takes its time for."""


def everything(rig: str, gpu: PciAddress) -> Plan:
    """What the simulated driver can do, from a GPU without VFs on."""
    vfs = (gpu._replace(function=4), gpu._replace(function=5))
    kinds = (("746", "NVIDIA A2-4Q"), ("745", "NVIDIA A2-2Q"))
    made = [str(uuid.UUID(int=number)) for number in (1, 2)] if rig == "mdev" else ["", ""]
    steps: list[Step] = [SwitchGpuVfs(gpu, enabled=True, count=16), SetMixedSize(gpu, enabled=True)]
    for vf, (kind, name), one in zip(vfs, kinds, made, strict=True):
        if rig == "mdev":
            steps.append(CreateMdev(vf, f"nvidia-{kind}", name, one))
        else:
            steps.append(SetVgpuType(vf, kind, "0", name))
    steps.append(SetVgpuParameters(vfs[0], made[0], "frame_rate_limiter=0", ""))
    return Plan(tuple(steps))


SWITCH, MIX, FIRST, SECOND, PARAMETERS = range(1, 6)
"""Numbers of its steps."""


class Scene:
    """A GPU without VFs, and what becomes of it."""

    def __init__(self, machine: RigMachine, folder: Path, gpu: PciAddress, plan: Plan) -> None:
        self.machine = machine
        self.node = hardware(machine, folder / "state")
        self.gpu = gpu
        self.plan = plan
        self.process: subprocess.Popen[str] | None = None
        self._file = folder / "plan.json"
        self._file.write_bytes(msgspec.json.encode(plan))

    def begin(self, *operation_names: str) -> subprocess.Popen[str]:
        """Have another process carry out the plan, and do at a phase what carrying_out.py says."""
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "support.carrying_out",
                self._file,
                self.node.state.path,
                *operation_names,
            ],
            cwd=TESTS,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(TESTS)},
        )
        return self.process

    async def visible(self) -> object:
        """All of the node but the numbers of groups, which the kernel gives again each time."""
        seen = await observe(self.node, "node", [self.gpu])
        assert seen.inventory.errors == ()
        drop = msgspec.structs.replace
        vgpus = [
            drop(vgpu, configured=vgpu.configured and drop(vgpu.configured, iommu_group=None))
            for vgpu in seen.inventory.vgpus
        ]
        functions = [drop(function, iommu_group=None) for function in seen.inventory.functions]
        return functions, vgpus, seen.gpus, seen.parameters, seen.overrides, seen.autoprobe

    async def clear(self, node: Hardware) -> None:
        away = release(self.gpu, await observe(node, "node", [self.gpu]))
        if isinstance(away, Plan):
            await execute(node, away, actor="test", reason="clear")

    async def ends_well(self, after: object) -> None:
        """As the agent does when it starts: first of all what was left behind is ended."""
        assert self.process is not None
        self.process.communicate(timeout=60)
        assert self.process.returncode == -signal.SIGKILL
        [recovery] = await recover(self.node, actor="next")
        assert recovery.outcome == "finished", recovery
        assert await self.visible() == after
        assert self.node.state.interrupted() == []


@pytest.fixture
async def scene(
    rig: str, machine: RigMachine, pf: PciAddress, tmp_path: Path, without_vfs: None
) -> AsyncIterator[Scene]:
    found = Scene(machine, tmp_path, pf, everything(rig, pf))
    yield found
    if found.process is not None:
        found.process.kill()
        found.process.communicate()
    machine.close()
    await found.clear(hardware(machine, tmp_path / "clear"))


@pytest.fixture(scope="module")
def remembered() -> list[object]:
    """What the plan comes to without an interruption."""
    return []


@pytest.fixture
async def after(remembered: list[object], scene: Scene) -> object:
    if not remembered:
        await execute(scene.node, scene.plan, actor="test", reason="uninterrupted")
        remembered.append(await scene.visible())
        await scene.clear(scene.node)
    return remembered[0]


@pytest.mark.parametrize(
    ("phase", "number"), [("doing", SWITCH), ("done", SWITCH), ("done", SECOND)]
)
async def test_killed_between_two_writes(
    scene: Scene, after: object, phase: str, number: int
) -> None:
    scene.begin("kill", phase, str(number)).communicate(timeout=60)
    await scene.ends_well(after)


@pytest.mark.parametrize(("number", "slow_ms"), [(SWITCH, 200), (SECOND, 2000)])
async def test_killed_while_the_kernel_is_at_work(
    scene: Scene, after: object, number: int, slow_ms: int
) -> None:
    process = scene.begin("wait", "doing", str(number))
    assert process.stdin is not None
    reach(process, f"doing {number}")
    scene.machine.knob("slow_ms", slow_ms)
    process.stdin.write("\n")
    process.stdin.flush()
    until(writing)
    process.kill()
    await scene.ends_well(after)


def reach(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdout is not None
    assert any(said.strip() == line for said in process.stdout), f"it ended before {line}"


def writing() -> bool:
    """Whether a process waits in the kernel for the simulated driver."""
    return any(_wchan(name) in _SLOW for name in os.listdir("/proc") if name.isdigit())


def _wchan(process: str) -> Any:
    try:
        return Path(f"/proc/{process}/wchan").read_text()
    except OSError:
        return ""
