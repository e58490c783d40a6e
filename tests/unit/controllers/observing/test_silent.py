"""What is noticed of changes that no event tells, and what noticing costs."""

from __future__ import annotations

import asyncio
import threading

import pytest

from laneway.controllers.gpu_locks import GpuLocks
from laneway.controllers.metrics import AgentMetrics, MetricFamilies
from laneway.controllers.observing.observer import Observer
from laneway.controllers.observing.silent import SilentChanges
from laneway.core.inventory import VgpuFunction
from laneway.core.programs import SRIOV_MANAGE
from laneway.host.hardware import Hardware
from laneway.host.nvidia import smi
from laneway.host.nvidia.modes import read_instances
from laneway.sim.spec import build, parse_spec


class Node:
    """A simulated host that counts reads and can keep those of one path waiting."""

    def __init__(self, spec: str, **seconds: float) -> None:
        self.host = build(parse_spec(spec), "node1")
        self.reads: list[str] = []
        self.odd: dict[str, bytes] = {}
        self.waits = ""
        self.open = threading.Event()
        self.locks = GpuLocks()
        hardware = Hardware(self, self.host, None)  # type: ignore[arg-type]
        self.observer = Observer(hardware, self.locks, AgentMetrics(MetricFamilies(), "node1"))
        self.silent = SilentChanges(self, self.observer, self.locks, **seconds)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> object:
        return getattr(self.host, name)

    def read(self, path: str) -> bytes:
        self.reads.append(path)
        if self.waits and self.waits in path:
            self.open.wait(60)
        return self.odd.get(path) or self.host.read(path)

    async def wanted(self) -> bool:
        """Whether a look finds that a scan is wanted."""
        self.observer.wanted.clear()
        await self.silent.look()
        return self.observer.wanted.is_set()

    async def vgpus(self) -> tuple[VgpuFunction, ...]:
        return (await self.observer.rescan()).vgpus


def current(vgpu: VgpuFunction) -> str:
    return f"/sys/bus/pci/devices/{vgpu.address}/nvidia/current_vgpu_type"


async def test_a_vgpu_made_or_removed_by_hand_is_noticed_once() -> None:
    node = Node("l40s")
    *_, last = await node.vgpus()
    before = await node.wanted()

    node.host.write(current(last), last.creatable[0].id)
    made = await node.wanted()
    await node.observer.rescan()
    known = await node.wanted()
    node.host.write(current(last), "0")
    removed = await node.wanted()

    assert [before, made, known, removed] == [False, True, False, True]


async def test_another_profile_on_the_same_function_is_noticed() -> None:
    node = Node("l40s")
    first, *_ = await node.vgpus()
    node.host.write(current(first), first.creatable[0].id)
    await node.observer.rescan()

    node.host.write(current(first), "0")
    node.host.write(current(first), first.creatable[1].id)

    assert await node.wanted()


async def test_mdev_lists_that_shrink_are_noticed() -> None:
    """The kernel announces the vGPU on its function, but not what that means to the others."""
    node = Node("a2")
    first, *_ = await node.vgpus()
    before = await node.wanted()

    types = f"/sys/bus/pci/devices/{first.address}/mdev_supported_types"
    uuid = "6f1a1b7c-2f0e-4f0c-9f3f-0d9b1b1c1d1e"
    node.host.write(f"{types}/{first.creatable[-1].id}/create", uuid)

    assert not before
    assert await node.wanted()


@pytest.mark.parametrize("spec", ["a100", "hgx-h100"])
async def test_profiles_that_come_with_a_gpu_instance_are_noticed(spec: str) -> None:
    node = Node(spec)
    gpu = (await node.vgpus())[0].parent
    node.host.call((SRIOV_MANAGE, "-d", str(gpu)))
    node.host.call(smi.set_mig_mode(gpu, enabled=True))
    node.host.call((SRIOV_MANAGE, "-e", str(gpu)))
    found = await node.observer.rescan(gpu)
    before = await node.wanted()

    kinds = found.modes[gpu].profiles
    kind = max((one for one in kinds if "+" not in one.name), key=lambda one: one.total)
    node.host.call(smi.create_instance(gpu, kind.id, kind.starts[0]))
    (instance,) = await read_instances(node.host, gpu)
    node.host.call(smi.create_compute_instance(gpu, instance.id))

    assert not before
    assert await node.wanted()


async def test_at_rest_a_look_reads_what_it_must_and_one_list_of_each_card() -> None:
    node = Node("l40s")
    vgpus = await node.vgpus()
    gpus = {vgpu.parent for vgpu in vgpus}
    node.reads.clear()

    assert not await node.wanted()

    lists = [path for path in node.reads if path.endswith("creatable_vgpu_types")]
    assert sorted(node.reads) == sorted([*map(current, vgpus), *lists])
    assert len(lists) == len(gpus)


async def test_a_card_is_left_alone_while_a_plan_is_carried_out_on_it() -> None:
    node = Node("l40s")
    first, *_, last = await node.vgpus()
    node.reads.clear()

    with node.locks.on(first.parent, ("VGPUDevice", "one"), lambda: None):
        node.host.write(current(first), first.creatable[0].id)
        during = await node.wanted()
        read = list(node.reads)
        other = current(last)

    assert not during
    assert other in read
    assert current(first) not in read
    assert await node.wanted()


async def test_what_a_scan_does_not_explain_is_not_scanned_for_again() -> None:
    node = Node("l40s")
    first, *_ = await node.vgpus()
    node.odd[current(first)] = b"7777\n"
    once = await node.wanted()

    assert once
    assert not await node.wanted()


async def test_what_was_gone_while_the_scan_ran_and_is_back_is_scanned_for_again() -> None:
    node = Node("l40s", unexplained=0.0)
    first, *_ = await node.vgpus()
    node.host.write(current(first), first.creatable[0].id)
    made = await node.wanted()

    node.host.write(current(first), "0")
    await node.observer.rescan()
    node.host.write(current(first), first.creatable[0].id)

    assert made
    assert await node.wanted()


async def test_what_no_scan_explains_is_scanned_for_more_and_more_seldom() -> None:
    node = Node("l40s", unexplained=0.001)
    first, *_ = await node.vgpus()
    node.odd[current(first)] = b"7777\n"

    scans = 0
    async with asyncio.timeout(20):
        while node.silent._reported.get(first.parent, (0, 0.0))[1] < 0.1:
            scans += await node.wanted()

    assert scans == 8


async def test_a_driver_that_does_not_answer_holds_up_neither_the_agent_nor_other_cards() -> None:
    node = Node("l40s", patience=0.1, pause=0.01)
    first, *_, last = await node.vgpus()
    node.waits = current(first)

    assert not await node.wanted()  # gives up on the first card
    node.host.write(current(last), last.creatable[0].id)
    seen_elsewhere = await node.wanted()
    await node.silent.look()  # does not wait for the first card again
    node.open.set()
    node.host.write(current(first), first.creatable[0].id)
    node.observer.wanted.clear()
    task = asyncio.create_task(node.silent.run())
    async with asyncio.timeout(20):
        await node.observer.wanted.wait()  # the first card is looked at again
    task.cancel()

    assert seen_elsewhere
