"""A process of its own that carries out a plan in the rig's guest, and is killed on the way.

    python -m support.carrying_out PLAN-FILE STATE-FOLDER [kill|wait PHASE NUMBER]

It tells of every phase on its standard output, so that who started it can kill it in the middle of
one. As soon as it reports the given phase of the given step, it kills itself with SIGKILL, or waits
for a line on its standard input.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import msgspec

from laneway.core.plan import Plan
from laneway.host.plans.execute import Progress, execute
from support.machines import RigMachine, hardware


def main() -> None:
    plan = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Plan)
    node = hardware(RigMachine(), Path(sys.argv[2]))
    operation_names = sys.argv[3] if len(sys.argv) > 3 else ""
    moment = (sys.argv[4], int(sys.argv[5])) if operation_names else None

    def report(progress: Progress) -> None:
        there = (progress.phase, progress.number) == moment
        if there and operation_names == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        sys.stdout.write(f"{progress.phase} {progress.number}\n")
        sys.stdout.flush()
        if there and operation_names == "wait":
            sys.stdin.readline()

    asyncio.run(execute(node, plan, actor="victim", reason="crash test", progress=report))


if __name__ == "__main__":
    main()
