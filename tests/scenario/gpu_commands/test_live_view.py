"""A live view at a terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import termios
import threading

IN_THE_FOREGROUND = (
    "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
    "from laneway.cli import main; main()"
)


def test_q_ends_a_live_view_and_the_terminal_echoes_again() -> None:
    terminal, side = pty.openpty()
    command = [sys.executable, "-c", IN_THE_FOREGROUND, "devices", "--simulate", "a2", "--watch"]
    with subprocess.Popen(
        command, stdin=side, stdout=side, stderr=side, start_new_session=True
    ) as process:
        os.close(side)
        limit = threading.Timer(60, process.kill)  # then a read fails
        limit.start()
        shown = b""
        while b"0000:08:00.0" not in shown:
            shown += os.read(terminal, 65536)
        os.write(terminal, b"q")
        while b"\x1b[?1049l" not in shown:
            shown += os.read(terminal, 65536)
        assert termios.tcgetattr(terminal)[3] & termios.ECHO
        assert process.wait() == 0
        limit.cancel()
    os.close(terminal)
