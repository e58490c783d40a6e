"""Steps of MIG where the program's answers are not what they seem."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path

import pytest

from laneway.core.pci import PciAddress
from laneway.core.plan import (
    CreateComputeInstance,
    CreateGpuInstance,
    DestroyComputeInstance,
    DestroyGpuInstance,
    MigStep,
    SetMigMode,
    SetMixedSize,
)
from laneway.host.hardware import Hardware
from laneway.host.plans.operations.mig import OPERATIONS
from laneway.host.plans.operations.operation import Limits, Seen, State
from laneway.host.port import Completed
from laneway.sim.spec import Spec, build
from support.plans import hardware_of

GPU = PciAddress.parse("0000:41:00.0")
INSTANCE = "| GPU instances: |\n|   0  MIG 3g.20gb          9        2          4:4     |\n"
COMPUTE = (
    "| Compute instances: |\n|   0      2       MIG 3g.20gb       2         0          0:4     |\n"
)


class Program:
    """An nvidia-smi with these answers, by a word of the command line."""

    def __init__(self, answers: dict[str, Completed]) -> None:
        self.answers = answers

    async def has(self, program: str) -> bool:
        return bool(program)

    async def run(self, argv: Sequence[str], seconds: float) -> Completed:
        assert seconds > 0
        found = next(word for word in reversed(argv) if word.partition("=")[0] in self.answers)
        return self.answers[found.partition("=")[0]]


@pytest.fixture
def node(tmp_path: Path) -> Hardware:
    return hardware_of(build(Spec("plain"), "node"), tmp_path)


def answering(node: Hardware, **answers: str | Completed) -> Hardware:
    words = {
        f"-{name}": Completed(0, answer) if isinstance(answer, str) else answer
        for name, answer in answers.items()
    }
    return node._replace(executor=Program(words))


async def state(node: Hardware, step: MigStep) -> Seen:
    return await OPERATIONS[type(step)].state(node, step)


async def perform(node: Hardware, step: MigStep) -> None:
    await OPERATIONS[type(step)].perform(node, step, Limits())


def mixed(word: str) -> str:
    return f"GPU 00000000:41:00.0\n        vGPU Heterogeneous Mode           : {word}\n"


def both_modes(word: str) -> str:
    row = f"        Current                           : {word}\n"
    return mixed(word).replace("\n", f"\n    MIG Mode\n{row}", 1)


async def test_a_success_that_changed_nothing_is_a_failure(node: Hardware) -> None:
    silent = answering(node, shm="Enabled vGPU heterogeneous mode\n", q=mixed("Disabled"))
    with pytest.raises(OSError, match="the mode did not change") as failure:
        await perform(silent, SetMixedSize(GPU, enabled=True))
    assert failure.value.errno == errno.EOPNOTSUPP


async def test_a_mode_that_waits_for_a_reset_is_a_failure(node: Hardware) -> None:
    words = "Warning: MIG mode is in pending enable state for GPU 00000000:41:00.0:In use\n"
    with pytest.raises(OSError, match="needs a reset that others prevent: Warning: MIG mode"):
        await perform(answering(node, mig=words), SetMigMode(GPU, enabled=True))


async def test_a_gpu_in_use_is_busy_and_the_program_is_quoted(node: Hardware) -> None:
    busy = answering(node, shm=Completed(19, "In use by another client\n"))
    with pytest.raises(OSError, match="status 19: In use by another client") as failure:
        await perform(busy, SetMixedSize(GPU, enabled=True))
    assert failure.value.errno == errno.EBUSY


@pytest.mark.parametrize(
    ("step", "word", "expected"),
    [
        (SetMigMode(GPU, enabled=True), "Enabled", State.AFTER),
        (SetMigMode(GPU, enabled=True), "Disabled", State.BEFORE),
        (SetMigMode(GPU, enabled=False), "N/A", State.OTHER),
        (SetMixedSize(GPU, enabled=True), "Enabled", State.AFTER),
        (SetMixedSize(GPU, enabled=False), "Enabled", State.BEFORE),
        (SetMixedSize(GPU, enabled=True), "N/A", State.OTHER),
    ],
)
async def test_where_a_mode_is(node: Hardware, step: MigStep, word: str, expected: State) -> None:
    assert (await state(answering(node, q=both_modes(word)), step)).state is expected


NONE_FOUND = Completed(6, "No GPU instances found: Not Found\n")
NO_MIG = Completed(6, "No MIG-enabled devices found.\n")
THERE = {
    CreateGpuInstance(GPU, "3g.20gb", 9, 4): (State.AFTER, State.BEFORE),
    CreateGpuInstance(GPU, "4g.20gb", 5, 4): (State.OTHER, State.BEFORE),
    DestroyGpuInstance(GPU, "3g.20gb", 9, 4): (State.BEFORE, State.AFTER),
    DestroyGpuInstance(GPU, "4g.20gb", 5, 4): (State.OTHER, State.AFTER),
    CreateComputeInstance(GPU, 4): (State.AFTER, State.OTHER),
    DestroyComputeInstance(GPU, 4): (State.BEFORE, State.AFTER),
    SetMixedSize(GPU, enabled=True, instance_start=4): (State.BEFORE, State.OTHER),
}


@pytest.mark.parametrize("step", THERE)
async def test_where_a_gpu_instance_is(node: Hardware, step: MigStep) -> None:
    with_it, without = THERE[step]
    there = answering(node, lgi=INSTANCE, lci=COMPUTE, ghm=mixed("Disabled"))

    assert (await state(there, step)).state is with_it
    for answer in (NONE_FOUND, NO_MIG):
        assert (await state(answering(node, lgi=answer), step)).state is without


@pytest.mark.parametrize(
    "step",
    [
        DestroyGpuInstance(GPU, "3g.20gb", 9, 0),
        CreateComputeInstance(GPU, 0),
        DestroyComputeInstance(GPU, 0),
        SetMixedSize(GPU, enabled=True, instance_start=0),
    ],
)
async def test_what_needs_a_gpu_instance_says_that_there_is_none(
    node: Hardware, step: MigStep
) -> None:
    with pytest.raises(OSError, match="no GPU instance exists at 0"):
        await perform(answering(node, lgi=INSTANCE, lci=COMPUTE), step)
