"""Machines whose devices are held, whose writes wait and whose driver fails: simulated and real.

In the guest of the kernel rig a holder is a process that opens a device as a virtual machine does,
and a read or write that may wait in the kernel runs in a process of its own. On a simulated host
the holder is a simulated process, and what may wait runs in a thread. Tests see no difference.
"""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from laneway.core.programs import SRIOV_MANAGE
from laneway.host.executors.local import LocalExecutor
from laneway.host.hardware import Hardware
from laneway.host.plans.state import open_state
from laneway.host.port import Executor, Host
from laneway.host.real import RealHost
from laneway.sim.host import SimulatedHost

SECONDS = 60.0
"""Far longer than anything takes that happens at all, emulated processors included."""

KNOBS = "/sys/module/simgpu/parameters"
_PCI = "/sys/bus/pci/devices"


def until(condition: Callable[[], bool]) -> None:
    """Wait for what no event announces."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


class Holder(Protocol):
    """A process that has a device open."""

    pid: int

    def release(self) -> None:
        """Close the device, as a machine does that stops."""


class Call(Protocol):
    """A read or write that may wait in the kernel."""

    def waits(self) -> bool:
        """Whether it waits there; False once it came back. Decided by looking, not by the clock."""

    def kill(self) -> None:
        """Send SIGKILL to its process, and wait until that had its effect or was put off."""

    def finish(self) -> str:
        """Wait for it; what was read, or the OSError of the kernel."""


class Machine(Protocol):
    """One host, and what only its surroundings can do to it."""

    host: Host
    executor: Executor
    slow_ms: int
    """For the knob of that name: a delay in which something else can happen."""

    def hold(self, path: str, device: str = "") -> Holder:
        """Open a device node or, given a device of it, a VFIO group; OSError when refused."""

    def write(self, path: str, data: str) -> Call:
        """Begin to write an attribute."""

    def read(self, path: str) -> Call:
        """Begin to read an attribute."""

    def knob(self, name: str, value: int) -> None:
        """Set a fault.

        `fail_sriov`, `fail_probe`, `fail_create`: how many fail, with `fail_errno`, which is set
        before, else with EIO. `slow_ms`, see there. `block_sriov`: 1 lets changes of `sriov_numvfs`
        wait. `unreadable`: the errno of all reads of what VFs tell of vGPUs. 0 takes it back.
        """

    def close(self) -> None:
        """Release every device, wait for every call, take every fault back."""


def hardware(machine: Machine, folder: Path) -> Hardware:
    """The machine as plans see it, with its memory in this folder."""
    return Hardware(machine.host, machine.executor, open_state(str(folder), machine.host))


# ---- the guest ---------------------------------------------------------------

HOLD = """
import fcntl, os, sys
path, device = sys.argv[1:]
try:
    if device:
        container = os.open("/dev/vfio/vfio", os.O_RDWR)
        group = os.open(path, os.O_RDWR)
        fcntl.ioctl(group, 0x3B68, container.to_bytes(4, "little"))
        fcntl.ioctl(container, 0x3B66, 3)
        fcntl.ioctl(group, 0x3B6A, bytearray(device.encode() + b"\\0"))
    else:
        os.open(path, os.O_RDONLY)
except OSError as error:
    print(error.errno, flush=True)
else:
    print(0, flush=True)
    sys.stdin.read()
"""

_CALL = """
import os, sys
path, *data = sys.argv[1:]
try:
    fd = os.open(path, os.O_WRONLY if data else os.O_RDONLY)
    answer = os.write(fd, data[0].encode()) if data else os.read(fd, 4096).decode().strip()
except OSError as error:
    print(error.errno)
else:
    print(0, "" if data else answer)
