"""What it costs an agent to ask the driver what it measures, and Prometheus to scrape it.

A server with eight L40S of sixteen vGPUs each, all of which VMs have open. The driver is simulated:
what its program costs on a node comes on top (on an H100 with release 580, `--query-gpu` takes
25 ms of CPU, and the whole report in XML 70 ms). The answers of the program are taken beforehand,
so that given is the agent's own share: reading both answers, finding each vGPU's function and VM,
and the series of one scrape. Medians of CPU time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from prometheus_client import generate_latest
from support.report import arguments, header, middle, ms, table
from support.server import large_server

from laneway.api import Allocation
from laneway.controllers.device_plugin.status import NOT_READY
from laneway.controllers.gpu_locks import GpuLocks
from laneway.controllers.measuring.gpus import Measuring, Sources
from laneway.controllers.metrics import AgentMetrics, MetricFamilies
from laneway.core.programs import Completed
from laneway.host.port import Host
from laneway.host.scan import scan
from laneway.sim.host import SimulatedHost

GPUS, VGPUS = 8, 16
FUNCTIONS = 34 * GPUS + 30
PROFILE = "NVIDIA L40S-2Q"
PCI = "/sys/bus/pci/devices"


def filled() -> SimulatedHost:
    """The server with its vGPUs, each held by a VM."""
    host = large_server(FUNCTIONS)
    gpus = [gpu.address for gpu in scan(host).functions if gpu.sriov_gpu and gpu.physfn is None]
    for gpu in gpus[:GPUS]:
        host.call(["/usr/lib/nvidia/sriov-manage", "-e", str(gpu)])
    for gpu in gpus[:GPUS]:
        for vgpu in scan(host).vgpus_of(gpu)[:VGPUS]:
            kind = next(one.id for one in vgpu.creatable if one.name == PROFILE)
            host.write(f"{PCI}/{vgpu.address}/nvidia/current_vgpu_type", f"{kind}\n")
            host.hold(f"{PCI}/{vgpu.address}")
    return host


class Answered:
    """The driver's program with the answers that it gave once."""

    def __init__(self, host: SimulatedHost) -> None:
        self._host = host
        self.answers: dict[Sequence[str], Completed] = {}

    async def run(self, argv: Sequence[str], _seconds: float) -> Completed:
        if argv not in self.answers:
            self.answers[argv] = self._host.call(argv)
        return self.answers[argv]

    async def has(self, _program: str) -> bool:
        return True


def cpu(action: Callable[[], object], runs: int) -> float:
    spent = []
    for _ in range(runs):
        began = time.process_time()
        action()
        spent.append(time.process_time() - began)
    return middle(spent)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--runs", type=int, default=25)
    runs = parser.parse_args().runs
    header()
    host = filled()
    port: Host = host
    inventory = scan(port)
    families, program = MetricFamilies(), Answered(host)
    owner = Allocation(namespace="desks", pod="virt-launcher-x", virtual_machine="x")
    status = NOT_READY._replace(owner=owner)
    measuring = Measuring(
        "node1",
        program,
        GpuLocks(),
        Sources(lambda: inventory, lambda _kind, _name: status),
        AgentMetrics(families, "node1").measured,
        seconds=30,
    )
    asyncio.run(measuring.measure())
    with asyncio.Runner() as loop:
        collecting = cpu(lambda: loop.run(measuring.measure()), runs)
    scraping = cpu(lambda: generate_latest(families.registry), runs)
    scraped = generate_latest(families.registry)
    series = [line for line in scraped.decode().splitlines() if not line.startswith("#")]
    printed = sum(len(one.output) for one in program.answers.values())
    held = sum(line.startswith("laneway_vgpu_framebuffer_used_bytes") for line in series)
    table(
        f"{GPUS} GPUs, {held} vGPUs in use, {len(series)} series",
        ("", "CPU ms", "bytes"),
        [
            ("one collection, every 30 s", ms(collecting), f"{printed:,}"),
            ("one scrape", ms(scraping), f"{len(scraped):,}"),
        ],
    )


if __name__ == "__main__":
    main()
