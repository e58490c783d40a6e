"""Profiles as people write them: `A2-4Q` for `NVIDIA A2-4Q`, and how many of each."""

from __future__ import annotations

import string
from collections import defaultdict
from collections.abc import Mapping

from laneway.core.phrases import several, short_name
from laneway.views.order import natural

_SERIES = string.ascii_uppercase


def counts(profiles: Mapping[str, int]) -> str:
    """`A2-4Q=2, A2-8Q=1`, in the order of their names; what there is none of is left out."""
    named = sorted(profiles.items(), key=lambda item: natural(short_name(item[0])))
    return ", ".join(several(name, count) for name, count in named if count)


def shortened(counts_: Mapping[str, int]) -> dict[str, int]:
    """The same counts by short names, without those that are zero."""
    return {short_name(name): count for name, count in counts_.items() if count}


def room(fits: Mapping[str, int]) -> str:
    """`16 x A2-1A/B/Q or 8 x A2-2A/B/Q`: what fits alone."""
    return " or ".join(alternatives(fits))


def alternatives(fits: Mapping[str, int]) -> list[str]:
    """What fits alone, the series of one size together.

    A driver offers fifty profiles for a card, and most differ in nothing but their series.
    """
    series: dict[tuple[str, int], list[str]] = defaultdict(list)
    for name, count in sorted(fits.items(), key=lambda item: natural(short_name(item[0]))):
        called = short_name(name)
        size = called.rstrip(_SERIES) or called
        if count:
            series[size, count].append(called.removeprefix(size))
    return [f"{count} x {size}{'/'.join(letters)}" for (size, count), letters in series.items()]
