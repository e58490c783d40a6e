"""What the host will start at its next boot, by the files of its boot loader."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from laneway.core.preparation.arguments import (
    against,
    huge_pages,
    iommu_off,
    lacks,
    name_of,
    of_kernel,
    split,
    without,
)
from laneway.core.preparation.facts import BootFacts
from laneway.core.preparation.loaders import LOADERS
from laneway.core.preparation.loaders.loader import Entry, Loader


class Conflict(NamedTuple):
    """A word of an administrator's, and the file that it stands in."""

    word: str
    place: str


class Configured(NamedTuple):
    """Every way in which the host may be started, and what runs now."""

    loader: Loader | None
    """None where what boots the host is not known."""
    entries: tuple[Entry, ...]
    running: tuple[str, ...]
    """Words of the running kernel."""
    files: dict[str, str]

    def runs(self, group: str) -> bool:
        return not lacks(self.running, group)

    def will_run(self, group: str) -> bool:
        """Whether every kernel that may be started has the words."""
        return bool(self.entries) and not any(
            lacks(of_kernel(entry.words), group) for entry in self.entries
        )

    def is_theirs(self, group: str) -> bool:
        """Whether it has them without Laneway."""
        return bool(self.entries) and not any(lacks(words, group) for words in _theirs(self))

    def conflict(self, group: str) -> Conflict | None:
        """What an administrator wrote that contradicts words."""
        for words, entry in zip(_theirs(self), self.entries, strict=True):
            if word := _against(words, group):
                return Conflict(word, _source(self, word, entry))
        return None

    def iommu_off(self) -> Conflict | None:
        for words, entry in zip(_theirs(self), self.entries, strict=True):
            if word := iommu_off(words):
                return Conflict(word, _source(self, word, entry))
        return None


def configured(facts: BootFacts) -> Configured:
    """What the files of a host say."""
    loader = LOADERS.get(facts.loader.name)
    files = dict(facts.loader.files)
    entries = loader.entries(files) if loader else ()
    return Configured(loader, entries, of_kernel(split(facts.command_line)), files)


def damage(facts: BootFacts) -> tuple[str, ...]:
    """What would keep the host from booting, in words."""
    loader = LOADERS.get(facts.loader.name)
    found = tuple(loader.damage(facts.loader.files)) if loader else ()
    missing = tuple(f"{path}, which an entry starts, is not there" for path in facts.loader.missing)
    return (*found, *missing)


def _against(words: Sequence[str], group: str) -> str:
    if name_of(group) != "hugepagesz":
        return against(words, group)
    [(size, count)] = huge_pages(group.split()).items()
    theirs = huge_pages(words)
    # A count without a size would be taken for one of the size that Laneway writes before it.
    for other in (size, ""):
        if theirs.get(other, count) != count or (not other and other in theirs):
            return f"hugepages={theirs[other]}"
    return ""


def _uncommented(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))


def _theirs(boot: Configured) -> list[tuple[str, ...]]:
    return [of_kernel(without(entry.words, entry.ours)) for entry in boot.entries]


def _source(boot: Configured, word: str, entry: Entry) -> str:
    """Where people change it: not what a program makes."""
    for path, text in sorted(boot.files.items()):
        if boot.loader and boot.loader.sources(path) and word in _uncommented(text):
            return path
    return entry.place
