"""What Laneway's own work adds to the kernel's and the driver's: operations on one server.

Each case is done once by Laneway, with everything that belongs to it (observing, deciding, journal,
audit record, guards, reading back), while what it asks of the host is recorded. The same writes and
commands are then made again, bare, one after the other, from the same state, and must lead to the
same end: that is the kernel's and the driver's time. What `nvidia-smi` takes to say what a GPU's
modes are is the driver's time too, but it would not be asked without Laneway, so it stands apart.
The rest is ours, by what it is spent on: observing, deciding, and carrying out. A case ends with
the look that finds nothing left to do. The scan is compared with bare reads of the same files.

On simulated hosts the kernel's part is our own simulation. With the kernel rig's cache at hand
(`make test-kernel` fills it) the same runs in guests, on a real kernel under emulation. That makes
instructions 10 to 20 times slower, ours more than others, and the drivers of the rig have no
hardware to wait for, so the share that is ours is far larger there than on a server. `sriov-manage`
and `nvidia-smi` are the rig's stand-ins, shell scripts as the former is on a server.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from support.report import arguments, header, ms, table

from laneway.core.decision import Decision
from laneway.core.inventory import Inventory
from laneway.core.layout.plan import DesiredGpu, plan_layout
from laneway.core.passthrough.binding import bind
from laneway.core.pci import PciAddress
from laneway.core.plan import Plan, Satisfied
from laneway.core.programs import NVIDIA_SMI, Completed
from laneway.core.release.device import release
from laneway.core.situation import Situation
from laneway.host.executors.local import LocalExecutor
from laneway.host.hardware import Hardware
from laneway.host.plans.execute import execute
from laneway.host.plans.state import open_state
from laneway.host.port import Executor, Host
from laneway.host.real import RealHost
from laneway.host.scan import scan
from laneway.host.situation import observe
from laneway.sim.spec import Spec, build

RIG = os.path.join(os.path.dirname(__file__), "../rig")
ROUNDS = 5
NVME = "0108"

DesiredState = Callable[[Situation], Decision]


class Changes:
    """A host and its programs, with note taken of what changes them; reads pass untouched."""

    def __init__(self, host: Host, executor: Executor) -> None:
        self._host = host
        self._executor = executor
        self.made: list[Callable[[], Awaitable[Any]]] = []
        self.asking = 0.0
        """Seconds spent on a program that only tells."""
        self.read, self.read_start = host.read, host.read_start
        self.readlink, self.resolve = host.readlink, host.resolve
        self.names, self.entries, self.exists = host.names, host.entries, host.exists
        self.owner, self.set_owner, self.write = host.owner, host.set_owner, host.write
        self.uevents, self.kernel_messages = host.uevents, host.kernel_messages
        self.addresses = host.addresses
        self.has = executor.has

    async def write_within(self, path: str, data: str, seconds: float) -> None:
        async def again() -> None:
            self._host.write(path, data)

        self.made.append(again)
        await self._host.write_within(path, data, seconds)

    async def run(self, argv: Sequence[str], seconds: float) -> Completed:
        if argv[0] != NVIDIA_SMI:
            self.made.append(lambda: self._executor.run(argv, seconds))
            return await self._executor.run(argv, seconds)
        began = time.perf_counter()
        try:
            return await self._executor.run(argv, seconds)
        finally:
            self.asking += time.perf_counter() - began


class Reads:
    """A host, with note taken of what is read."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.made: list[Callable[[], Any]] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._host, name)

        def read(*path: str) -> Any:
            self.made.append(lambda: method(*path))
            return method(*path)

        return read


class Tally:
    """What it took to come from one state to another."""

    def __init__(self) -> None:
        self.steps = 0
        self.observe = self.decide = self.execute = 0.0


class Cost(NamedTuple):
    """Seconds of one run, and how many steps it had."""

    steps: int
    kernel: float
    asking: float
    observe: float
    decide: float
    execute: float
    """The kernel's time included."""


class Case(NamedTuple):
    name: str
    desired: DesiredState
    opposite: DesiredState
    address: PciAddress


async def reach(hardware: Hardware, address: PciAddress, desired: DesiredState) -> Tally:
    """Decide and carry out until nothing is left to do."""
    tally = Tally()
    for _ in range(ROUNDS):
        began = time.perf_counter()
        situation = await observe(hardware, "node", [address])
        observed = time.perf_counter()
        decision = desired(situation)
        decided = time.perf_counter()
        tally.observe += observed - began
        tally.decide += decided - observed
        match decision:
            case Satisfied():
                return tally
            case Plan():
                await execute(hardware, decision, actor="bench", reason="bench")
                tally.execute += time.perf_counter() - decided
                tally.steps += len(decision.steps)
            case refusals:
                sys.exit(f"{address}: {refusals}")
    sys.exit(f"{address}: never done")


async def measure(hardware: Hardware, case: Case, runs: int) -> Cost:
    """One case, from the state that its opposite leaves; of each part the least disturbed run."""
    found = []
    for _ in range(runs):
        await reach(hardware, case.address, case.opposite)
        changes = Changes(hardware.host, hardware.executor)
        watched = hardware._replace(host=changes, executor=changes)
        tally = await reach(watched, case.address, case.desired)
        await reach(hardware, case.address, case.opposite)
        began = time.perf_counter()
        for change in changes.made:
            await change()
        kernel, asking = time.perf_counter() - began, changes.asking
        looking = tally.observe - asking
        found.append(Cost(tally.steps, kernel, asking, looking, tally.decide, tally.execute))
        if (await reach(hardware, case.address, case.desired)).steps:
            sys.exit(f"{case.name}: the bare writes did not lead to the same state")
    return Cost(*map(min, zip(*found, strict=True)))


