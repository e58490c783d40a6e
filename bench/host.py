"""What Laneway's own work adds to the kernel's and the driver's: operations on one GPU server.

Each case is done once by Laneway, with everything that belongs to it (observing, deciding, journal,
audit record, guards, reading back), while what it asks of the host is recorded. The same writes and
commands are then made again, bare, one after the other: that is the kernel's and the driver's time.
The rest is ours. The scan is compared with bare reads of the same files.

On simulated hosts the kernel's part is our own simulation. With the kernel rig's cache at hand
(`make test-kernel` fills it) the same runs in guests, on a real kernel under emulation, which makes
both parts 10 to 20 times slower; `sriov-manage` is the rig's stand-in there.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple

from support.report import arguments, header, middle, ms, table

from laneway.core.decision import Decision
from laneway.core.layout import GpuWish, plan_layout
from laneway.core.passthrough import bind
from laneway.core.pci import PciAddress
from laneway.core.plan import Plan, Satisfied
from laneway.core.release import release
from laneway.core.situation import Situation
from laneway.host.executors.local import LocalExecutor
from laneway.host.hardware import Hardware
from laneway.host.plans.execute import execute
from laneway.host.plans.state import open_state
from laneway.host.port import Completed, Executor, Host
from laneway.host.real import RealHost
from laneway.host.scan import scan
from laneway.host.situation import observe
from laneway.sim.spec import Spec, build

RIG = os.path.join(os.path.dirname(__file__), "../rig")
SECONDS = 120.0
ROUNDS = 5


class Recorder:
    """A host and its programs, with note taken of what is asked of them."""

    def __init__(self, host: Host, executor: Executor) -> None:
        self._host = host
        self._executor = executor
        self.changes: list[Callable[[], Awaitable[Any]]] = []
        self.reads: list[Callable[[], Any]] = []

    def _read(self, method: Callable[[str], Any], path: str) -> Any:
        self.reads.append(lambda: method(path))
        return method(path)

    def read(self, path: str) -> bytes:
        return self._read(self._host.read, path)

    def names(self, path: str) -> list[str]:
        return self._read(self._host.names, path)

    def entries(self, path: str) -> dict[str, bool]:
        return self._read(self._host.entries, path)

    def readlink(self, path: str) -> str:
        return self._read(self._host.readlink, path)

    def resolve(self, path: str) -> str:
        return self._read(self._host.resolve, path)

    def exists(self, path: str) -> bool:
        return self._read(self._host.exists, path)

    def owner(self, path: str) -> tuple[int, int]:
        return self._host.owner(path)

    def set_owner(self, path: str, uid: int, gid: int) -> None:
        self._host.set_owner(path, uid, gid)

    def write(self, path: str, data: str) -> None:
        self._host.write(path, data)

    async def write_within(self, path: str, data: str, seconds: float) -> None:
        async def again() -> None:
            self._host.write(path, data)

        self.changes.append(again)
        await self._host.write_within(path, data, seconds)

    def uevents(self) -> AbstractAsyncContextManager[Any]:
        return self._host.uevents()

    async def has(self, program: str) -> bool:
        return await self._executor.has(program)

    async def run(self, argv: Sequence[str], seconds: float) -> Completed:
        if argv[0] != "nvidia-smi":  # here it only tells, which is part of observing
            self.changes.append(lambda: self._executor.run(argv, seconds))
        return await self._executor.run(argv, seconds)


class Case(NamedTuple):
    name: str
    decide: Callable[[Situation], Decision]
    """What is measured."""
    address: PciAddress


class Cost(NamedTuple):
    steps: int
    total: float
    kernel: float


async def reach(
    hardware: Hardware, address: PciAddress, decide: Callable[[Situation], Decision]
) -> int:
    """Decide and carry out until nothing is left to do; returns the number of steps."""
    steps = 0
    for _ in range(ROUNDS):
        decision = decide(await observe(hardware, "node", [address]))
        match decision:
            case Satisfied():
                return steps
            case Plan():
                await execute(hardware, decision, actor="bench", reason="bench")
                steps += len(decision.steps)
            case refusals:
                sys.exit(f"{address}: {refusals}")
    sys.exit(f"{address}: never done")


async def measure(host: Host, executor: Executor, state: str, case: Case, runs: int) -> Cost:
    """One case, from the state that its opposite leaves, in medians."""
    hardware = Hardware(host, executor, open_state(state, host))
    opposite = _opposite(case)
    found = []
    for _ in range(runs):
        await reach(hardware, case.address, opposite)
        recorder = Recorder(host, executor)
        began = time.perf_counter()
        steps = await reach(
            hardware._replace(host=recorder, executor=recorder), case.address, case.decide
        )
        total = time.perf_counter() - began
        await reach(hardware, case.address, opposite)
        began = time.perf_counter()
        for change in recorder.changes:
            await change()
        found.append(Cost(steps, total, time.perf_counter() - began))
    return Cost(
        found[-1].steps, middle([one.total for one in found]), middle([one.kernel for one in found])
    )


def _opposite(case: Case) -> Callable[[Situation], Decision]:
    return CASES[case.name][1](case.address)


def _layout(address: PciAddress) -> Callable[[Situation], Decision]:
    def decide(situation: Situation) -> Decision:
        known = [kind.name for vgpu in situation.inventory.vgpus for kind in vgpu.supported]
        smallest = next((name for name in known if name.endswith("-1Q")), "NVIDIA A2-1Q")
        return plan_layout(GpuWish(address, ((smallest, 16),)), situation)

    return decide


def _bind(address: PciAddress) -> Callable[[Situation], Decision]:
    return lambda situation: bind(address, situation)


def _release(address: PciAddress) -> Callable[[Situation], Decision]:
    return lambda situation: release(address, situation)


CASES: dict[str, tuple[Callable[[PciAddress], Any], Callable[[PciAddress], Any]]] = {
    "16 VFs and 16 vGPUs": (_layout, _release),
    "all of them away": (_release, _layout),
    "GPU to vfio-pci": (_bind, _release),
    "and back": (_release, _bind),
}


async def inside(name: str, host: Host, executor: Executor, runs: int) -> list[tuple[str, ...]]:
    """Every case on one host."""
    gpu = next(f.address for f in scan(host).functions if f.sriov_gpu)
    rows = []
    with tempfile.TemporaryDirectory() as state:
        for what, (wish, _) in CASES.items():
            cost = await measure(host, executor, state, Case(what, wish(gpu), gpu), runs)
            rows.append(_row(name, what, str(cost.steps), cost.total, cost.kernel))
        await reach(Hardware(host, executor, open_state(state, host)), gpu, _layout(gpu))
    rows.append(_scan(name, host, executor, runs))
    return rows


def _scan(name: str, host: Host, executor: Executor, runs: int) -> tuple[str, ...]:
    totals, bare = [], []
    recorder = Recorder(host, executor)
    scan(recorder)
    for _ in range(max(runs, 5)):
        began = time.perf_counter()
        scan(host)
        totals.append(time.perf_counter() - began)
        began = time.perf_counter()
        for read in recorder.reads:
            try:
                read()
            except OSError:
                continue
        bare.append(time.perf_counter() - began)
    return _row(name, "scan with 16 VFs", "", middle(totals), middle(bare))


def _row(host: str, what: str, steps: str, total: float, kernel: float) -> tuple[str, ...]:
    ours = total - kernel
    return (f"{host}: {what}", steps, ms(total), ms(kernel), ms(ours), f"{ours / kernel:.2f}")


def guests(cache: str, runs: int) -> list[tuple[str, ...]]:
    """The same on real kernels, both frameworks."""
    rows = []
    for kernel in sorted(os.listdir(cache)):
        for mode in ("mdev", "vendor"):
            script = f"{sys.executable} {os.path.abspath(__file__)}"
            command = f"{script} --inside {kernel}/{mode} --runs {runs}"
            environment = {**os.environ, "GPUS": "a2", "MODE": mode, "MEM": "768", "QUIET": "1"}
            environment |= {"TIMEOUT": "300", "PYTHONDONTWRITEBYTECODE": "1"}
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
    if os.path.isdir(cache):
        rows += guests(cache, options.runs)
    else:
        print("\nNothing on a real kernel: make test-kernel fetches the kernels")
    head = ("host and operation", "steps", "total ms", "kernel ms", "ours ms", "ours/kernel")
    table("Operations", head, rows)


if __name__ == "__main__":
    main()
