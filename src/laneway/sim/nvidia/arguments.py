"""Command lines in the style of NVIDIA's programs: short words with one dash, values after them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

Arguments = dict[str, str]
"""The value of each option that was given; empty for one without."""


class UsageError(Exception):
    """The command line makes no sense to the program."""


def parse(
    words: Sequence[str],
    valued: Collection[str],
    flags: Collection[str],
    optional: Collection[str] = (),
) -> Arguments:
    """Options by name: with a value, without, and with one that may be left out."""
    found: Arguments = {}
    rest = list(words)
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        if name in flags and not equals:
            found[name] = ""
        elif name in optional and (not rest or rest[0].startswith("-")):
            found[name] = value
        elif name in valued or name in optional:
            if not equals:
                if not rest:
                    raise UsageError(f"Option {name} requires a value.")
                value = rest.pop(0)
            found[name] = value
        else:
            raise UsageError(f"Invalid combination of input arguments: {name}.")
    return found