def _layout(address: PciAddress) -> DesiredState:
    def decide(situation: Situation) -> Decision:
        known = [kind.name for vgpu in situation.inventory.vgpus for kind in vgpu.supported]
        smallest = next((name for name in known if name.endswith("-1Q")), "NVIDIA A2-1Q")
        return plan_layout(DesiredGpu(address, ((smallest, 16),)), situation)

    return decide


def _bind(address: PciAddress) -> DesiredState:
    return lambda situation: bind(address, situation)


def _release(address: PciAddress) -> DesiredState:
    return lambda situation: release(address, situation)


def cases(gpu: PciAddress, disk: PciAddress | None) -> list[Case]:
    """Each case next to its opposite."""
    found = [
        Case("16 VFs and 16 vGPUs", _layout(gpu), _release(gpu), gpu),
        Case("all of them away", _release(gpu), _layout(gpu), gpu),
        Case("GPU to vfio-pci", _bind(gpu), _release(gpu), gpu),
        Case("GPU back", _release(gpu), _bind(gpu), gpu),
    ]
    if disk is not None:
        found += [
            Case("NVMe disk to vfio-pci", _bind(disk), _release(disk), disk),
            Case("NVMe disk back", _release(disk), _bind(disk), disk),
        ]
    return found


def _disk(inventory: Inventory) -> PciAddress | None:
    """An NVMe disk that the server does not run on."""
    disks = (f.address for f in inventory.functions if f.class_code.startswith(NVME))
    return next((disk for disk in disks if disk not in inventory.critical), None)


async def inside(name: str, host: Host, executor: Executor, runs: int) -> list[tuple[str, ...]]:
    """Every case on one host."""
    inventory = scan(host)
    gpu = next(f.address for f in inventory.functions if f.sriov_gpu)
    rows = []
    with tempfile.TemporaryDirectory() as state:
        hardware = Hardware(host, executor, open_state(state, host))
        rows += [
            _row(f"{name}: {case.name}", await measure(hardware, case, runs))
            for case in cases(gpu, _disk(inventory))
        ]
        await reach(hardware, gpu, _layout(gpu))
    rows.append(_scan(name, host, runs))
    return rows


def _row(name: str, cost: Cost) -> tuple[str, ...]:
    parts = cost.observe, cost.decide, cost.execute - cost.kernel
    ours = sum(parts)
    times = ours + cost.kernel + cost.asking, cost.kernel, cost.asking, ours, *parts
    return (name, str(cost.steps), *map(ms, times), f"{ours / cost.kernel:.2f}")


def _scan(name: str, host: Host, runs: int) -> tuple[str, ...]:
    totals, bare = [], []
    reads = Reads(host)
    scan(reads)
    for _ in range(max(runs, 5)):
        began = time.perf_counter()
        scan(host)
        totals.append(time.perf_counter() - began)
        began = time.perf_counter()
        for read in reads.made:
            try:
                read()
            except OSError:
                continue
        bare.append(time.perf_counter() - began)
    total, kernel = min(totals), min(bare)
    ours = total - kernel
    times = ms(total), ms(kernel), "", ms(ours), ms(ours), "", ""
    return (f"{name}: scan with 16 VFs", "", *times, f"{ours / kernel:.2f}")


def guests(cache: str, runs: int) -> list[tuple[str, ...]]:
    """The same on real kernels, both frameworks."""
    rows = []
    for kernel in sorted(os.listdir(cache)):
        for mode in ("mdev", "vendor"):
            script = f"{sys.executable} {os.path.abspath(__file__)}"
            command = f"{script} --inside {kernel}/{mode} --runs {runs}"
            environment = {**os.environ, "GPUS": "a2", "NVME": "on", "MODE": mode, "MEM": "768"}
            environment |= {"QUIET": "1", "TIMEOUT": "400", "PYTHONDONTWRITEBYTECODE": "1"}
            ended = subprocess.run(
                [f"{RIG}/boot.sh", f"{cache}/{kernel}", command],
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            lines = ended.stdout.splitlines()
            found = [tuple(line.split("\t")[1:]) for line in lines if line.startswith("row\t")]
            if ended.returncode or not found:
                sys.exit(f"the guest {kernel}/{mode} failed:\n{ended.stdout[-2000:]}{ended.stderr}")
            rows += found
    return rows


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--inside", metavar="NAME", help="measure this machine, a guest of the rig")
    options = parser.parse_args()
    if options.inside:
        if "RIG_CACHE" not in os.environ:
            sys.exit("this changes hardware, so it runs in a guest of the kernel rig only")
        host = RealHost()
        for row in asyncio.run(inside(options.inside, host, LocalExecutor(), options.runs)):
            print("row", *row, sep="\t")
        return
    header()
    rows = []
    for model in ("a2", "l40s"):
        host = build(Spec(model=model), model)
        rows += asyncio.run(inside(f"simulated {model}", host, host, options.runs))
    cache = os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "laneway/rig"
    )
    if os.path.isdir(cache) and os.listdir(cache):
        rows += guests(cache, options.runs)
    else:
        print("\nNothing on a real kernel: make test-kernel fetches the kernels")
    times = ("total ms", "kernel ms", "asking ms", "ours ms", "observe", "decide", "carry out")
    table("Operations", ("host and operation", "steps", *times, "ours/kernel"), rows)


if __name__ == "__main__":
    main()
