"""Sessions of the documentation, typed again as they stand there, with what they say comes.

Lines that a command prints while it waits are left out on both sides. Where the document has `...`,
any lines may stand, and none. What is only looked at is looked at until it is as written: the rest
of a change follows its answer.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.processes import Laneway, environment

DOCS = Path(__file__).parents[2] / "docs/tutorials"
SECONDS = 60
PROGRESS = re.compile(r" +[0-9]+\.[0-9] s  ")
LOOKS = ("kubectl get", "laneway gpus", "laneway capacity", "laneway doctor", "laneway pools list")

Typed = tuple[str, list[str]]


def typed(document: str) -> Iterator[Typed]:
    """The commands of the console blocks, each with the lines that follow it."""
    for block in re.findall(r"^```console\n(.*?)^```$", document, re.MULTILINE | re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *lines = part.rstrip("\n").split("\n")
            while lines and lines[0].startswith("> "):
                command += f"\n{lines.pop(0)[2:]}"
            yield command, lines


def sections(document: str, *titles: str) -> Iterator[Typed]:
    """The commands of some sections of a document, in this order."""
    for title in titles:
        _, found, rest = document.partition(f"\n## {title}\n")
        assert found, title
        yield from typed(rest.partition("\n## ")[0])


def as_written(lines: list[str], found: list[str]) -> bool:
    parts = [r"(?:.*\n)*" if line == "..." else re.escape(line) + "\n" for line in lines]
    return re.fullmatch("".join(parts), "".join(f"{line}\n" for line in found)) is not None


class Terminal:
    """Both terminals of a session: Laneway runs in one, and the rest is typed in the other."""

    def __init__(self, folder: Path, kubeconfig: str = "") -> None:
        self.folder = folder
        self.up: Laneway | None = None
        beside = Path(sys.executable).parent
        self.environment = {
            **environment(),
            "PATH": f"{beside}{os.pathsep}{os.environ['PATH']}",
            "KUBECONFIG": kubeconfig or str(folder / ".laneway/kubeconfig"),
        }

    def type(self, command: str) -> list[str]:
        if command.startswith("laneway up "):
            self.stop()
            return self.start(command)
        if command.startswith("rm "):
            self.stop()
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        return [line for line in done.stdout.splitlines() if not PROGRESS.match(line)]

    def start(self, command: str) -> list[str]:
        _, *arguments = command.replace(".laneway", str(self.folder / ".laneway")).split()
        self.up = Laneway(*arguments, "--port", "0", "--ui-port", "0")
        self.up.until("Stop with Ctrl-C.")
        return list(self.up.lines)

    def stop(self) -> None:
        if self.up is not None:
            self.up.end(signal.SIGINT)
            self.up = None


def goes(session: list[Typed], terminal: Terminal) -> None:
    if shutil.which("kubectl", path=terminal.environment["PATH"]) is None:
        pytest.skip("kubectl is not installed")
    for command, lines in session:
        found = terminal.type(command)
        end = time.monotonic() + SECONDS
        while not as_written(lines, found) and command.startswith(LOOKS):
            if time.monotonic() > end:
                break
            found = terminal.type(command)
        assert as_written(lines, found), "\n".join([f"$ {command}", *found])
