"""Kernel command lines as the kernel reads them, and what contradicts what in them.

A word that is there already is never written again, and none is changed: where what is requested
contradicts what an administrator wrote, the word is named, and nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

BLACKLIST = "modprobe.blacklist"
"""Modules that are not loaded for a device. All lists of a command line count."""
_TO_INIT = "--"
"""What follows it is not the kernel's."""
_BLANKS = " \t\n\v\f\r"
_OPTION_LISTS = frozenset(("iommu", "intel_iommu", "amd_iommu"))
"""Parameters whose value is a list of options, and of which each occurrence counts."""
_REPEATED = _OPTION_LISTS | {BLACKLIST, "console", "earlycon", "hugepages", "hugepagesz", "pci"}
_OPPOSITES = {
    "intel_iommu=on": ("intel_iommu=off", "iommu=off"),
    "iommu=pt": ("iommu=nopt", "iommu=off", "iommu.passthrough=0"),
    "iommu.passthrough=1": ("iommu.passthrough=0",),
}
IOMMU_OFF = ("iommu=off", "intel_iommu=off", "amd_iommu=off")


def split(line: str) -> tuple[str, ...]:
    """The words as they are written. Blanks between double quotes do not end one."""
    words: list[str] = []
    word = ""
    quoted = False
    for character in line:
        if character in _BLANKS and not quoted:
            if word:
                words.append(word)
            word = ""
            continue
        quoted ^= character == '"'
        word += character
    return (*words, word) if word else tuple(words)


def of_kernel(words: Sequence[str]) -> tuple[str, ...]:
    """Those that the kernel reads itself, and does not pass to init."""
    return tuple(words[: words.index(_TO_INIT)] if _TO_INIT in words else words)


def name_of(word: str) -> str:
    """The parameter, spelled with `_`: to the kernel it is the same as `-`."""
    return word.replace('"', "").partition("=")[0].replace("-", "_")


def value_of(word: str) -> str:
    return word.replace('"', "").partition("=")[2]


def is_same(one: str, other: str) -> bool:
    """Whether two words are the same to the kernel."""
    return (name_of(one), value_of(one), "=" in one) == (
        name_of(other),
        value_of(other),
        "=" in other,
    )


def has(words: Iterable[str], wanted: str) -> bool:
    """Whether a word is among them, in whatever spelling; of a list, each of its options."""
    words = tuple(words)
    if name_of(wanted) in _OPTION_LISTS:
        return all(_find(words, option) for option in _options(wanted))
    return any(is_same(word, wanted) for word in words)


def against(words: Iterable[str], wanted: str) -> str:
    """The word among them that contradicts a wanted one; empty when none does."""
    words = tuple(words)
    for option in _options(wanted):
        for opposite in _OPPOSITES.get(option, ()):
            if found := _find(words, opposite):
                return found
    name = name_of(wanted)
    if name in _REPEATED:
        return ""
    return next((w for w in words if name_of(w) == name and not is_same(w, wanted)), "")


def iommu_off(words: Iterable[str]) -> str:
    """The word that switches off the IOMMU; empty when none does."""
    words = tuple(words)
    return next((found for off in IOMMU_OFF if (found := _find(words, off))), "")


def blocked(words: Iterable[str]) -> frozenset[str]:
    """Modules that the lists of all words keep from being loaded, spelled with `_`."""
    return frozenset(
        module.replace("-", "_")
        for word in words
        if name_of(word) == BLACKLIST
        for module in value_of(word).split(",")
        if module
    )


def huge_pages(words: Iterable[str]) -> dict[str, str]:
    """The counts by size, as they are written; size empty for those of the default size."""
    size, pages = "", {}
    for word in words:
        if name_of(word) == "hugepagesz":
            size = value_of(word).upper()
        elif name_of(word) == "hugepages":
            pages[size] = value_of(word)
            size = ""
    return pages


def lacks(words: Sequence[str], group: str) -> bool:
    """Whether a word must be added for what it means.

    Or words that belong together: `hugepagesz=1G hugepages=4`.
    """
    name = name_of(group)
    if name == "hugepagesz":
        [(size, count)] = huge_pages(group.split()).items()
        return huge_pages(words).get(size) != count
    if name == BLACKLIST:
        return not blocked([group]) <= blocked(words)
    return not has(words, group)


def without(words: Iterable[str], removed: Iterable[str]) -> tuple[str, ...]:
    """The words without the last occurrence of each removed one: what Laneway adds comes last."""
    left = list(words)[::-1]
    for word in tuple(removed)[::-1]:
        if word in left:
            left.remove(word)
    return tuple(left[::-1])


def _options(word: str) -> tuple[str, ...]:
    """The word, of a list one for each of its options."""
    name, value = name_of(word), value_of(word)
    values = value.split(",") if name in _OPTION_LISTS else [value]
    return tuple(f"{name}={one}" for one in values)


def _find(words: Iterable[str], wanted: str) -> str:
    """The word that is, or holds, a wanted one of one option."""
    [option] = _options(wanted)
    return next((word for word in words if option in _options(word)), "")
