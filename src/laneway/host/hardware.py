"""What changing a node needs: its files, its driver's programs, what Laneway remembers of it."""

from __future__ import annotations

from typing import NamedTuple

from laneway.host.holders import Workloads, no_workloads
from laneway.host.plans.audit import Listener, Recorder, unheard, unrecorded
from laneway.host.plans.state import StateFolder
from laneway.host.port import Executor, Host


class Hardware(NamedTuple):
    """One node, as plans see it."""

    host: Host
    executor: Executor
    state: StateFolder
    workloads: Workloads = no_workloads
    ended: Listener = unheard
    """What hears of each plan that has ended."""
    recorded: Recorder = unrecorded
    """What else gets the lines of the audit record."""
