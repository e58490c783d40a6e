"""A simulated host: the host and executor ports over files in memory.

It can be read from one thread while another writes, as a real kernel can: every access holds one
lock, so each sees the machine between two writes and never within one, unless a write has to wait
for another. What a write or a hot-plug sets off is announced to everyone who listens, on their
own event loop.
"""

from __future__ import annotations

import contextlib
import errno
import threading
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import TypeVar

import msgspec

from laneway.core.inventory import InterfaceAddress
from laneway.core.kernel.uevent import Uevent
from laneway.core.programs import CommandMissingError
from laneway.sim import boot
from laneway.sim.changes import Change
from laneway.sim.console import Consoles
from laneway.sim.devices import Devices
from laneway.sim.dump import Block
from laneway.sim.faults import Faults, Killed
from laneway.sim.kernel_log import KernelLog
from laneway.sim.listener import Listener
from laneway.sim.locks import Locks
from laneway.sim.modules import Modules
from laneway.sim.network import Network
from laneway.sim.nvidia.driver import NvidiaDriver
from laneway.sim.nvidia.programs import programs
from laneway.sim.pci_core import PciCore
from laneway.sim.pci_drivers import PlainDrivers, VfioPci
from laneway.sim.pci_files import PciFiles
from laneway.sim.processes import Holder, Processes
from laneway.sim.programs import Completed, Program
from laneway.sim.threads import within
from laneway.sim.tree import Attribute, Tree, os_error
from laneway.sim.vfio import Vfio

_DEV = "/dev/"

T = TypeVar("T")


