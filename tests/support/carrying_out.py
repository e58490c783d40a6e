"""A process of its own that carries out a plan in the rig's guest, and is killed on the way.

    python -m support.carrying_out PLAN-FILE STATE-FOLDER [PHASE NUMBER]

It kills itself with SIGKILL as soon as it reports that phase of that step, else it tells of every
phase on its standard output, so that who started it can kill it in the middle of one.
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
    fatal = (sys.argv[3], int(sys.argv[4])) if len(sys.argv) > 3 else None

    def report(progress: Progress) -> None:
        if (progress.phase, progress.number) == fatal:
            os.kill(os.getpid(), signal.SIGKILL)
        sys.stdout.write(f"{progress.phase} {progress.number}\n")
        sys.stdout.flush()

    asyncio.run(execute(node, plan, actor="victim", reason="crash test", progress=report))


if __name__ == "__main__":
    main()
