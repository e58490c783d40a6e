"""Guests of the kernel rig that start from a disk of their own, by firmware and boot loader.

What they write to the disk is there after the next start, as on a server. `cut_power` is what it
says: QEMU is killed, and what the guest's kernel had not yet written is lost.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
import select
import shlex
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

SECONDS = 240.0
"""Far longer than a start takes, also on a busy host."""

ROOT = Path(__file__).parents[2]
ENVIRONMENT = "PYTHONDONTWRITEBYTECODE=1 SSL_CERT_FILE=/dev/null"
LANEWAY = f"{ENVIRONMENT} {sys.executable} -m laneway"
"""The command in a guest."""

_WAITS_FOR_A_USER = re.compile(r"UEFI Interactive Shell|grub rescue>|grub>|No bootable device")
_ANSWER = re.compile(rb"(\d+) ([A-Za-z0-9+/=]*)\n")


class DoesNotStartError(AssertionError):
    """Firmware, boot loader or kernel gave up."""


class Answer(NamedTuple):
    """What a script in the guest came to."""

    status: int
    said: str


class DiskGuest:
    """One server, switched off at first: `start` it, `run` scripts in it, `reboot`, `cut_power`.

    `loader` is `grub` or `systemd-boot`; `cache` was made by `rig/disk/setup.sh`. `folder` keeps
    the disk; its path has to be short, because a socket lies in it.
    """

    def __init__(self, loader: str, cache: Path, folder: Path, gpus: str = "gtx1080,a2") -> None:
        self.loader = loader
        self.folder = folder
        self.program = LANEWAY
        self.iommu = "intel"
        self._cache = cache
        self._gpus = gpus
        self._machine: subprocess.Popen[bytes] | None = None
        self._line: BinaryIO | None = None
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def console(self) -> str:
        """What firmware, boot loader and kernel said, in all starts."""
        path = self.folder / "console.log"
        return path.read_bytes().decode(errors="replace") if path.exists() else ""

    def start(self) -> None:
        """Switch it on, and wait until it takes commands. `DoesNotStartError` if it gives up."""
        path = self.folder / "control"
        path.unlink(missing_ok=True)
        before = len(self.console)
        with socket.socket(socket.AF_UNIX) as server, self._log() as log:
            server.bind(str(path))
            server.listen()
            self._machine = subprocess.Popen(
                [ROOT / "rig/disk/boot.sh", self._cache, self.loader, self.folder],
                env={
                    **os.environ,
                    "CONTROL": str(path),
                    "GPUS": self._gpus,
                    "IOMMU": self.iommu,
                    "PATHS": ":".join(_python()),
                },
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
            server.settimeout(SECONDS)
            connection, _ = server.accept()
        if not self._answers(connection, before):
            connection.close()
            self.cut_power()
            raise DoesNotStartError(self.console[before:])
        connection.settimeout(SECONDS)
        self._line = connection.makefile("rwb")
        connection.close()

    def _answers(self, line: socket.socket, before: int) -> bool:
        """Wait for the guest's word, among those of firmware, which writes to this line, too."""
        deadline = time.monotonic() + SECONDS
        said = b""
        while time.monotonic() < deadline:
            if select.select([line], [], [], 1.0)[0]:
                more = line.recv(1 << 16)
                said += more
                if not more or said.endswith(b"ready\n"):
                    return bool(more)
            elif _WAITS_FOR_A_USER.search(self.console[before:]):
                return False
        return False

    def ask(self, script: str) -> Answer:
        """Run a bash script in it."""
        self.begin(script)
        return self.answer()

    def begin(self, script: str) -> None:
        """Have it run a bash script, and go on."""
        assert self._line is not None
        self._line.write(base64.b64encode(script.encode()) + b"\n")
        self._line.flush()

    def answer(self) -> Answer:
        """Wait for the end of a script that it has begun."""
        assert self._line is not None
        found = _ANSWER.fullmatch(self._line.readline())
        assert found, f"the guest stopped: {self.console[-2000:]}"
        return Answer(int(found[1]), base64.b64decode(found[2]).decode().strip())

    def run(self, script: str) -> str:
        """Run a bash script in it, which must succeed; what it printed."""
        status, said = self.ask(script)
        assert status == 0, f"{script}: status {status}: {said}"
        return said

    def laneway(self, *arguments: str) -> str:
        """Run `laneway` in it, which must succeed; what it printed."""
        return self.run(f"{LANEWAY} {shlex.join(arguments)}")

    def read(self, path: str) -> str:
        """A file of it."""
        return self.run(f"cat {shlex.quote(path)}")

    def write(self, path: str, content: str) -> None:
        """Write a file of it, as an administrator does, for good."""
        self.run(f"printf %s {shlex.quote(content)} >{shlex.quote(path)} && sync")

    def reboot(self, command: str = "systemctl reboot") -> None:
        """Have its own program reboot it, and wait until it has started again."""
        before = self.read("/proc/sys/kernel/random/boot_id")
        assert self._machine is not None
        self.begin(command)
        self.wait_off()
        self.start()
        assert self.read("/proc/sys/kernel/random/boot_id") != before

    def wait_off(self) -> None:
        """Wait until it has switched itself off, or reset: either ends QEMU."""
        assert self._machine is not None
        status = self._machine.wait(SECONDS)
        assert status == 0, self.console[-2000:]
        self._forget()

    def cut_power(self) -> None:
        """End it at once, wherever it is."""
        if self._machine is not None:
            self._machine.kill()
            self._machine.wait()
        self._forget()

    def cut_short(self, number: int, *arguments: str) -> str:
        """Run `laneway`, and cut the power right before its Nth write to what it starts from.

        What that was. Empty when it made fewer, and has done what it was told to do.
        """
        share = self.folder / "share"
        for name in ("cut", "ended"):
            (share / name).unlink(missing_ok=True)
        program = shlex.join([sys.executable, f"{ROOT}/tests/support/cut_short.py", str(number)])
        command = f"{program} {shlex.join(arguments)}; status=$?"
        self.begin(f"{ENVIRONMENT} {command}; touch /run/rig/ended; exit $status")
        deadline = time.monotonic() + SECONDS
        while not (share / "cut").exists() and not (share / "ended").exists():
            assert self._machine is not None
            assert self._machine.poll() is None, self.console[-2000:]
            assert time.monotonic() < deadline, self.console[-2000:]
            time.sleep(0.02)
        if (share / "cut").exists():
            self.cut_power()
            return (share / "cut").read_text()
        status, said = self.answer()
        assert status == 0, said
        return ""

    def _forget(self) -> None:
        self._machine = None
        if self._line is not None:
            with contextlib.suppress(OSError):
                self._line.close()
            self._line = None

    @contextlib.contextmanager
    def _log(self) -> Iterator[BinaryIO]:
        with (self.folder / "console.log").open("ab") as log:
            yield log


def _python() -> list[str]:
    """Where Python lies that runs this; Debian's own is not all of /usr."""
    home = os.path.realpath(sys.base_prefix)
    if home != "/usr":
        return [home, sys.base_prefix]
    return [os.path.realpath(sys.executable), sysconfig.get_path("stdlib")]
