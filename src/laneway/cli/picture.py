"""The memory of a GPU as a picture of text, to scale: what occupies it and what is free."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from laneway.cli.errors import one_line
from laneway.cli.table import fitted
from laneway.core.phrases import short_name
from laneway.core.vgpu.occupancy import Occupancy, Part
from laneway.views.memory import gib
from laneway.views.page import Picture

_WIDEST = 78
_NARROWEST = 34


class _Lines(NamedTuple):
    """What boxes are drawn with."""

    top: str
    """Left, middle and right corner."""
    bottom: str
    across: str
    down: str
    free: str


_UNICODE = _Lines("┌┬┐", "└┴┘", "─", "│", "░")
_ASCII = _Lines("+++", "+++", "-", "|", ".")


def lines(shown: Picture) -> Iterator[str]:
    """The picture, then a line for every part that is occupied."""
    found = shown.occupancy
    yield from boxes(found, width=_width(), unicode=_is_unicode())
    number = 0
    for part in found.parts:
        if not part.name:
            continue
        number += 1
        used = [_user(address, shown.holders) for address in part.addresses] or ["no vGPU"]
        words = f"{short_name(part.name)}, {gib(part.mib)}: {', '.join(used)}"
        first, *more = fitted(words, 6)
        yield f"{number:>2}  {first}"
        yield from (f"    {part}" for part in more)
    if number and not found.placed:
        yield from fitted(
            "The driver reports no positions; the order is that of the addresses or ids.", 2
        )


def _user(address: str, holders: Mapping[str, str]) -> str:
    holder = holders.get(address, "")
    return f"{address} {holder}" if holder else address


def boxes(found: Occupancy, *, width: int, unicode: bool) -> list[str]:
    """Three lines of boxes, as wide as the memory of each part."""
    style = _UNICODE if unicode else _ASCII
    widths = _scaled([part.mib for part in found.parts], width - len(found.parts) - 1)
    labels = _labels(found.parts, widths, style)
    return [
        _border(style.top, style, widths),
        style.down + style.down.join(labels) + style.down,
        _border(style.bottom, style, widths),
    ]


def _border(corners: str, style: _Lines, widths: Sequence[int]) -> str:
    left, middle, right = tuple(corners)
    return left + middle.join(style.across * width for width in widths) + right


def _scaled(sizes: Sequence[int], width: int) -> list[int]:
    """Widths in proportion that add up to the whole; nothing is narrower than one."""
    whole = sum(sizes)
    ends, so_far = [], 0
    for size in sizes:
        so_far += size
        ends.append(round(so_far * width / whole))
    found = [max(1, end - start) for start, end in zip([0, *ends], ends, strict=False)]
    while sum(found) > max(width, len(found)):
        found[found.index(max(found))] -= 1
    return found


def _labels(parts: Sequence[Part], widths: Sequence[int], style: _Lines) -> Iterator[str]:
    """The name where it fits, else the number of its line below, else nothing."""
    number = 0
    for part, width in zip(parts, widths, strict=True):
        if not part.name:
            text = next(
                (one for one in (f"free {gib(part.mib)}", "free") if len(one) <= width - 2), ""
            )
            yield (f" {text} " if text else "").center(width, style.free)
            continue
        number += 1
        choices = (f"{number} {one_line(short_name(part.name))}", str(number))
        yield next((one for one in choices if len(one) <= width), "").center(width)


def _width() -> int:
    return max(_NARROWEST, min(_WIDEST, shutil.get_terminal_size().columns - 6))


def _is_unicode() -> bool:
    try:
        "".join((*_UNICODE.top, _UNICODE.free)).encode(sys.stdout.encoding or "ascii")
    except UnicodeError:
        return False
    return True
