#!/usr/bin/env python3
"""Run checks and test tiers next to each other, as many as the processors bear: steps.py STEP...

    steps.py all      every step
    steps.py tiers    every step but those that are make targets

Each step writes to a file, and what it wrote is printed in one piece when it ends. All steps run,
even if one fails. A table at the end says how each went, how long it took and how many CPU seconds.
A tier that cannot be prepared here is left out; in CI (CI=true) that is a failure.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, NoReturn

LEFT_OUT = 3
"""How tools/tiers.sh ends when a tier cannot be prepared."""


@dataclass(frozen=True)
class Step:
    """One command; `load` is how many processors it keeps busy when it runs alone."""

    name: str
    load: float
    command: tuple[str, ...]


def tier(name: str, load: float) -> Step:
    return Step(name, load, ("tools/tiers.sh", name))


def target(name: str, load: float) -> Step:
    return Step(name, load, ("make", "--no-print-directory", name))


# What takes longest comes first, so that nothing long begins when all else has ended.
STEPS = [
    target("test", 1.9),
    tier("kernel-vendor", 0.7),
    tier("laws", 1.9),
    tier("kernel-mdev", 0.7),
    tier("realapi", 0.7),
    tier("kernel-nodes", 0.9),
    tier("kernel-boot", 0.8),
    tier("kernel-crosswise", 0.7),
    tier("kernel-toolkit", 0.9),
    tier("current", 0.7),
    tier("libraries", 0.8),
    target("check", 1.0),
    tier("durability", 1.0),
    tier("vcenter", 1.0),
    tier("driver", 0.9),
    tier("browser", 1.2),
    tier("terraform", 1.2),
    tier("changes", 0.8),
    tier("fuzz", 0.7),
    tier("image", 0.6),
    tier("wheels", 0.8),
    tier("docs", 1.0),
    tier("chart", 1.0),
]
MORE = 0.7
"""So many processors' load is added to what there are: steps that wait leave gaps."""


@dataclass
class Running:
    """A step that has begun."""

    step: Step
    output: IO[bytes]
    began: float


@dataclass(frozen=True)
class Result:
    """How a step ended."""

    name: str
    verdict: str
    wall: float
    cpu: float


class Runner:
    """Starts steps in order, each as soon as there is room for it."""

    def __init__(self, steps: list[Step], room: float) -> None:
        self._waiting = list(steps)
        self._room = room
        self._running: dict[int, Running] = {}
        self.results: list[Result] = []

    def run(self) -> None:
        with _signals(self._stop):
            while self._waiting or self._running:
                self._start_what_fits()
                self._wait()

    def _start_what_fits(self) -> None:
        busy = sum(one.step.load for one in self._running.values())
        for step in list(self._waiting):
            if not self._running or busy + step.load <= self._room:
                self._waiting.remove(step)
                self._start(step)
                busy += step.load

    def _start(self, step: Step) -> None:
        output = tempfile.TemporaryFile()  # noqa: SIM115 - closed once it was shown
        print(f"== {step.name}: started", flush=True)
        pid = os.posix_spawnp(
            step.command[0],
            step.command,
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, output.fileno(), 1),
                (os.POSIX_SPAWN_DUP2, output.fileno(), 2),
            ],
            setpgroup=0,  # so that a signal reaches all of it
        )
        self._running[pid] = Running(step, output, time.monotonic())

    def _wait(self) -> None:
        pid, status, used = os.wait3(0)
        one = self._running.pop(pid)
        code = os.waitstatus_to_exitcode(status)
        verdict = {0: "passed", LEFT_OUT: "LEFT OUT"}.get(code, "FAILED")
        result = Result(
            one.step.name, verdict, time.monotonic() - one.began, used.ru_utime + used.ru_stime
        )
        self.results.append(result)
        _show(one)
        print(f"== {one.step.name}: {verdict} in {result.wall:.0f} s", flush=True)

    def _stop(self, number: int) -> NoReturn:
        for pid, one in self._running.items():
            os.killpg(pid, signal.SIGTERM)
            _show(one)
        for pid in self._running:
            os.waitpid(pid, 0)
        sys.exit(128 + number)


def _show(one: Running) -> None:
    print(f"\n======== {one.step.name} ========", flush=True)
    one.output.seek(0)
    sys.stdout.buffer.write(one.output.read())
    sys.stdout.buffer.flush()
    one.output.close()


@contextmanager
def _signals(stop: Callable[[int], NoReturn]) -> Iterator[None]:
    def handle(number: int, _frame: object) -> None:
        signal.signal(number, signal.SIG_IGN)
        stop(number)

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def chosen(names: list[str]) -> list[Step]:
    if names == ["all"]:
        return STEPS
    if names == ["tiers"]:
        return [step for step in STEPS if step.command[0] != "make"]
    by_name = {step.name: step for step in STEPS}
    if not names or set(names) - by_name.keys():
        sys.exit(f"{__doc__}\nsteps: {' '.join(by_name)}")
    return [by_name[name] for name in names]


def main() -> int:
    os.chdir(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    steps = chosen(sys.argv[1:])
    began = time.monotonic()
    runner = Runner(steps, (os.cpu_count() or 1) + MORE)
    runner.run()
    wall = time.monotonic() - began
    print(f"\n{'step':18} {'verdict':10} {'wall s':>7} {'CPU s':>7}")
    for one in runner.results:
        print(f"{one.name:18} {one.verdict:10} {one.wall:7.0f} {one.cpu:7.0f}")
    print(f"{'all':18} {'':10} {wall:7.0f} {sum(one.cpu for one in runner.results):7.0f}")
    accepted = {"passed"} if os.environ.get("CI") == "true" else {"passed", "LEFT OUT"}
    return 0 if all(one.verdict in accepted for one in runner.results) else 1


if __name__ == "__main__":
    sys.exit(main())
