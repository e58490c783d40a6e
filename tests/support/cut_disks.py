"""What a simulated host keeps when it is rebooted, and the moments to kill who writes to it."""

from __future__ import annotations

import itertools
import os

from laneway.sim.faults import When
from laneway.sim.host import SimulatedHost


def disk(host: SimulatedHost) -> dict[str, bytes]:
    """Every file that a boot and its configuration come from."""
    found: dict[str, bytes] = {}

    def walk(folder: str) -> None:
        for name, is_folder in host.entries(folder).items():
            if is_folder:
                walk(f"{folder}/{name}")
            else:
                found[f"{folder}/{name}"] = host.read(f"{folder}/{name}")

    for top in ("/boot", "/etc", "/oem"):
        if host.exists(top):
            walk(top)
    return found


def kills(count: int) -> list[tuple[int, When]]:
    """Every write with every moment, or with one in turn: see `test_crash_contract`."""
    moments: tuple[When, ...] = ("before", "during", "after")
    if os.environ.get("LANEWAY_KILLS"):
        return list(itertools.product(range(1, count + 1), moments))
    return [(number, moments[number % 3]) for number in range(1, count + 1)]
