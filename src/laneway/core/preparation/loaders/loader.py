"""What Laneway must know of a boot loader: what it starts, and how words get to it and off again.

Everything is a function of the texts of its files, so that what a step would leave is judged before
it is written, by the same code that judges what is there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from laneway.core.plan import SetBootArguments

ABOUT = "# Written by Laneway. To take it back: laneway host prepare --undo\n"
"""The first line of a file that is Laneway's alone."""
Files = Mapping[str, str]
"""Texts by path."""


class Entry(NamedTuple):
    """One way in which the loader starts Linux."""

    place: str
    """The file that it stands in."""
    words: tuple[str, ...]
    """Of the kernel command line, Laneway's included."""
    ours: tuple[str, ...] = ()
    """Those that Laneway wrote."""
    kernel: str = ""
    """Path as the loader has it; empty where it is not in these files."""
    initrds: tuple[str, ...] = ()


class Generator(NamedTuple):
    """A program that makes the loader's configuration from other files."""

    program: str
    config: str
    """What is booted from."""
    candidate: str
    """Where it is made first. As long as this file exists, the configuration may be older than what
    it is made from."""


class Loader(NamedTuple):
    """One boot loader."""

    entries: Callable[[Files], tuple[Entry, ...]]
    """Of the system that runs; without rescue entries, which stay as they are."""
    boots: Callable[[Files], tuple[Entry, ...]]
    """All that can be started, rescue entries included: their kernels must be there."""
    steps: Callable[[Files, Sequence[str]], tuple[SetBootArguments, ...]]
    """What makes the words of Laneway in every entry exactly these (groups of `arguments.lacks`),
    as far as an administrator did not write them there. Raises ValueError when they cannot be
    written."""
    damage: Callable[[Files], Iterator[str]]
    """What in these files would keep the machine from booting, in words."""
    allowed: Callable[[str], bool]
    """Whether Laneway may write a path for this loader: a closed table."""
    sources: Callable[[str], bool]
    """Whether people write kernel arguments to a file."""
    generator: Generator | None = None


def put_on(line: str, words: Sequence[str]) -> str:
    """A command line with words at its end; what was there stays as it is, to the byte."""
    return f"{line} {' '.join(words)}" if words else line


def take_off(line: str, words: Sequence[str]) -> str:
    """The line without words that were put on."""
    if words and line.endswith(f" {' '.join(words)}"):
        return line.removesuffix(f" {' '.join(words)}")
    for word in words:
        # Something was written after them, or between them.
        found = list(re.finditer(rf" {re.escape(word)}(?=\s|$)", line))
        if found:
            line = line[: found[-1].start()] + line[found[-1].end() :]
    return line
