"""The ledger of a cluster in which VMs run: what the numbers say is what happens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from laneway.controllers.ledger.snapshot import look
from laneway.core import keys
from laneway.core.ledger.answer import can_start
from laneway.core.ledger.build import build
from laneway.core.ledger.facts import Consumer, ConsumerKind
from laneway.core.ledger.ledger import Counts, Ledger
from laneway.core.ledger.question import Request
from laneway.simcluster.kubevirt.objects import VMS
from support.worlds import NAMESPACE, World

PROFILE = "NVIDIA A2-2Q"
VGPU = "nvidia.com/NVIDIA_A2-2Q"
NODE = "node1"
SECONDS = 60.0


def vm(name: str) -> Consumer:
    return Consumer(ConsumerKind.VM, NAMESPACE, name)


async def vgpus(world: World, count: int) -> None:
    await world.add(NODE, "a2")
    for number in range(count):
        await world.vgpu(f"{NODE}-00000800{4 + number}", PROFILE)
    await world.allocatable(NODE, VGPU, count)


async def until(world: World, holds: Callable[[Ledger], bool]) -> Ledger:
    """Wait until the manager's ledger is as a test expects."""
    assert world.manager is not None
    source = world.manager.ledger
    made: asyncio.Queue[Any] = asyncio.Queue()
    source.subscribe(made.put_nowait)
    ledger = source.ledger
    async with asyncio.timeout(SECONDS):
        while ledger is None or not holds(ledger):
            ledger = await made.get()
    return ledger


def counts(ledger: Ledger) -> Counts:
    stock = ledger.stocks.get((NODE, VGPU))
    return stock.counts if stock is not None else Counts()


def reported(ledger: Ledger, consumer: Consumer) -> bool:
    """Whether an agent has said which vGPU a VM has."""
    stock = ledger.stocks.get((NODE, VGPU))
    return stock is not None and any(device.owner == consumer for device in stock.devices)


async def test_two_race_for_the_last_vgpu_and_the_other_gets_the_holders_name(world: World) -> None:
    await vgpus(world, 1)
    ledger = await until(world, lambda ledger: counts(ledger) == Counts(1, free=1))
    assert can_start(ledger, Request(resources={VGPU: 1})).yes
    assert not can_start(ledger, Request(resources={VGPU: 1}, vms=2)).yes

    await asyncio.gather(world.make_vm("one", gpus=[VGPU]), world.make_vm("two", gpus=[VGPU]))
    ledger = await until(
        world,
        lambda ledger: counts(ledger).held == 1 and len(ledger.shortages) == 1,
    )
    [(winner, _)] = ledger.shares.items()
    [shortage] = ledger.shortages
    assert {winner, shortage.consumer} == {vm("one"), vm("two")}
    [refusal] = can_start(ledger, Request(resources={VGPU: 1})).refusals
    assert f"node node1 has 0 free of 1 (1 held by {winner})" in refusal.words
    assert await world.unschedulable(shortage.consumer.name)

    await world.delete_vm(winner.name)
    await world.running(shortage.consumer.name)
    ledger = await until(world, lambda ledger: shortage.consumer in ledger.shares)
    assert ledger.shortages == ()


@pytest.mark.slow
async def test_a_device_of_a_stopped_vm_is_kept_for_it(world: World) -> None:
    await vgpus(world, 2)
    await world.make_vm("one", gpus=[VGPU])
    await world.running("one")
    ledger = await until(world, lambda ledger: reported(ledger, vm("one")))
    assert counts(ledger) == Counts(2, held=1, free=1)
    [share] = ledger.shares[vm("one")]
    record = keys.ANNOTATION_ALLOCATION
    await world.until(VMS, "one", lambda one: record in one.metadata.annotations, NAMESPACE)

    await world.stop_vm("one")
    ledger = await until(world, lambda ledger: counts(ledger) == Counts(2, reserved=1, free=1))
    assert ledger.shares[vm("one")] == (share,)
    answer = can_start(ledger, Request(resources={VGPU: 2}))
    assert "1 reserved by the stopped VM default/one" in answer.refusals[0].words
    assert can_start(ledger, Request(resources={VGPU: 2}, replacing=(vm("one"),))).yes

    await world.delete_vm("one")
    await until(world, lambda ledger: counts(ledger) == Counts(2, free=2))


@pytest.mark.slow
async def test_a_vm_whose_hostname_is_anothers_name_is_counted_as_itself(world: World) -> None:
    await vgpus(world, 2)
    await world.make_vm("one", gpus=[VGPU])
    await world.make_vm("two.office", gpus=[VGPU], hostname="one")
    vms = (vm("one"), vm("two.office"))
    ledger = await until(world, lambda ledger: all(reported(ledger, one) for one in vms))
    assert counts(ledger) == Counts(2, held=2)


@pytest.mark.slow
async def test_a_command_and_the_manager_agree(world: World) -> None:
    await vgpus(world, 2)
    await world.claim(f"{NODE}-000004001")
    await world.make_vm("one", gpus=[VGPU])
    await world.running("one")
    await until(world, lambda ledger: reported(ledger, vm("one")) and len(ledger.stocks) == 2)
    assert world.manager is not None
    # A last word of the agents may come yet, which one of both sees before the other.
    async with asyncio.timeout(SECONDS):
        while True:
            now, ledger = build((await look(world.client)).facts), world.manager.ledger.ledger
            assert ledger is not None
            if (now.stocks, now.shares) == (ledger.stocks, ledger.shares):
                break
            await asyncio.sleep(0.05)