class SimulatedHost:
    """One node. Implements the host port; hot-plug, holders and faults come on top."""

    def __init__(
        self,
        name: str,
        blocks: Iterable[Block],
        files: Mapping[str, bytes],
        serials: Mapping[str, str] | None = None,
    ) -> None:
        """`serials`: see `seats`."""
        self.name = name
        self._serials = serials or {}
        self._blocks = list(blocks)
        self._files_at_boot = files
        self.boots = 0
        """How often it has been rebooted."""
        self.reboots: list[Callable[[], None]] = []
        """Called after each reboot, on whatever thread."""
        self._locks = Locks()
        self._lock = self._locks.lock
        self.faults = Faults(self._locks)
        self._listeners: list[Listener] = []
        self._record: Callable[[Change], None] = _forget
        self._dead = False
        self._under_way: list[Callable[[], object]] = []
        """Writes of a killed process that the kernel has not finished."""
        self._paths: dict[int, str] = {}
        """What each thread reads or writes, or did last."""
        self._start(Tree(), files)

    def _start(self, tree: Tree, files: Mapping[str, bytes]) -> None:
        """Boot: the kernel and its drivers find the devices that are there."""
        self._kernel_log = KernelLog()
        self.tree = tree
        self._devices = Devices(self.tree, self._emit)
        self._network = Network(self._devices)
        self._consoles = Consoles(self._devices)
        self._vfio = Vfio(self._devices, Processes(self.tree), self._locks, self._consoles.in_use)
        self._core = PciCore(self._devices, self._vfio, self._locks, self.faults)
        self._plain = PlainDrivers(self._core)
        self.programs: dict[str, Program] = {}
        for path, content in files.items():
            self.tree.put(path, content)
        line = boot.next_command_line(self.tree)
        known = self.tree.exists(boot.CONFIG)
        if known:
            for path, content in boot.huge_pages(line).items():
                self.tree.put(path, content)
            self.tree.put(boot.COMMAND_LINE, line.encode())
        self._load(
            _without_groups(self._blocks) if known and not boot.uses_iommu(line) else self._blocks
        )

    def _load(self, blocks: list[Block]) -> None:
        self._devices.load(blocks)
        lives = f"{self.name}/{self.boots}" if self.boots else self.name
        identity = uuid.uuid5(uuid.NAMESPACE_OID, lives)
        own = {
            "/proc/sys/kernel/hostname": f"{self.name}\n".encode(),
            "/proc/sys/kernel/random/boot_id": f"{identity}\n".encode(),
        }
        for path, content in own.items():
            self.tree.put(path, content)
        self.tree.put("/proc/self", "1")
        self.tree.put("/proc/net", "self/net")
        self.tree.put("/dev/kmsg", Attribute(lambda: b"", self._kernel_log.say))
        self._consoles.load()
        self._files = PciFiles(self._core, self.plug)
        own_vfio: Callable[[Block], bool] = _no_function
        if NvidiaDriver.name in {block.properties.get("DRIVER") for block in blocks}:
            driver = NvidiaDriver(self._core, self._serials)
            self._core.register(driver)
            own_vfio = driver.has_vendor_vf
            self.programs.update(programs(driver))
        self._plain.learn(blocks)
        vfio_pci = VfioPci(self._core, self._consoles.evict, own_vfio)
        modules = Modules(self.tree, lambda: self._core.register(vfio_pci))
        self.programs["modprobe"] = modules.program
        self.programs.update(boot.programs(self.tree, self._reboot))
        self._core.adopt(blocks)
        for name in boot.loaded_at_boot(self.tree):
            modules.program.run(["modprobe", name])

    def _reboot(self) -> None:
        """Everything but the files of disks begins again; processes and vGPUs are gone."""
        self.boots += 1
        tree = Tree()
        tree.take(boot.kept(self.tree))
        # What is on a disk is as it was left, and not as it was delivered.
        first = {p: c for p, c in self._files_at_boot.items() if not tree.exists(p)}
        self._start(tree, first)
        for tell in list(self.reboots):
            tell()

    # ------------------------------------------------------------------------------ reading

    def read(self, path: str) -> bytes:
        with self._lock:
            self._check_alive()
            self._paths[threading.get_ident()] = path
            if self.faults.hinders_reading:
                self.faults.check_reading(path, self.tree.resolve(path))
            return self.tree.read(path)

    def read_start(self, path: str, size: int) -> bytes:
        return self.read(path)[:size]

    def names(self, path: str) -> list[str]:
        with self._lock:
            self._check_alive()
            return self.tree.names(path)

    def entries(self, path: str) -> dict[str, bool]:
        with self._lock:
            self._check_alive()
            return self.tree.entries(path)

    def readlink(self, path: str) -> str:
        with self._lock:
            self._check_alive()
            return self.tree.readlink(path)

    def resolve(self, path: str) -> str:
        with self._lock:
            self._check_alive()
            return self.tree.resolve(path)

    def exists(self, path: str) -> bool:
        with self._lock:
            self._check_alive()
            return self.tree.exists(path)

    def owner(self, path: str) -> tuple[int, int]:
        with self._lock:
            self._check_alive()
            return self._devices.owners.get(self.tree.resolve(path).removeprefix(_DEV), (0, 0))

    def addresses(self) -> list[InterfaceAddress]:
        with self._lock:
            self._check_alive()
            return self._network.addresses()

    # ----------------------------------------------------------------------------- changing

    def write(self, path: str, data: str) -> None:
        with self._lock:
            self._check_alive()
            self._paths[threading.get_ident()] = path
            store, real = self._store(path)
            if not data:
                return  # the kernel does not call an attribute for a write of nothing

            def operation() -> None:
                if not self.tree.exists(path):  # it went while the write waited
                    raise os_error(errno.ENODEV, path)
                try:
                    store(data)
                except OSError as error:
                    self._record(Change(path, data, error.errno or 0))
                    raise OSError(error.errno, error.strerror, path) from None
                self._record(Change(path, data))

            self._change(operation, path, real)

    def _store(self, path: str) -> tuple[Callable[[str], None], str]:
        """What writing to a path does, and where its links lead."""
        real = self.tree.resolve(path)
        return self._files.store(real) or self._consoles.store(real) or self.tree.store(path), real

    def replace(self, path: str, content: str | None) -> None:
        with self._lock:
            self._check_alive()
            real = self.tree.resolve(path) if self.tree.exists(path) else path
            if isinstance(self.tree.get(real), Attribute) or real.startswith(("/sys/", "/proc/")):
                raise os_error(errno.EACCES, path)

            def operation() -> None:
                if content is None:
                    self.tree.discard(real)
                else:
                    self.tree.put(real, content.encode())
                self._record(Change(path, content=content, removed=content is None))

            self._change(operation, path, real)

    async def write_within(self, path: str, data: str, seconds: float) -> None:
        try:
            await within(seconds, lambda: self.write(path, data))
        except TimeoutError:
            raise os_error(errno.ETIMEDOUT, path) from None

    def set_owner(self, path: str, uid: int, gid: int) -> None:
        with self._lock:
            self._check_alive()
            parent, _, name = path.rpartition("/")
            real = f"{self.tree.resolve(parent)}/{name}"
            if self.tree.get(real) is None:
                raise os_error(errno.ENOENT, path)
            if not real.startswith(_DEV):
                raise os_error(errno.EPERM, path)

            def operation() -> None:
                self._devices.owners[real.removeprefix(_DEV)] = uid, gid
                self._record(Change(path, owner=(uid, gid)))

            self._change(operation, path, real)

    async def has(self, program: str) -> bool:
        with self._lock:
            self._check_alive()
            return program in self.programs

    async def run(self, argv: Sequence[str], seconds: float) -> Completed:
        return await within(seconds, lambda: self.call(argv))

    def call(self, argv: Sequence[str]) -> Completed:
        """Run a program, for as long as it takes."""
        with self._lock:
            self._check_alive()
            program = self.programs.get(argv[0])
            if program is None:
                name = argv[0].rpartition("/")[2]
                raise CommandMissingError(errno.ENOENT, f"{name} is not installed")

            def operation() -> Completed:
                fault = self.faults.command(argv[0])
                if fault is not None:
                    return fault
                completed = Completed(*program.run(argv))
                if program.changes(argv):
                    self._record(Change(argv=tuple(argv), status=completed.status))
                return completed

            if program.changes(argv):
                return self._change(operation, argv[0])
            self.faults.wait_while_blocked(argv[0])
            return operation()

    def _change(self, operation: Callable[[], T], *names: str) -> T:
        """Do what changes the machine, as far as the injected faults let it."""
        verdict = self.faults.next()
        self._finish()
        if verdict.kill == "before":
            raise self._killed()
        if verdict.kill == "during":
            self._under_way.append(operation)
            raise self._killed()
        if verdict.refuse:
            raise os_error(verdict.refuse, names[0])
        self.faults.check_path(*names)
        self.faults.wait_while_blocked(*names)
        try:
            result = operation()
        finally:
            if verdict.kill:
                raise self._killed()
        if verdict.report:
            raise os_error(verdict.report, names[0])
        return result

    def record_changes(self, record: Callable[[Change], None]) -> None:
        """Have everything reported that may have changed the machine, with how it ended.

        Refused writes too: a driver may refuse a write and change the device all the same.
        """
        self._record = record

    # ----------------------------------------------------------------- processes come and go

    def hold(self, path: str, name: str = "qemu-system-x86", pod: str = "") -> Holder:
        """A process that has a device open, as a VM does.

        The device is given by its group's node, its path in sysfs, or any other device node; `pod`
        is the uid of the pod that the process is in.
        """
        with self._lock:
            return self._vfio.hold(path, name, pod)

    def network(self, change: Callable[[Network], T]) -> T:
        """Change interfaces and addresses as an administrator does, or read them."""
        with self._lock:
            return change(self._network)

    def viable(self, group: int | str) -> bool:
        """Whether VFIO lets an IOMMU group be used."""
        with self._lock:
            return self._vfio.viable(group)

    @property
    def waiting(self) -> frozenset[str]:
        """The paths, as given, of the reads and writes that wait in the kernel now."""
        with self._lock:
            return frozenset(
                self._paths[thread] for thread in self._locks.waiting & self._paths.keys()
            )

    def restart(self, *, finish: bool = True) -> None:
        """A new process takes the place of a killed one.

        What the old one's last write has set off is finished now, or else before the new one's
        first change.
        """
        with self._lock:
            self._dead = False
            if finish:
                self._finish()

    def _finish(self) -> None:
        """Let the kernel finish writes under way; those that must wait go on waiting alone."""
        operations, self._under_way = self._under_way, []
        for operation in operations:
            finished = threading.Event()
            thread = threading.Thread(
                target=self._finish_one, args=(operation, finished), daemon=True
            )
            thread.start()
            self._locks.wait(lambda: finished.is_set() or thread.ident in self._locks.waiting)  # noqa: B023 - waits at once

    def _finish_one(self, operation: Callable[[], object], finished: threading.Event) -> None:
        with self._lock:
            with contextlib.suppress(OSError):
                operation()
            finished.set()
            self._locks.notify()

    def _check_alive(self) -> None:
        if self._dead:
            raise Killed

    def _killed(self) -> Killed:
        self._dead = True
        return Killed()

    @asynccontextmanager
    async def uevents(self) -> AsyncIterator[AsyncIterator[Uevent]]:
        listener = Listener()
        with self._lock:
            self._listeners.append(listener)
        try:
            yield listener
        finally:
            with self._lock:
                self._listeners.remove(listener)

    @asynccontextmanager
    async def kernel_messages(self) -> AsyncIterator[AsyncIterator[str]]:
        async with aclosing(self._kernel_log.read()) as messages:
            yield messages

    def kernel_message(self, text: str) -> None:
        """Have the kernel or one of its drivers log something."""
        with self._lock:
            self._kernel_log.say(text)

    def unplug(self, path: str) -> list[Block]:
        """Remove a device, given by any of its paths, with all below it and, of a PF, its VFs.

        Returns what `plug` brings back. vGPUs are not in it: the hardware forgets them.
        """
        with self._lock:
            return self._core.unplug(self.tree.resolve(path).removeprefix("/sys"))

    def plug(self, blocks: Iterable[Block]) -> None:
        """Add devices, parents first, while the host runs."""
        blocks = list(blocks)
        with self._lock:
            for block in blocks:
                self._devices.add(block)
            self._plain.learn(blocks)
            self._core.adopt(blocks)

    def _emit(self, event: Uevent) -> None:
        for listener in self._listeners:
            listener.put(event)


def _no_function(block: Block) -> bool:  # noqa: ARG001 - as a driver answers
    return False


def _without_groups(blocks: list[Block]) -> list[Block]:
    """The devices where the kernel does not use the IOMMU."""
    return [
        msgspec.structs.replace(
            block, links={k: v for k, v in block.links.items() if k != "iommu_group"}
        )
        for block in blocks
    ]


def _forget(change: Change) -> None:
    """What changes a host that is not kept is not recorded."""
