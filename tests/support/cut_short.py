"""Runs in a guest: `laneway`, stopped right before its Nth write to what the guest starts from.

    cut_short.py N LANEWAY-ARGUMENT...

Counted are files that it opens for writing, renames or removes in /etc and /boot, programs that it
starts, and the moment at which grub-mkconfig has written half of its file. At the Nth the process
stops and `/run/rig/cut` says what it was; the host cuts the power then. If there is no Nth, the
command ends as always. Python's own audit events tell, so Laneway needs to know nothing of this.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from laneway.cli import main

WATCHED = ("/etc/", "/boot/")
MADE = Path("/boot/grub")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC

_count = itertools.count(1)
_nth = int(sys.argv[1])


def moment(what: str) -> None:
    """One of the moments that count."""
    if next(_count) == _nth:
        Path("/run/rig/cut.new").write_text(what)
        Path("/run/rig/cut.new").rename("/run/rig/cut")
        os.kill(os.getpid(), signal.SIGSTOP)


def half_written() -> None:
    """Wait for what grub-mkconfig makes."""
    while True:
        for path in MADE.glob("*.new"):
            if path.exists() and path.stat().st_size > 0:
                moment(f"half of {path}")
                return
        time.sleep(0.005)


def hook(event: str, arguments: tuple[Any, ...]) -> None:
    """Python's, called before each event."""
    match event, arguments:
        case "open", (str() as path, _, int() as flags) if flags & WRITING:
            watched = [path]
        case "os.rename", (str() as path, str() as new, *_):
            watched = [path, new]
        case "os.remove", (str() as path, *_):
            watched = [path]
        case "subprocess.Popen", (program, *_):
            moment(f"{program}")
            if "mkconfig" in str(program):
                threading.Thread(target=half_written, daemon=True).start()
            return
        case _:
            return
    if any(path.startswith(WATCHED) for path in watched):
        moment(f"{event} {' '.join(watched)}")


sys.addaudithook(hook)
sys.argv = ["laneway", *sys.argv[2:]]
main()
