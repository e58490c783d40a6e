"""Profiles as people write them: `A2-4Q` for `NVIDIA A2-4Q`, and how many of each.

A short name is taken where exactly one profile that is known for the GPU ends with it. A name that
nobody knows is taken as it is written only in full: the driver of the node may be newer than every
list, and its agent says so if not.
"""

from __future__ import annotations

import re
import string
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from difflib import get_close_matches

import click

from laneway.cli.errors import Failure
from laneway.cli.labels import natural
from laneway.core.vgpu import spelling
from laneway.core.vgpu.spelling import short_name

MOST = 64
"""vGPUs of one profile that a layout can ask for."""

_DESIRED = re.compile(r"([!-<>-~](?:[ -<>-~]*[!-<>-~])?)(?:=([0-9]{1,4}))?")
_COUNT_FIRST = re.compile(r"([0-9]+)\s*[xX]\s*(.+)")
"""How `laneway host` was told until 0.1."""
_NAMED = 12
_ALIKE = 0.7
_SERIES = string.ascii_uppercase


def counts(profiles: Mapping[str, int]) -> str:
    """`2 x A2-4Q, 1 x A2-8Q`, in the order of their names; what there is none of is left out."""
    named = sorted(profiles.items(), key=lambda item: natural(short_name(item[0])))
    return ", ".join(f"{count} x {short_name(name)}" for name, count in named if count)


def room(fits: Mapping[str, int]) -> str:
    """`16 x A2-1A/B/Q, 8 x A2-2A/B/Q`: what fits, the series of one size together.

    A driver offers fifty profiles for a card, and most differ in nothing but their series.
    """
    series: dict[tuple[str, int], list[str]] = defaultdict(list)
    for name, count in sorted(fits.items(), key=lambda item: natural(short_name(item[0]))):
        called = short_name(name)
        size = called.rstrip(_SERIES) or called
        if count:
            series[size, count].append(called.removeprefix(size))
    return ", ".join(
        f"{count} x {size}{'/'.join(letters)}" for (size, count), letters in series.items()
    )


def desired_states(values: Iterable[str]) -> dict[str, int]:
    """What `PROFILE[=COUNT]...` asks for, by name as it is written; empty for `none`."""
    wanted: Counter[str] = Counter()
    nothing = False
    for value in values:
        if old := _COUNT_FIRST.fullmatch(value.strip()[:60]):
            name = old[2].strip("\"'")
            raise click.BadParameter(
                f'{value[:60]!r}: the count follows the profile; write "{name}={old[1]}"'
            )
        match = _DESIRED.fullmatch(value.strip())
        count = int(match[2] or 1) if match else 0
        if match is None or not 1 <= count <= MOST:
            raise click.BadParameter(
                f"{value[:60]!r} is no profile with a count from 1 to {MOST}; write A2-4Q, "
                '"NVIDIA A2-4Q=2", or none for no vGPU'
            )
        if match[1].lower() == "none":
            nothing = True
        else:
            wanted[match[1]] += count
    if nothing and wanted:
        raise click.BadParameter("none stands for no vGPU at all; leave it, or the profiles, out")
    if any(count > MOST for count in wanted.values()):
        raise click.BadParameter(f"a GPU has at most {MOST} vGPUs of one profile")
    return dict(wanted)


def in_full(
    wanted: Mapping[str, int], driver: Iterable[str], catalogue: Iterable[str] = ()
) -> dict[str, int]:
    """The same in the driver's names. Raises Failure where a short name tells too little.

    `driver`: the profiles that it names itself, which count before those of the `catalogue`.
    """
    listed = tuple(driver)
    names = sorted({*listed, *catalogue}, key=natural)
    found: Counter[str] = Counter()
    for name, count in wanted.items():
        found[_full(spelling.in_full(name, listed), names)] += count
    return dict(found)


def _full(text: str, known: list[str]) -> str:
    found = spelling.matches(text, known)
    if len(found) == 1:
        return found[0]
    if found:
        raise Failure(f"{text} could be each of {', '.join(found)}; write the name in full")
    if " " in text:
        return text
    if not known:
        raise Failure(
            f"no profile of this GPU is known yet, so {text} cannot be told from a mistake; write "
            f'the name in full, as the driver prints it, such as "NVIDIA {text}"'
        )
    offered = sorted(set(map(short_name, known)), key=natural)
    close = get_close_matches(short_name(text).upper(), offered, n=_NAMED, cutoff=_ALIKE)
    listed = ", ".join(sorted(close, key=natural) or offered[:_NAMED])
    more = ", ..." if not close and len(offered) > _NAMED else ""
    meant = "the closest are" if close else "it has"
    raise Failure(f"this GPU has no profile {text}; {meant} {listed}{more}")
