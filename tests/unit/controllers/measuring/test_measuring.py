"""What a scrape has of GPUs and vGPUs, and what becomes of it when the driver does not answer."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import msgspec
import pytest

from laneway.api import Allocation
from laneway.controllers.device_plugin.status import NOT_READY, DeviceStatus
from laneway.controllers.gpu_locks import GpuLocks
from laneway.controllers.measuring.gpus import Measuring, Sources, reports
from laneway.controllers.metrics import AgentMetrics, MetricFamilies
from laneway.controllers.observing.xids import Xids
from laneway.core.inventory import Inventory
from laneway.core.pci import PciAddress
from laneway.core.programs import Completed
from laneway.host.scan import scan
from laneway.sim.host import SimulatedHost
from laneway.sim.spec import build, parse_spec

PCI = "/sys/bus/pci/devices"
GPU, VF = "0000:17:00.0", "0000:17:00.4"
DC_4Q = "NVIDIA RTX Pro 6000 Blackwell DC-4Q"
VGPU = {"gpu": GPU, "vgpu": VF, "profile": DC_4Q, "namespace": "desks", "vm": "ann"}


class Node:
    """A server whose driver can be asked, and what Prometheus gets of it."""

    def __init__(self) -> None:
        self.host: SimulatedHost = build(parse_spec("rtx-pro-6000"), "node1")
        self.host.call(["/usr/lib/nvidia/sriov-manage", "-e", GPU])
        lines = self.host.read(f"{PCI}/{VF}/nvidia/creatable_vgpu_types").decode().splitlines()
        kind = next(line for line in lines if line.endswith(DC_4Q)).partition(":")[0]
        self.host.write(f"{PCI}/{VF}/nvidia/current_vgpu_type", f"{kind.strip()}\n")
        self.inventory: Inventory | None = scan(self.host)
        self.families = MetricFamilies()
        self.metrics = AgentMetrics(self.families, "node1")
        self.locks = GpuLocks()
        self.asked: list[Sequence[str]] = []
        sources = Sources(lambda: self.inventory, self.status)
        self.measuring = Measuring(
            "node1", self, self.locks, sources, self.metrics.measured, seconds=30
        )

    def status(self, kind: str, name: str) -> DeviceStatus:
        held = (kind, name) == ("VGPUDevice", "node1-000017004")
        owner = Allocation(namespace="desks", pod="x", virtual_machine="ann") if held else None
        return NOT_READY._replace(owner=owner)

    async def run(self, argv: Sequence[str], seconds: float) -> Completed:
        self.asked.append(argv)
        return await self.host.run(argv, seconds)

    async def has(self, program: str) -> bool:
        return await self.host.has(program)

    def value(self, name: str, **labels: str) -> float | None:
        return self.families.registry.get_sample_value(name, {"node": "node1", **labels})

    def series(self, prefix: str) -> list[str]:
        return [
            sample.name
            for family in self.families.registry.collect()
            for sample in family.samples
            if sample.name.startswith(prefix)
        ]


@pytest.fixture
def node() -> Node:
    return Node()


async def test_gpus_and_the_vgpus_that_vms_have(node: Node) -> None:
    vm = node.host.hold(f"{PCI}/{VF}")
    await node.measuring.measure()

    assert node.value("laneway_gpu_temperature_celsius", gpu=GPU, sensor="gpu") == 35
    assert node.value("laneway_gpu_memory_used_bytes", gpu=GPU) == 4 * 2**30
    errors = {"severity": "uncorrected", "counter": "volatile"}
    assert node.value("laneway_gpu_ecc_errors_total", gpu=GPU, **errors) == 0
    assert node.value("laneway_vgpu_framebuffer_used_bytes", **VGPU) == 128 * 2**20
    assert node.value("laneway_vgpu_framebuffer_total_bytes", **VGPU) == 4 * 2**30
    assert node.value("laneway_vgpu_utilization_ratio", **VGPU, engine="gpu") == 0
    assert node.value("laneway_vgpu_licensed", **VGPU) is None, "its guest has not told"

    vm.release()
    await node.measuring.measure()
    assert node.series("laneway_vgpu_framebuffer") == []


async def test_a_gpu_that_the_driver_no_longer_has_has_no_series(node: Node) -> None:
    await node.measuring.measure()
    assert len(node.series("laneway_gpu_power_watts")) == 2

    node.host.write(f"{PCI}/0000:98:00.0/driver/unbind", "0000:98:00.0")
    node.inventory = scan(node.host)
    await node.measuring.measure()
    assert len(node.series("laneway_gpu_power_watts")) == 1
    assert node.value("laneway_gpu_power_watts", gpu=GPU) == 71

    node.inventory = Inventory()
    await node.measuring.measure()
    assert node.series("laneway_gpu_p") == []
    assert node.value("laneway_gpu_query_success", query="gpus") is None


async def test_no_answer_is_counted_logged_once_and_leaves_no_old_value(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    await node.measuring.measure()
    node.host.faults.fail_command("nvidia-smi", 15, "GPU is lost", times=4)
    await node.measuring.measure()
    await node.measuring.measure()

    assert node.series("laneway_gpu_power_watts") == []
    assert node.value("laneway_gpu_query_success", query="gpus") == 0
    assert node.value("laneway_gpu_query_failures_total", query="gpus") == 2
    lines = [record.getMessage() for record in caplog.records]
    assert lines == [
        f"cannot read what the driver of node node1 measures of its {what}: "
        "nvidia-smi ended with status 15: GPU is lost"
        for what in ("GPUs", "vGPUs")
    ]
    await node.measuring.measure()
    assert node.value("laneway_gpu_query_success", query="gpus") == 1
    assert node.value("laneway_gpu_power_watts", gpu=GPU) == 71


async def test_nothing_is_asked_while_a_plan_is_carried_out(node: Node) -> None:
    card = PciAddress.parse(GPU)
    with node.locks.on(card, ("VGPUDevice", "x"), lambda: None):
        await node.measuring.measure()
        assert node.asked == []
    await node.measuring.measure()
    assert len(node.asked) == 2, "one question about all GPUs, one about all vGPUs"
    assert not node.locks.busy(card)


async def test_a_field_that_the_driver_lacks_is_asked_again_of_another_release(node: Node) -> None:
    refusal = 'Field "temperature.gpu.tlimit" is not a valid field to query.\n\n'
    node.host.faults.fail_command("nvidia-smi", 2, refusal)
    await node.measuring.measure()
    assert len(node.asked) == 3
    assert node.value("laneway_gpu_temperature_margin_celsius", gpu=GPU) is None
    await node.measuring.measure()
    assert len(node.asked) == 5
    assert node.value("laneway_gpu_temperature_margin_celsius", gpu=GPU) is None

    assert node.inventory is not None
    node.inventory = msgspec.structs.replace(node.inventory, nvidia_driver="999.1")
    await node.measuring.measure()
    assert node.value("laneway_gpu_temperature_margin_celsius", gpu=GPU) == 53


async def test_errors_in_the_kernels_log(node: Node) -> None:
    xids = Xids(node.host)
    for code in (31, 31, 79):
        xids._take(f"NVRM: Xid (PCI:{GPU[:-2]}): {code}, pid=1, text")
    xids._take("NVRM: Xid (PCI:0000:55:00): 79, pid=1, a GPU that is not there any more")
    node.metrics.counts_reports(lambda: reports(node.inventory, xids))

    assert node.value("laneway_gpu_xids_total", gpu=GPU, xid="31") == 2
    assert node.value("laneway_gpu_faults", gpu=GPU, xid="79") == 1
    assert len(node.series("laneway_gpu_xids_total")) == 2
