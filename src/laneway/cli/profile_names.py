"""Profiles as people write them: `A2-4Q` for `NVIDIA A2-4Q`, and how many of each.

A short name, in any case, means the one known profile of the GPU that ends with it. An unknown name
is accepted only in full: the driver of the node may be newer than every list, and otherwise the
agent refuses it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

import click

from laneway.cli.errors import Failure
from laneway.cli.suggest import did_you_mean
from laneway.core.phrases import short_name
from laneway.core.vgpu import spelling
from laneway.views.order import natural

MOST = 64
"""vGPUs of one profile that a layout can have."""

_COUNTED = re.compile(r"([!-<>-~](?:[ -<>-~]*[!-<>-~])?)(?:=([0-9]{1,4}))?")
_COUNT_FIRST = re.compile(r"([0-9]+)\s*[xX]\s*(.+)")
_QUOTES = "\"'"
_NAMED = 12


def desired(values: Iterable[str]) -> dict[str, int]:
    """The vGPUs of `PROFILE[=COUNT]...`, by profile as it is written; empty for `none`."""
    wanted: Counter[str] = Counter()
    nothing = False
    for value in values:
        if first := _COUNT_FIRST.fullmatch(value.strip()[:60]):
            raise click.BadParameter(
                f"{value[:60]!r}: the count follows the profile; write "
                f"{first[2].strip(_QUOTES)}={first[1]}"
            )
        match = _COUNTED.fullmatch(value.strip())
        count = int(match[2] or 1) if match else 0
        if match is None or not 1 <= count <= MOST:
            raise click.BadParameter(
                f"{value[:60]!r} is no profile with a count from 1 to {MOST}; write A2-4Q, "
                "A2-4Q=2, or none for no vGPU"
            )
        if match[1].lower() == "none":
            if match[2]:
                raise click.BadParameter(f"{value[:60]!r}: none takes no count")
            nothing = True
        else:
            wanted[match[1]] += count
    if nothing and wanted:
        raise click.BadParameter("none means no vGPU; leave out none, or the profiles")
    if any(count > MOST for count in wanted.values()):
        raise click.BadParameter(f"a GPU has at most {MOST} vGPUs of one profile")
    return dict(wanted)


def in_full(
    wanted: Mapping[str, int], driver: Iterable[str], catalogue: Iterable[str] = ()
) -> dict[str, int]:
    """The same in the driver's names. Raises Failure where a name is unknown or ambiguous.

    `driver`: the profiles that the driver names, which take precedence over the `catalogue`.
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
            f"no profile of the GPU is known yet, so {text} could be a mistake; write the name in "
            f'full, as the driver prints it: "NVIDIA {text}"'
        )
    offered = sorted(set(map(short_name, known)), key=natural)
    meant = did_you_mean(short_name(text), offered)
    listed = ", ".join([*offered[:_NAMED], *["..."] * (len(offered) > _NAMED)])
    raise Failure(f"the GPU has no profile {text}. {meant or f'Its profiles are {listed}'}")
