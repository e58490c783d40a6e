"""Everything that changing a node needs: its files, its driver's programs, what Laneway remembers."""

from __future__ import annotations

from typing import NamedTuple

from laneway.host.port import Executor, Host
from laneway.host.plans.state import StateFolder


class Hardware(NamedTuple):
    """One node, as plans see it."""

    host: Host
    executor: Executor
    state: StateFolder
