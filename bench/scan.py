"""Full scan of a host's devices against `lspci -Dnnk` on the same files.

The files of every host but this one are written below a directory, which both then read. lspci is
timed as a shell starts it; the scan inside a running process, which is how an agent scans, and as
a new process. All take turns, so that other load meets them alike; given are medians. The CPU
times, of the running process and of lspci, are disturbed the least.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from support.report import arguments, header, middle, ms, table
from support.server import large_server
from support.trees import in_memory_directory, materialise

from laneway.core.inventory import Inventory
from laneway.core.pci import PciAddress, PciFunction
from laneway.host.look import look
from laneway.host.port import Host
from laneway.host.real import RealHost
from laneway.host.scan import scan
from laneway.sim import dump
from laneway.sim.host import SimulatedHost
from laneway.sim.spec import Spec, build

FUNCTIONS = 450
NVME = "0108"
DUMP = os.path.join(os.path.dirname(__file__), "../tests/data/a2-vgpu-node.umockdev.xz")
PROGRAM = (
    "import sys; from laneway.host.real import RealHost; from laneway.host.scan import scan; "
    "scan(RealHost(sys.argv[1]))"
)


class Cost(NamedTuple):
    """Seconds of one run."""

    wall: float
    cpu: float


def call(action: Callable[[], object]) -> Cost:
    cpu, wall = time.process_time(), time.perf_counter()
    action()
    return Cost(time.perf_counter() - wall, time.process_time() - cpu)


def run(command: list[str]) -> Cost:
    nowhere = os.open(os.devnull, os.O_RDWR)
    to_nowhere = [(os.POSIX_SPAWN_DUP2, nowhere, at) for at in (1, 2)]
    start = time.perf_counter()
    process = os.posix_spawnp(command[0], command, os.environ, file_actions=to_nowhere)
    _, status, used = os.wait4(process, 0)
    wall = time.perf_counter() - start
    os.close(nowhere)
    if status:
        sys.exit(f"{' '.join(command)} ended with {os.waitstatus_to_exitcode(status)}")
    return Cost(wall, used.ru_utime + used.ru_stime)


def medians(actions: list[Callable[[], Cost]], runs: int) -> list[Cost]:
    found: list[list[Cost]] = [[] for _ in actions]
    for _ in range(runs):
        for action, costs in zip(actions, found, strict=True):
            costs.append(action())
    return [
        Cost(middle([cost.wall for cost in costs]), middle([cost.cpu for cost in costs]))
        for costs in found
    ]


def compare(name: str, root: str, runs: int) -> tuple[str, ...]:
    """A row: one tree, read by everybody in turn."""
    real = RealHost(root or "/")
    inventory = scan(real)
    lspci = ["lspci", "-O", f"sysfs.path={root}/sys/bus/pci", "-Dnnk"]
    program = [sys.executable, "-c", PROGRAM, root or "/"]
    theirs, ours, new = medians(
        [lambda: run(lspci), lambda: call(lambda: scan(real)), lambda: run(program)], runs
    )
    return (
        name,
        str(len(inventory.functions)),
        str(len(inventory.vgpus)),
        ms(theirs.wall),
        ms(ours.wall),
        f"{ours.wall / theirs.wall:.2f}",
        f"{ours.cpu / theirs.cpu:.2f}",
        ms(new.wall),
    )


def as_files(name: str, host: Host, runs: int) -> tuple[str, ...]:
    with in_memory_directory() as root:
        materialise(host, root)
        return compare(name, root, runs)


def simulated(name: str, host: Host, runs: int) -> tuple[str, ...]:
    inventory = scan(host)
    (cost,) = medians([lambda: call(lambda: scan(host))], runs)
    counts = (len(inventory.functions), len(inventory.usb), len(inventory.errors))
    return (name, *map(str, counts), ms(cost.wall), ms(cost.cpu))


def looks(name: str, host: Host, runs: int) -> list[tuple[str, ...]]:
    """What an event about each sort of function costs, next to the scan that it saves."""
    known = scan(host)
    (whole,) = medians([lambda: call(lambda: scan(host))], runs)
    about = {"disk": _of(known, lambda one: one.class_code.startswith(NVME))}
    about["GPU"] = _of(known, lambda one: one.sriov_gpu and bool(one.vfs))
    about["VF for vGPUs"] = next((one.address for one in known.vgpus), None)
    rows = []
    for what, address in about.items():
        if address is not None:
            again = partial(look, host, known, {address})
            (cost,) = medians([partial(call, again)], runs)
            rows.append((name, what, ms(cost.cpu), ms(whole.cpu)))
    return rows


def _of(known: Inventory, is_one: Callable[[PciFunction], bool]) -> PciAddress | None:
    return next((one.address for one in known.functions if is_one(one)), None)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("dump", nargs="?", default=DUMP, help="a dump, instead of the one in tests")
    parser.add_argument("--functions", type=int, default=FUNCTIONS, help="of the large server")
    parser.add_argument("--runs", type=int, default=21)
    options = parser.parse_args()
    blocks = dump.read(options.dump)
    hosts = {
        "model a2": build(Spec(model="a2"), "a2"),
        f"dump of {len(blocks):,} devices": SimulatedHost("dump", blocks, {}),
        "large server": large_server(options.functions),
    }
    header()
    if shutil.which("lspci") is None:
        print("\nNo comparison with lspci, which is missing: apt-get install pciutils")
    else:
        rows = [compare("this machine", "", options.runs)]
        rows += [as_files(name, host, options.runs) for name, host in hosts.items()]
        counts = ("host", "PCI", "vGPU VFs")
        times = ("lspci ms", "scan ms", "to lspci", "by CPU", "new process ms")
        table("Files, against lspci", (*counts, *times), rows)
    rows = [simulated(name, host, options.runs) for name, host in hosts.items()]
    table("In memory", ("host", "PCI", "USB", "errors", "scan ms", "CPU ms"), rows)
    rows = [row for name, host in hosts.items() for row in looks(name, host, options.runs)]
    table("A look after a kernel event, CPU", ("host", "about", "look ms", "scan ms"), rows)


if __name__ == "__main__":
    main()