"""

_WAITING = {
    "vfio_unregister_group_dev",
    "sriov_numvfs_show",
    "sriov_numvfs_store",
    "rescan_store",
    "wait_while_sriov_blocked",
}
"""Functions of the kernel in which who waits for a holder, or for a lock, is found."""


def _process(code: str, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-I", "-S", "-c", code, *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


class _RealHolder:
    def __init__(self, path: str, device: str) -> None:
        self._process = _process(HOLD, path, device)
        self.pid = self._process.pid
        assert self._process.stdout is not None
        refused = int(self._process.stdout.readline())
        if refused:
            self.release()
            raise OSError(refused, os.strerror(refused), path)

    def release(self) -> None:
        self._process.communicate(timeout=SECONDS)


class _RealCall:
    def __init__(self, path: str, *data: str) -> None:
        self._path = path
        self._process = _process(_CALL, path, *data)

    def waits(self) -> bool:
        until(lambda: self._ended() or self._proc("wchan") in _WAITING)
        return not self._ended()

    def kill(self) -> None:
        self._process.kill()
        # In D no signal counts any more: this one is put off until the kernel is done.
        until(lambda: self._ended() or " D " in self._proc("stat"))

    def finish(self) -> str:
        answer, _ = self._process.communicate(timeout=SECONDS)
        refused, _, text = answer.strip().partition(" ")
        if refused and int(refused):
            raise OSError(int(refused), os.strerror(int(refused)), self._path)
        return text

    def _ended(self) -> bool:
        return self._process.poll() is not None

    def _proc(self, name: str) -> str:
        with contextlib.suppress(OSError):
            return Path(f"/proc/{self._process.pid}/{name}").read_text()
        return ""


class RigMachine:
    """The guest in which this runs."""

    def __init__(self) -> None:
        self.host = RealHost()
        self.executor = LocalExecutor()
        self.slow_ms = 1000
        self._holders: list[_RealHolder] = []
        self._calls: list[_RealCall] = []
        self._knobs: set[str] = set()

    def hold(self, path: str, device: str = "") -> Holder:
        holder = _RealHolder(path, device)
        self._holders.append(holder)
        return holder

    def write(self, path: str, data: str) -> Call:
        return self._begin(_RealCall(path, data))

    def read(self, path: str) -> Call:
        return self._begin(_RealCall(path))

    def _begin(self, call: _RealCall) -> Call:
        self._calls.append(call)
        return call

    def knob(self, name: str, value: int) -> None:
        self._knobs.add(name)
        self.host.write(f"{KNOBS}/{name}", str(value))

    def close(self) -> None:
        for name in self._knobs:
            self.host.write(f"{KNOBS}/{name}", "0")
        _finish(self._holders, self._calls)


# ---- the simulation ----------------------------------------------------------


class _SimulatedCall:
    def __init__(self, host: SimulatedHost, path: str, do: Callable[[], str]) -> None:
        self._host = host
        self._path = path
        self._do = do
        self._answer: str | OSError = OSError(errno.EINTR, "it never came back", path)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._answer = self._do()
        except OSError as error:
            self._answer = error

    def waits(self) -> bool:
        until(lambda: not self._thread.is_alive() or self._path in self._host.waiting)
        return self._thread.is_alive()

    def kill(self) -> None:
        """What has entered the simulated kernel knows no process."""

    def finish(self) -> str:
        self._thread.join(SECONDS)
        if isinstance(self._answer, OSError):
            raise self._answer
        return self._answer


class SimulatedMachine:
    """A simulated host."""

    def __init__(self, host: SimulatedHost) -> None:
        self.host = host
        self.executor = host
        self.slow_ms = 100
        self._errno = errno.EIO
        self._holders: list[Holder] = []
        self._calls: list[_SimulatedCall] = []

    def hold(self, path: str, device: str = "") -> Holder:
        holder: Holder = self.host.hold(path)
        self._holders.append(holder)
        return holder

    def write(self, path: str, data: str) -> Call:
        def do() -> str:
            self.host.write(path, data)
            return ""

        return self._begin(_SimulatedCall(self.host, path, do))

    def read(self, path: str) -> Call:
        def do() -> str:
            return self.host.read(path).decode().strip()

        return self._begin(_SimulatedCall(self.host, path, do))

    def _begin(self, call: _SimulatedCall) -> Call:
        self._calls.append(call)
        return call

    def knob(self, name: str, value: int) -> None:
        faults = self.host.faults
        match name:
            case "fail_errno":
                self._errno = value or errno.EIO
            case "fail_sriov":
                faults.refuse("/sriov_numvfs", self._errno, value)
            case "fail_probe":
                faults.fail_probe(value, self._errno)
            case "fail_create":
                mdev = self.host.exists("/sys/class/mdev_bus")
                end = "/create" if mdev else "/nvidia/current_vgpu_type"
                faults.refuse(end, self._errno, value)
            case "slow_ms":
                faults.probe_seconds = value / 1000
            case "block_sriov":
                change = faults.block if value else faults.unblock
                change(SRIOV_MANAGE)  # which writes it as well
                for address in self.host.names(_PCI):
                    change(f"{_PCI}/{address}/sriov_numvfs")
            case "unreadable":
                faults.unreadable("/nvidia/", value)
            case _:
                raise AssertionError(name)

    def close(self) -> None:
        self.host.faults.clear()
        _finish(self._holders, self._calls)


def _finish(holders: list[_RealHolder] | list[Holder], calls: list[object]) -> None:
    for holder in holders:
        holder.release()
    for call in calls:
        with contextlib.suppress(OSError):
            call.finish()
