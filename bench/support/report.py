"""How measurements are printed: where they were made, then tables whose columns line up."""

from __future__ import annotations

import argparse
import os
import platform
import statistics
from collections.abc import Sequence


def arguments(about: str | None) -> argparse.ArgumentParser:
    """A parser that shows a script's own account of itself as its help."""
    return argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def header() -> None:
    """One line on the machine: numbers mean nothing without it."""
    usable = len(os.sched_getaffinity(0))
    print(
        f"{usable} cores ({_processor()}), load {os.getloadavg()[0]:.1f}, "
        f"Linux {platform.release()}, {platform.python_implementation()} "
        f"{platform.python_version()}"
    )


def table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Texts to the left in the first column, numbers to the right in the others."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    print(f"\n{title}")
    for row in (head, *rows):
        first, *others = (
            text.ljust(width) if at == 0 else text.rjust(width)
            for at, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        print("  " + "  ".join([first, *others]).rstrip())


def percentile(values: Sequence[float], percent: int) -> float:
    """The value that so many percent of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


def ms(seconds: float) -> str:
    return f"{seconds * 1e3:,.2f}"


def middle(values: Sequence[float]) -> float:
    return statistics.median(values)


def _processor() -> str:
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()
