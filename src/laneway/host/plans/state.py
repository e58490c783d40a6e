"""The folder in which Laneway remembers, on the node itself, what it does to hardware.

It holds the journal of every plan that is not finished, the audit record, and what must be known
to release devices. Hardware forgets at a reboot what Laneway did to it, so what is remembered
of devices belongs to one boot and counts for nothing in the next. One process at a time changes a
node; several plans of that process, of different devices, may run side by side.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterable, Iterator

import msgspec

from laneway.core.pci import PciAddress
from laneway.core.refusals import HostBusy
from laneway.host.plans import files
from laneway.host.plans.files import StateError
from laneway.host.port import Host

STATE_FOLDER = "/var/lib/laneway"
"""Where it is on a node."""

_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_JOURNAL = "plan-"
_SUFFIX = ".jsonl"


class BusyError(Exception):
    """Another process changes this node."""

    def __init__(self, refusal: HostBusy) -> None:
        super().__init__(refusal.holder)
        self.refusal = refusal


class _Memory(msgspec.Struct, omit_defaults=True):
    """What is remembered of devices, by their names."""

    boot: str
    originals: dict[str, str] = {}
    usb_originals: dict[str, tuple[int, int]] = {}
    quarantined: dict[str, str] = {}
    profiles: dict[str, str] = {}
    booted: bool = False
    """Whether this folder has seen an earlier boot."""
    settled: list[str] = []
    """Cards that have been as they were desired since this boot."""
    claimed: list[str] = []
    """Devices that were taken for claims: functions and USB ports."""


class _Quarantine(msgspec.Struct):
    """The part of it that is listed."""

    boot: str = ""
    quarantined: dict[str, str] = {}

    def of(self, boot: str) -> dict[str, str]:
        return self.quarantined if self.boot == boot else {}


class StateFolder:
    """One node's state folder, for one boot of the node. Nothing is made before the first lock."""

    def __init__(self, path: str, boot: str) -> None:
        self.path = os.path.abspath(path)
        self.boot = boot
        self.recovering = asyncio.Lock()
        """Held while interrupted plans are being recovered, which comes before any other plan."""
        self._fd = -1
        self._users = 0
        self._running: set[str] = set()

    @property
    def audit(self) -> str:
        return os.path.join(self.path, "audit.jsonl")

    @property
    def _devices(self) -> str:
        return os.path.join(self.path, "devices.json")

    # ------------------------------------------------------------------------------- one at a time

    @contextlib.contextmanager
    def lock(self, actor: str) -> Iterator[None]:
        """Be the one process that changes this node. Raises BusyError, or OSError."""
        if not self._users:
            self._fd = self._take("lock", actor)
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1
            if not self._users:
                os.close(self._fd)

    @contextlib.contextmanager
    def serving(self, actor: str) -> Iterator[None]:
        """Be the one agent of this node; plans of other processes go on between its own.

        Raises BusyError, or OSError.
        """
        fd = self._take("agent", actor)
        try:
            yield
        finally:
            os.close(fd)

    def _take(self, name: str, actor: str) -> int:
        path = os.path.join(self.path, name)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            os.makedirs(self.path, mode=0o700, exist_ok=True)
            _check_private(self.path)
            fd = os.open(path, flags, 0o600)
        except OSError as error:
            raise files.advised(error, error.filename or path) from None
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.pread(fd, 200, 0).decode("utf-8", "replace").strip()
                raise BusyError(HostBusy(holder or "another Laneway process")) from None
            try:
                os.ftruncate(fd, 0)
                os.pwrite(fd, f"{actor[:100]} (process {os.getpid()})\n".encode(), 0)
            except OSError as error:
                raise files.advised(error, path) from None
        except BaseException:
            os.close(fd)
            raise
        return fd

    # ------------------------------------------------------------------------------------ journals

    def new_journal(self) -> str:
        """Path for the journal of a plan that starts now; the order of names is that of starts."""
        number = time.time_ns()
        while (name := f"{_JOURNAL}{number}{_SUFFIX}") in self._running:
            number += 1
        return os.path.join(self.path, name)

    def interrupted(self) -> list[str]:
        """Journals that no running plan of this process writes, oldest first.

        Raises StateError when that is not known.
        """
        try:
            names = sorted(os.listdir(self.path))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StateError(f"{self.path}: {error.strerror}") from error
        return [
            os.path.join(self.path, name)
            for name in names
            if name.startswith(_JOURNAL) and name.endswith(_SUFFIX) and name not in self._running
        ]

    @contextlib.contextmanager
    def running(self, journal: str) -> Iterator[None]:
        """A plan of this process writes the journal, which is no interrupted one meanwhile."""
        name = os.path.basename(journal)
        self._running.add(name)
        try:
            yield
        finally:
            self._running.discard(name)

    # ------------------------------------------------------------------------------------- devices

    @property
    def originals(self) -> dict[PciAddress, str]:
        """Drivers that functions had before Laneway gave them to vfio-pci; empty text: none."""
        return {_address(name): driver for name, driver in self._memory().originals.items()}

    @property
    def usb_originals(self) -> dict[str, tuple[int, int]]:
        """User and group of the nodes of USB devices before Laneway gave them away, by port."""
        return self._memory().usb_originals

    @property
    def quarantined(self) -> dict[PciAddress, str]:
        """Functions whose reset failed since the node was booted, and how."""
        return {_address(name): error for name, error in self._memory().quarantined.items()}

    def quarantine_to_show(self) -> tuple[dict[str, str], str]:
        """The same for a list alone: as much as can be read, and why that is not all."""
        try:
            return {str(address): error for address, error in self.quarantined.items()}, ""
        except StateError as error:
            return files.salvaged(self._devices, _Quarantine, _Quarantine()).of(self.boot), str(
                error
            )

    @property
    def profiles(self) -> dict[str, str]:
        """Names of the vGPU types that were configured, by the id that the driver has for each."""
        return self._memory().profiles

    def remember(self, function: PciAddress, driver: str) -> None:
        """Note the driver that a function has now, unless an earlier one is noted."""
        memory = self._memory()
        if str(function) not in memory.originals:
            memory.originals[str(function)] = driver
            self._store(memory)

    def forget(self, function: PciAddress) -> None:
        """The function is no longer given away."""
        memory = self._memory()
        if memory.originals.pop(str(function), None) is not None:
            self._store(memory)

    def remember_usb(self, port: str, owner: tuple[int, int]) -> None:
        """Note the owner of a USB device's node, unless an earlier one is noted."""
        memory = self._memory()
        if port not in memory.usb_originals:
            memory.usb_originals[port] = owner
            self._store(memory)

    def forget_usb(self, port: str) -> None:
        """The node of the USB device is no longer given away."""
        memory = self._memory()
        if memory.usb_originals.pop(port, None) is not None:
            self._store(memory)

    def remember_profile(self, type_id: str, name: str) -> None:
        """Note what a vGPU type is called: a card that is full of it lists it no more."""
        memory = self._memory()
        if memory.profiles.get(type_id) != name:
            memory.profiles[type_id] = name
            self._store(memory)

    def is_as_booted(self, card: PciAddress) -> bool:
        """Whether a card is as a boot has left it, and has not been as desired since."""
        memory = self._memory()
        return memory.booted and str(card) not in memory.settled

    def settle(self, card: PciAddress) -> None:
        """Note that a card is as desired: what is different later was changed by something else."""
        memory = self._memory()
        if str(card) not in memory.settled:
            memory.settled.append(str(card))
            self._store(memory)

    @property
    def claimed(self) -> tuple[str, ...]:
        """Functions and USB ports that were taken for claims, and not by hand at the node."""
        return tuple(self._memory().claimed)

    def claim(self, devices: Iterable[str]) -> None:
        """Note that devices are about to be taken for a claim."""
        memory = self._memory()
        if new := [one for one in devices if one not in memory.claimed]:
            memory.claimed += new
            self._store(memory)

    def unclaim(self, devices: Iterable[str]) -> None:
        """The devices are not taken for a claim any more."""
        memory, gone = self._memory(), set(devices)
        if gone & set(memory.claimed):
            memory.claimed = [one for one in memory.claimed if one not in gone]
            self._store(memory)

    def quarantine(self, function: PciAddress, error: str) -> None:
        """The function is not allocated any more."""
        memory = self._memory()
        memory.quarantined[str(function)] = error
        self._store(memory)

    def lift_quarantine(self, function: PciAddress) -> bool:
        """Whether the function was in quarantine, which it no longer is."""
        memory = self._memory()
        lifted = memory.quarantined.pop(str(function), None) is not None
        if lifted:
            self._store(memory)
        return lifted

    def _memory(self) -> _Memory:
        memory = files.read(self._devices, _Memory)
        if memory is None:
            return _Memory(self.boot)
        return memory if memory.boot == self.boot else _Memory(self.boot, booted=True)

    def _store(self, memory: _Memory) -> None:
        files.replace(self._devices, msgspec.json.encode(memory) + b"\n")


def open_state(path: str, host: Host) -> StateFolder:
    """The state folder of a node for the boot that it is in.

    Raises OSError when the node does not tell its boot, for a plan of which boot it is decides
    whether it may be finished.
    """
    boot = host.read(_BOOT_ID).decode("ascii", "replace").strip()
    return StateFolder(path, boot)


def _check_private(path: str) -> None:
    """A plan that another user could leave here would be carried out with our rights."""
    found = os.stat(path)
    if found.st_uid not in (0, os.geteuid()) or found.st_mode & stat.S_IWOTH:
        raise OSError(
            errno.EPERM,
            "other users can write to it, and Laneway carries out what is in it: restrict it "
            "(chown root, chmod 700), or choose another folder",
            path,
        )


def _address(name: str) -> PciAddress:
    try:
        return PciAddress.parse(name)
    except ValueError as error:
        raise StateError(f"devices.json is damaged: {error}") from error
